package mcpb_test

import (
	"bytes"
	"encoding/binary"
	"syscall"
	"testing"

	"bellman.sh/desktop/build/mcpb"
)

// extra is a file beside those of a bundle.
const extra = "extra/file"

// central returns the place of a field in the directory entry of extra.
func central(t *testing.T, bundle []byte, field int) []byte {
	t.Helper()
	at := bytes.LastIndex(bundle, []byte(extra)) - 46
	if at < 0 || !bytes.HasPrefix(bundle[at:], []byte("PK\x01\x02")) {
		t.Fatalf("%s has no entry", extra)
	}
	return bundle[at+field:]
}

// Two readers of one archive may see two things: a host takes the first of two
// entries or the last, follows a link, finds an archive in the comment of
// another. A bundle that leaves room for that is none, whoever signed it.
func TestReadTakesOnlyWhatPackWrites(t *testing.T) {
	files := append(sample(t), mcpb.File{Name: extra, Data: []byte("x")}, mcpb.File{Name: "LICENCE"})
	mode := func(mode uint32) func([]byte) []byte {
		return func(b []byte) []byte {
			binary.LittleEndian.PutUint32(central(t, b, 38), mode<<16)
			return b
		}
	}
	named := func(name string) func([]byte) []byte {
		return func(b []byte) []byte { return bytes.ReplaceAll(b, []byte(extra), []byte(name)) }
	}
	manifestOf := func(old, text string) func([]byte) []byte {
		return func([]byte) []byte {
			changed := append([]mcpb.File(nil), files...)
			changed[1].Data = bytes.Replace(encoded(t), []byte(old), []byte(text), 1)
			return pack(t, changed)
		}
	}
	for name, change := range map[string]func(bundle []byte) []byte{
		"bytes behind it":       func(b []byte) []byte { return append(b, "garbage"...) },
		"bytes before it":       func(b []byte) []byte { return append([]byte("#!/bin/sh\n"), b...) },
		"an archive behind it":  func(b []byte) []byte { return append(b, pack(t, files[:2])...) },
		"a comment":             func(b []byte) []byte { b[len(b)-2] = 1; return append(b, '!') },
		"one name twice":        func(b []byte) []byte { return bytes.ReplaceAll(b, []byte("LICENCE"), []byte("LICENSE")) },
		"a name that leaves":    named("../../file"),
		"a name from the root":  named("/tmp//file"),
		"a folder":              named("extra/dir/"),
		"a link":                mode(syscall.S_IFLNK | 0o777),
		"a device":              mode(syscall.S_IFCHR | 0o644),
		"a set-user-ID program": mode(syscall.S_IFREG | 0o4755),
		"two names of one file": func(b []byte) []byte { return bytes.Replace(b, []byte(extra), []byte("extra/rest"), 1) },
		"another check sum":     func(b []byte) []byte { central(t, b, 16)[0] ^= 1; return b },
		"a smaller size":        func(b []byte) []byte { central(t, b, 24)[0] = 0; return b },
		"a size beyond hosts'": func(b []byte) []byte {
			binary.LittleEndian.PutUint32(central(t, b, 24), 0xfffffffe)
			return b
		},
		"a flag":                  func(b []byte) []byte { central(t, b, 8)[0] = 1; return b },
		"a time":                  func(b []byte) []byte { central(t, b, 12)[0]++; return b },
		"less than it was":        func(b []byte) []byte { return b[:len(b)-1] },
		"a key twice":             manifestOf(`"name"`, `"name": "other", "name"`),
		"a key in another case":   manifestOf(`"name"`, `"Name"`),
		"a manifest with a mark":  manifestOf(`{`, "\ufeff{"),
		"a manifest with a space": manifestOf(`{`, " {"),
	} {
		t.Run(name, func(t *testing.T) {
			if _, _, err := mcpb.Read(change(pack(t, files))); err == nil {
				t.Error("it was read")
			}
		})
	}
	sealed := seal(t, pack(t, files), []byte("signature"))
	for name, bundle := range map[string][]byte{"a bundle": pack(t, files), "a sealed one": sealed} {
		if _, got, err := mcpb.Read(bundle); err != nil || len(got) != len(files) {
			t.Errorf("%s: %d files, err = %v", name, len(got), err)
		}
	}
	binary.LittleEndian.PutUint32(central(t, sealed, 38), (syscall.S_IFLNK|0o777)<<16)
	if _, _, err := mcpb.Read(sealed); err == nil {
		t.Error("a sealed bundle with a link was read")
	}
}

// Sizes are only claims, the largest that can be written included: an archive
// of some hundred bytes never takes more memory than a host would give it.
func TestReadBelievesNoSize(t *testing.T) {
	bundle := pack(t, []mcpb.File{{Name: "manifest.json", Data: encoded(t)}, {Name: "x", Data: []byte("x")}})
	entry := bytes.LastIndex(bundle, []byte("x"))
	wide := binary.LittleEndian.AppendUint64([]byte{1, 0, 8, 0}, 1<<62) // the extra field with a size of 64 bits
	binary.LittleEndian.PutUint32(bundle[entry-46+24:], 0xffffffff)
	binary.LittleEndian.PutUint16(bundle[entry-46+30:], uint16(len(wide)))
	end := len(bundle) - 22
	binary.LittleEndian.PutUint32(bundle[end+12:], binary.LittleEndian.Uint32(bundle[end+12:])+uint32(len(wide)))
	claims := append(append(bytes.Clone(bundle[:entry+1]), wide...), bundle[entry+1:]...)
	if _, _, err := mcpb.Read(claims); err == nil {
		t.Error("it was read")
	}
}

func FuzzRead(f *testing.F) {
	var b bytes.Buffer
	if err := mcpb.Pack(&b, []mcpb.File{{Name: "manifest.json", Data: []byte("{}")}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(_ *testing.T, data []byte) { _, _, _ = mcpb.Read(data) })
}
