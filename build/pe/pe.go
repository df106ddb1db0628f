// Package pe gives a linked Windows program a version resource and an
// application manifest. Without them the program has no name in the task
// manager and in dialogs, and scanners trust it less. (bundle.md 3)
package pe

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"strings"
)

var le = binary.LittleEndian

const (
	peOffset      = 0x3c // where the file says its PE header is
	coffSize      = 24   // with the signature before it
	sectionSize   = 40
	magicPE32Plus = 0x20b
	readableData  = 0x40000040
	resourceTable = 2 // index of the data directory
	securityTable = 4
)

// Info is what Windows shows about a program.
type Info struct {
	// Version is a semantic version; what follows the patch is shown as text
	// only.
	Version string
	// File is the name the program ships under.
	File        string
	Product     string
	Description string
	Company     string
	Copyright   string
}

// Stamp returns the 64-bit program data with a section of resources that holds
// info. It must be done before the program is signed. The same input gives the
// same bytes. A program that has resources or a signature already is an error.
func Stamp(data []byte, info Info) ([]byte, error) {
	h, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("stamp %s: %w", info.File, err)
	}
	for _, table := range []int{resourceTable, securityTable} {
		if address, size := h.directory(data, table); address != 0 || size != 0 {
			return nil, fmt.Errorf("stamp %s: data directory %d is taken", info.File, table)
		}
	}
	room := h.sectionsEnd + sectionSize
	if room > h.headersSize || !zero(data[h.sectionsEnd:room]) {
		return nil, fmt.Errorf("stamp %s: no room for a section", info.File)
	}
	version, err := numbers(info.Version)
	if err != nil {
		return nil, fmt.Errorf("stamp %s: %w", info.File, err)
	}
	start := align(len(data), h.fileAlign)
	resources := resourceSection(h.imageSize, info.version(version))
	out := append(bytes.Clone(data), make([]byte, start-len(data))...)
	out = append(out, resources...)
	out = append(out, make([]byte, align(len(out), h.fileAlign)-len(out))...)

	section := out[h.sectionsEnd:room]
	copy(section, ".rsrc")
	le.PutUint32(section[8:], uint32(len(resources)))
	le.PutUint32(section[12:], uint32(h.imageSize))
	le.PutUint32(section[16:], uint32(len(out)-start))
	le.PutUint32(section[20:], uint32(start))
	le.PutUint32(section[36:], readableData)
	le.PutUint16(out[h.coff+6:], uint16(h.sections+1))
	le.PutUint32(out[h.optional+56:], uint32(align(h.imageSize+len(resources), h.sectionAlign)))
	le.PutUint32(out[h.optional+112+8*resourceTable:], uint32(h.imageSize))
	le.PutUint32(out[h.optional+116+8*resourceTable:], uint32(len(resources)))
	le.PutUint32(out[h.optional+64:], checksum(out, h.optional+64))
	return out, nil
}

// header is where the parts of a program are that a new section concerns.
type header struct {
	coff, optional          int
	sections, sectionsEnd   int
	fileAlign, sectionAlign int
	imageSize, headersSize  int
}

func parse(data []byte) (header, error) {
	if len(data) < peOffset+4 || string(data[:2]) != "MZ" {
		return header{}, errors.New("not a Windows program")
	}
	h := header{coff: int(le.Uint32(data[peOffset:]))}
	h.optional = h.coff + coffSize
	if h.optional+112+8*16 > len(data) || string(data[h.coff:h.coff+4]) != "PE\x00\x00" {
		return header{}, errors.New("no PE header")
	}
	if le.Uint16(data[h.optional:]) != magicPE32Plus || le.Uint32(data[h.optional+108:]) < 16 {
		return header{}, errors.New("not a 64-bit program with all data directories")
	}
	h.sections = int(le.Uint16(data[h.coff+6:]))
	h.sectionsEnd = h.optional + int(le.Uint16(data[h.coff+20:])) + h.sections*sectionSize
	h.sectionAlign = int(le.Uint32(data[h.optional+32:]))
	h.fileAlign = int(le.Uint32(data[h.optional+36:]))
	h.imageSize = int(le.Uint32(data[h.optional+56:]))
	h.headersSize = int(le.Uint32(data[h.optional+60:]))
	if h.fileAlign == 0 || h.sectionAlign == 0 || h.headersSize > len(data) || h.sectionsEnd > len(data) {
		return header{}, errors.New("the PE header is damaged")
	}
	return h, nil
}

func (h header) directory(data []byte, index int) (address, size uint32) {
	at := h.optional + 112 + 8*index
	return le.Uint32(data[at:]), le.Uint32(data[at+4:])
}

// Signed reports whether a program carries an Authenticode signature. It does
// not check it.
func Signed(data []byte) (bool, error) {
	h, err := parse(data)
	if err != nil {
		return false, err
	}
	address, size := h.directory(data, securityTable)
	return address != 0 && size != 0, nil
}

// Digest returns the SHA-256 sum that Authenticode is made over: of all but the
// checksum and the signature. Rules of AppLocker and App Control name a program
// by it, and it stays the same when the program is signed.
// The file must be aligned as Stamp leaves it.
func Digest(data []byte) ([sha256.Size]byte, error) {
	h, err := parse(data)
	if err != nil {
		return [sha256.Size]byte{}, err
	}
	end := len(data)
	entry := h.optional + 112 + 8*securityTable
	if address, _ := h.directory(data, securityTable); address != 0 {
		end = int(address) // of this table alone it is a place in the file
	}
	if end < entry+8 || end > len(data) {
		return [sha256.Size]byte{}, errors.New("the signature stands outside the program")
	}
	sum := sha256.New()
	sum.Write(data[:h.optional+64])
	sum.Write(data[h.optional+68 : entry])
	sum.Write(data[entry+8 : end])
	return [sha256.Size]byte(sum.Sum(nil)), nil
}

// numbers returns the four numbers Windows wants of a semantic version.
func numbers(version string) ([4]uint16, error) {
	var n [4]uint16
	core, _, _ := strings.Cut(version, "+")
	core, _, _ = strings.Cut(core, "-")
	parts := strings.Split(core, ".")
	if len(parts) != 3 {
		return n, fmt.Errorf("version %q does not have three numbers", version)
	}
	for i, part := range parts {
		v, err := strconv.ParseUint(part, 10, 16)
		if err != nil {
			return n, fmt.Errorf("version %q: %w", version, err)
		}
		n[i] = uint16(v)
	}
	return n, nil
}

// checksum is the sum the PE header carries: 16-bit words with the carry added
// back in, without the field itself, plus the length.
func checksum(data []byte, field int) uint32 {
	var sum uint32
	for i := 0; i < len(data); i += 2 {
		if i == field || i == field+2 {
			continue
		}
		word := uint32(data[i])
		if i+1 < len(data) {
			word |= uint32(data[i+1]) << 8
		}
		sum += word
		sum = sum&0xffff + sum>>16
	}
	return sum + uint32(len(data))
}

func align(n, to int) int { return (n + to - 1) / to * to }

func zero(b []byte) bool { return len(bytes.Trim(b, "\x00")) == 0 }
