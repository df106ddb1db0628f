package macho

import (
	"bytes"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/binary"
	"errors"
	"fmt"
)

// Fields of an embedded signature, in the words of Apple's cs_blobs.h. All of
// it is big-endian, unlike the program around it.
const (
	superBlobMagic     = 0xfade0cc0
	codeDirectoryMagic = 0xfade0c02
	codeDirectorySlot  = 0
	directoryVersion   = 0x20400 // the first with the executable segment
	directorySize      = 88
	superBlobSize      = 12 + 8
	flagAdHoc          = 2
	hashSHA256         = 2
	pageBits           = 12
	pageSize           = 1 << pageBits
	segmentIsMain      = 1
)

// ErrUnsigned reports a program without a code signature.
var ErrUnsigned = errors.New("macho: no code signature")

// Sign returns data with an ad hoc signature under the name id. A program that
// carries a signature already, as Go's linker gives to arm64, is returned as
// it is.
func Sign(data []byte, id string) ([]byte, error) {
	l, err := parse(data)
	if err != nil {
		return nil, fmt.Errorf("sign %s: %w", id, err)
	}
	if l.signatureAt != 0 {
		return data, nil
	}
	if l.commandsEnd+signatureLength > l.firstData {
		return nil, fmt.Errorf("sign %s: no room for a load command", id)
	}
	linkedit := le.Uint64(data[l.linkeditAt+40:])
	if end := linkedit + le.Uint64(data[l.linkeditAt+48:]); end != uint64(len(data)) {
		return nil, fmt.Errorf("sign %s: __LINKEDIT ends at %d of %d", id, end, len(data))
	}
	signed := bytes.Clone(data)
	signed = append(signed, make([]byte, -len(signed)&15)...)
	limit := len(signed)
	size := signatureSize(limit, id)

	le.PutUint32(signed[16:], le.Uint32(signed[16:])+1)
	le.PutUint32(signed[20:], le.Uint32(signed[20:])+signatureLength)
	command := signed[l.commandsEnd:]
	for i, v := range []uint32{loadSignature, signatureLength, uint32(limit), uint32(size)} {
		le.PutUint32(command[4*i:], v)
	}
	length := uint64(limit+size) - linkedit
	le.PutUint64(signed[l.linkeditAt+32:], (length+pageSize-1)&^(pageSize-1))
	le.PutUint64(signed[l.linkeditAt+48:], length)
	return append(signed, signature(signed, id, l)...), nil
}

func pages(limit int) int { return (limit + pageSize - 1) / pageSize }

func signatureSize(limit int, id string) int {
	return superBlobSize + directorySize + len(id) + 1 + pages(limit)*sha256.Size
}

// signature returns the super blob over code: one code directory with a hash
// for each page.
func signature(code []byte, id string, l layout) []byte {
	size := signatureSize(len(code), id)
	hashes := directorySize + len(id) + 1
	b := make([]byte, 0, size)
	u32 := func(values ...uint32) {
		for _, v := range values {
			b = binary.BigEndian.AppendUint32(b, v)
		}
	}
	u32(superBlobMagic, uint32(size), 1, codeDirectorySlot, superBlobSize)
	u32(codeDirectoryMagic, uint32(size-superBlobSize), directoryVersion, flagAdHoc,
		uint32(hashes), directorySize, 0, uint32(pages(len(code))), uint32(len(code)))
	b = append(b, sha256.Size, hashSHA256, 0, pageBits)
	u32(0, 0, 0, 0, 0, 0) // no scatter, no team, no 64-bit limit
	for _, v := range []uint64{l.textOffset, l.textSize, segmentIsMain} {
		b = binary.BigEndian.AppendUint64(b, v)
	}
	b = append(append(b, id...), 0)
	for at := 0; at < len(code); at += pageSize {
		sum := sha256.Sum256(code[at:min(at+pageSize, len(code))])
		b = append(b, sum[:]...)
	}
	return b
}

// Verify checks the hash of every page of a program against its code
// directory. ErrUnsigned when there is no signature. It does not judge who
// signed: an ad hoc signature has no signer.
func Verify(data []byte) error {
	start, directory, err := find(data)
	if err != nil {
		return fmt.Errorf("verify Mach-O: %w", err)
	}
	be := binary.BigEndian
	hashes, count, limit := int(be.Uint32(directory[16:])), int(be.Uint32(directory[28:])), int(be.Uint32(directory[32:]))
	if directory[36] != sha256.Size || directory[37] != hashSHA256 || directory[39] != pageBits {
		return errors.New("verify Mach-O: the code directory is not SHA-256 over pages of 4 KiB")
	}
	if limit != start || count != pages(limit) || hashes+count*sha256.Size > len(directory) {
		return errors.New("verify Mach-O: the code directory does not cover the program")
	}
	for i := range count {
		sum := sha256.Sum256(data[i*pageSize : min((i+1)*pageSize, limit)])
		want := directory[hashes+i*sha256.Size:][:sha256.Size]
		if subtle.ConstantTimeCompare(sum[:], want) != 1 {
			return fmt.Errorf("verify Mach-O: page %d was changed after it was signed", i)
		}
	}
	return nil
}

// DirectoryHash returns the cdhash of a signed program, by which rules on macOS
// name it: the beginning of the sum of its code directory.
func DirectoryHash(data []byte) ([20]byte, error) {
	_, directory, err := find(data)
	if err != nil {
		return [20]byte{}, fmt.Errorf("hash code directory: %w", err)
	}
	sum := sha256.Sum256(directory)
	return [20]byte(sum[:]), nil
}

// find returns the code directory of a program and where its signature begins.
func find(data []byte) (start int, directory []byte, err error) {
	l, err := parse(data)
	if err != nil {
		return 0, nil, err
	}
	if l.signatureAt == 0 {
		return 0, nil, ErrUnsigned
	}
	begin, size := uint64(le.Uint32(data[l.signatureAt+8:])), uint64(le.Uint32(data[l.signatureAt+12:]))
	if begin+size > uint64(len(data)) {
		return 0, nil, errors.New("the signature ends behind the file")
	}
	directory, err = codeDirectory(data[begin : begin+size])
	return int(begin), directory, err
}

// codeDirectory finds the code directory in a super blob.
func codeDirectory(blob []byte) ([]byte, error) {
	be := binary.BigEndian
	if len(blob) < 12 || be.Uint32(blob) != superBlobMagic {
		return nil, errors.New("the signature is not an embedded one")
	}
	for i := range int(be.Uint32(blob[8:])) {
		entry := 12 + 8*i
		if entry+8 > len(blob) {
			break
		}
		if be.Uint32(blob[entry:]) != codeDirectorySlot {
			continue
		}
		at := int(be.Uint32(blob[entry+4:]))
		if at+directorySize > len(blob) || be.Uint32(blob[at:]) != codeDirectoryMagic {
			break
		}
		length := int(be.Uint32(blob[at+4:]))
		if length < directorySize || at+length > len(blob) {
			break
		}
		return blob[at : at+length], nil
	}
	return nil, errors.New("the signature holds no code directory")
}
