package pe

import (
	"unicode/utf16"
)

const (
	typeVersion  = 16
	typeManifest = 24
	englishUS    = 0x409
	unicodePage  = 1200
)

// manifest tells Windows that the program asks for no rights, reads paths of
// any length and speaks UTF-8.
const manifest = `<?xml version="1.0" encoding="UTF-8" standalone="yes"?>
<assembly xmlns="urn:schemas-microsoft-com:asm.v1" manifestVersion="1.0">
  <trustInfo xmlns="urn:schemas-microsoft-com:asm.v3">
    <security><requestedPrivileges><requestedExecutionLevel level="asInvoker" uiAccess="false"/></requestedPrivileges></security>
  </trustInfo>
  <application xmlns="urn:schemas-microsoft-com:asm.v3">
    <windowsSettings>
      <longPathAware xmlns="http://schemas.microsoft.com/SMI/2016/WindowsSettings">true</longPathAware>
      <activeCodePage xmlns="http://schemas.microsoft.com/SMI/2019/WindowsSettings">UTF-8</activeCodePage>
    </windowsSettings>
  </application>
  <compatibility xmlns="urn:schemas-microsoft-com:compatibility.v1">
    <application><supportedOS Id="{8e0f7a12-bfb3-4fe8-b9a5-48fd50a15a9a}"/></application>
  </compatibility>
</assembly>
`

// resourceSection returns the section at the given address: a tree of three
// levels (type, name, language) for each of the two resources, the entries
// that say where their data is, and the data.
func resourceSection(address int, version []byte) []byte {
	resources := []struct {
		kind uint32
		data []byte
	}{{typeVersion, version}, {typeManifest, []byte(manifest)}}
	const table, entry, leaf = 16, 8, 16
	names := table + entry*len(resources)
	languages := names + (table+entry)*len(resources)
	leaves := languages + (table+entry)*len(resources)
	data := leaves + leaf*len(resources)

	const subtree = 1 << 31
	out := directoryTable(len(resources))
	for i, r := range resources {
		out = le.AppendUint32(out, r.kind)
		out = le.AppendUint32(out, subtree|uint32(names+(table+entry)*i))
	}
	for i := range resources {
		out = append(out, directoryTable(1)...)
		out = le.AppendUint32(out, 1)
		out = le.AppendUint32(out, subtree|uint32(languages+(table+entry)*i))
	}
	for i := range resources {
		out = append(out, directoryTable(1)...)
		out = le.AppendUint32(out, englishUS)
		out = le.AppendUint32(out, uint32(leaves+leaf*i))
	}
	var body []byte
	for _, r := range resources {
		out = le.AppendUint32(out, uint32(address+data+len(body)))
		out = le.AppendUint32(out, uint32(len(r.data)))
		out = le.AppendUint32(out, 0)
		out = le.AppendUint32(out, 0)
		body = pad(append(body, r.data...), 8)
	}
	return append(out, body...)
}

// directoryTable is the head of a node with so many numbered entries.
func directoryTable(entries int) []byte {
	out := make([]byte, 14, 16)
	return le.AppendUint16(out, uint16(entries))
}

// version returns the version resource.
func (i Info) version(n [4]uint16) []byte {
	high, low := uint32(n[0])<<16|uint32(n[1]), uint32(n[2])<<16|uint32(n[3])
	var fixed []byte
	for _, v := range []uint32{
		0xfeef04bd, 0x10000, high, low, high, low,
		0x3f, 0, // no flags: a release
		0x40004, 1, 0, // Windows, a program
		0, 0,
	} {
		fixed = le.AppendUint32(fixed, v)
	}
	strings := []struct{ key, value string }{
		{"CompanyName", i.Company},
		{"FileDescription", i.Description},
		{"FileVersion", i.Version},
		{"InternalName", i.File},
		{"LegalCopyright", i.Copyright},
		{"OriginalFilename", i.File},
		{"ProductName", i.Product},
		{"ProductVersion", i.Version},
	}
	var table []byte
	for _, s := range strings {
		value := text(s.value)
		table = append(pad(table, 4), block(s.key, true, len(value)/2, value, nil)...)
	}
	table = block("040904b0", true, 0, nil, table)
	translation := le.AppendUint16(le.AppendUint16(nil, englishUS), unicodePage)
	variable := block("Translation", false, len(translation), translation, nil)
	children := pad(block("StringFileInfo", true, 0, nil, table), 4)
	children = append(children, block("VarFileInfo", true, 0, nil, variable)...)
	return block("VS_VERSION_INFO", false, len(fixed), fixed, children)
}

// block is one node of a version resource: its length, the length of its
// value, whether that is text, its key, the value and the nodes below it, each
// on a boundary of four bytes.
func block(key string, isText bool, valueLength int, value, children []byte) []byte {
	kind := uint16(0)
	if isText {
		kind = 1
	}
	out := le.AppendUint16(nil, 0)
	out = le.AppendUint16(out, uint16(valueLength))
	out = le.AppendUint16(out, kind)
	out = pad(append(out, text(key)...), 4)
	out = append(out, value...)
	if len(children) > 0 {
		out = append(pad(out, 4), children...)
	}
	le.PutUint16(out, uint16(len(out)))
	return out
}

// text is s in UTF-16 with a zero behind it.
func text(s string) []byte {
	var out []byte
	for _, unit := range utf16.Encode([]rune(s)) {
		out = le.AppendUint16(out, unit)
	}
	return append(out, 0, 0)
}

func pad(b []byte, to int) []byte { return append(b, make([]byte, align(len(b), to)-len(b))...) }
