package macho

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

const (
	magic64         = 0xfeedfacf
	headerSize      = 32
	loadSegment64   = 0x19
	loadSignature   = 0x1d
	signatureLength = 16 // of the load command
)

var le = binary.LittleEndian

// layout is where the parts of a program are that a signature concerns. The
// offsets named …At are those of load commands.
type layout struct {
	commandsEnd int
	firstData   int // the lowest offset of a section
	linkeditAt  int
	textOffset  uint64
	textSize    uint64
	// signatureAt is zero when there is no signature.
	signatureAt int
}

// parse walks the load commands of a 64-bit little-endian program.
func parse(data []byte) (layout, error) {
	if len(data) < headerSize || le.Uint32(data) != magic64 {
		return layout{}, errors.New("not a 64-bit Mach-O program")
	}
	l := layout{firstData: len(data)}
	count, size := int(le.Uint32(data[16:])), int(le.Uint32(data[20:]))
	l.commandsEnd = headerSize + size
	if l.commandsEnd > len(data) {
		return layout{}, errors.New("load commands end behind the file")
	}
	at := headerSize
	for range count {
		if at+8 > l.commandsEnd {
			return layout{}, errors.New("load commands are cut short")
		}
		length := int(le.Uint32(data[at+4:]))
		if length < 8 || at+length > l.commandsEnd {
			return layout{}, fmt.Errorf("load command at %d has length %d", at, length)
		}
		switch le.Uint32(data[at:]) {
		case loadSegment64:
			if err := l.segment(data[at:at+length], at); err != nil {
				return layout{}, err
			}
		case loadSignature:
			l.signatureAt = at
		}
		at += length
	}
	if l.linkeditAt == 0 || l.textSize == 0 {
		return layout{}, errors.New("no __TEXT or no __LINKEDIT segment")
	}
	return l, nil
}

func (l *layout) segment(command []byte, at int) error {
	const fixed, section = 72, 80
	if len(command) < fixed {
		return fmt.Errorf("segment at %d is cut short", at)
	}
	switch name := string(bytes.TrimRight(command[8:24], "\x00")); name {
	case "__TEXT":
		l.textOffset, l.textSize = le.Uint64(command[40:]), le.Uint64(command[48:])
	case "__LINKEDIT":
		l.linkeditAt = at
	}
	for i := range int(le.Uint32(command[64:])) {
		s := fixed + i*section
		if s+section > len(command) {
			return fmt.Errorf("sections of segment at %d are cut short", at)
		}
		if offset := int(le.Uint32(command[s+48:])); offset > 0 {
			l.firstData = min(l.firstData, offset)
		}
	}
	return nil
}
