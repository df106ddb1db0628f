// Package macho joins Mach-O programs into a universal one and gives each an
// ad hoc code signature: macOS runs no arm64 program without one, and kills an
// unsigned amd64 one when it carries a quarantine mark. It also checks such
// signatures. (design.md 8; bundle.md 3)
package macho

import (
	"bytes"
	"debug/macho"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	fatMagic   = 0xcafebabe
	sliceAlign = 14 // as a power of two: the page of arm64, which both accept
)

// Universal returns one program that holds slices, each a 64-bit Mach-O for
// another processor, byte for byte.
func Universal(slices ...[]byte) ([]byte, error) {
	header := binary.BigEndian.AppendUint32(nil, fatMagic)
	header = binary.BigEndian.AppendUint32(header, uint32(len(slices)))
	var body bytes.Buffer
	const page = 1 << sliceAlign
	seen := map[macho.Cpu]bool{}
	for _, s := range slices {
		f, err := macho.NewFile(bytes.NewReader(s))
		if err != nil {
			return nil, fmt.Errorf("read slice: %w", err)
		}
		if seen[f.Cpu] {
			return nil, fmt.Errorf("two slices for %s", f.Cpu)
		}
		seen[f.Cpu] = true
		body.Write(make([]byte, -body.Len()&(page-1)))
		for _, field := range []uint32{uint32(f.Cpu), f.SubCpu, uint32(page + body.Len()), uint32(len(s)), sliceAlign} {
			header = binary.BigEndian.AppendUint32(header, field)
		}
		body.Write(s)
	}
	if len(header) > page {
		return nil, errors.New("too many slices")
	}
	header = append(header, make([]byte, page-len(header))...)
	return append(header, body.Bytes()...), nil
}

// Slice is one program of a universal binary.
type Slice struct {
	Arch string // in Go's names
	Data []byte
}

// Slices returns the programs that data holds: those of a universal binary, or
// data itself.
func Slices(data []byte) ([]Slice, error) {
	if len(data) < 8 || binary.BigEndian.Uint32(data) != fatMagic {
		f, err := macho.NewFile(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("read Mach-O: %w", err)
		}
		return []Slice{{arch(f.Cpu), data}}, nil
	}
	fat, err := macho.NewFatFile(bytes.NewReader(data))
	if err != nil {
		return nil, fmt.Errorf("read universal Mach-O: %w", err)
	}
	var list []Slice
	for _, a := range fat.Arches {
		end := uint64(a.Offset) + uint64(a.Size)
		if end > uint64(len(data)) {
			return nil, fmt.Errorf("slice for %s ends behind the file", a.Cpu)
		}
		list = append(list, Slice{arch(a.Cpu), data[a.Offset:end]})
	}
	return list, nil
}

func arch(cpu macho.Cpu) string {
	switch cpu {
	case macho.CpuAmd64:
		return "amd64"
	case macho.CpuArm64:
		return "arm64"
	default:
		return cpu.String()
	}
}
