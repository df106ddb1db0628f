package mcpb

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
)

// The signature of a bundle stands in the comment of the ZIP file. Readers
// check the length of that comment, so it is fixed before anything is signed
// and the block is filled up to it with zeros. See bundle.md 1.6.
const (
	sealHead   = "MCPB_SIG_V1"
	sealFoot   = "MCPB_SIG_END"
	sealLength = 16384
	endLength  = 22 // of the end record of a ZIP file without comment
	endMagic   = 0x06054b50
)

// ErrUnsealed reports a bundle that carries no signature.
var ErrUnsealed = errors.New("mcpb: the bundle carries no signature")

// Seal returns bundle with a signature inside. Sign gets the bytes to be
// signed and returns a detached PKCS #7 signature in DER.
func Seal(bundle []byte, sign func(content []byte) ([]byte, error)) ([]byte, error) {
	end := len(bundle) - endLength
	if end < 0 || binary.LittleEndian.Uint32(bundle[end:]) != endMagic || binary.LittleEndian.Uint16(bundle[end+20:]) != 0 {
		return nil, errors.New("seal bundle: it does not end with an end record without comment")
	}
	content := bytes.Clone(bundle)
	binary.LittleEndian.PutUint16(content[end+20:], sealLength)
	signature, err := sign(content)
	if err != nil {
		return nil, fmt.Errorf("seal bundle: %w", err)
	}
	block := []byte(sealHead)
	block = binary.LittleEndian.AppendUint32(block, uint32(len(signature)))
	block = append(append(block, signature...), sealFoot...)
	if len(block) > sealLength {
		return nil, fmt.Errorf("seal bundle: the signature has %d bytes, too many for its place", len(signature))
	}
	// A reader that looks for the end record from behind must not find one here.
	if bytes.Contains(block, binary.LittleEndian.AppendUint32(nil, endMagic)) {
		return nil, errors.New("seal bundle: the signature looks like an end record; sign again")
	}
	return append(append(content, block...), make([]byte, sealLength-len(block))...), nil
}

// Unseal returns what was signed and the signature of a sealed bundle.
// ErrUnsealed when there is none; another error when what stands in its place
// is not one that Seal makes.
func Unseal(bundle []byte) (content, signature []byte, err error) {
	at := len(bundle) - sealLength
	if at < endLength || !bytes.HasPrefix(bundle[at:], []byte(sealHead)) {
		if bytes.Contains(bundle[max(0, len(bundle)-sealLength-endLength):], []byte(sealFoot)) {
			return nil, nil, errors.New("unseal bundle: the signature is not where readers expect it")
		}
		return nil, nil, ErrUnsealed
	}
	content = bundle[:at]
	end := content[at-endLength:]
	if binary.LittleEndian.Uint32(end) != endMagic || binary.LittleEndian.Uint16(end[20:]) != sealLength {
		return nil, nil, errors.New("unseal bundle: the end record does not count the signature as its comment")
	}
	block := bundle[at+len(sealHead):]
	length := int(binary.LittleEndian.Uint32(block))
	if length > len(block)-4-len(sealFoot) {
		return nil, nil, errors.New("unseal bundle: the signature is longer than its place")
	}
	signature, rest := block[4:4+length], block[4+length:]
	if !bytes.HasPrefix(rest, []byte(sealFoot)) || len(bytes.Trim(rest[len(sealFoot):], "\x00")) != 0 {
		return nil, nil, errors.New("unseal bundle: something else stands behind the signature")
	}
	return content, signature, nil
}
