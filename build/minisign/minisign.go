// Package minisign checks detached signatures in the format of minisign, so
// that a download can be verified where that program is not installed. It does
// not make signatures: the secret key stays with the program that guards it.
package minisign

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
)

const (
	trustedPrefix = "trusted comment: "
	keyAlgorithm  = "Ed" // of a key
	hashedEd25519 = "ED" // of a signature over the BLAKE2b hash of the file
	keyIDLength   = 8
)

// ErrForged reports a signature that the key did not make over these bytes.
var ErrForged = errors.New("minisign: the signature does not belong to this key and these bytes")

// PublicKey is who signs.
type PublicKey struct {
	id  [keyIDLength]byte
	key ed25519.PublicKey
}

// ParsePublicKey reads the text of a public key file: a comment and a line of
// base64, or the line alone.
func ParsePublicKey(text string) (PublicKey, error) {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	raw, err := base64.StdEncoding.DecodeString(strings.TrimSpace(lines[len(lines)-1]))
	if err != nil {
		return PublicKey{}, fmt.Errorf("parse public key: %w", err)
	}
	if len(raw) != len(keyAlgorithm)+keyIDLength+ed25519.PublicKeySize || string(raw[:2]) != keyAlgorithm {
		return PublicKey{}, errors.New("parse public key: it is not one of minisign")
	}
	p := PublicKey{key: ed25519.PublicKey(raw[2+keyIDLength:])}
	copy(p.id[:], raw[2:])
	return p, nil
}

// String returns the id of the key as minisign shows it.
func (p PublicKey) String() string {
	return fmt.Sprintf("%X", binary.LittleEndian.Uint64(p.id[:]))
}

// Verify checks the text of a signature file over data and returns its trusted
// comment, which is signed too. ErrForged when the signature is not p's over
// these bytes. The older form, over the file itself, is refused.
func (p PublicKey) Verify(data []byte, signature string) (comment string, err error) {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(signature, "\r\n", "\n"), "\n"), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[2], trustedPrefix) {
		return "", errors.New("parse signature: it does not have the four lines of minisign")
	}
	sig, err := base64.StdEncoding.DecodeString(lines[1])
	if err != nil || len(sig) != 2+keyIDLength+ed25519.SignatureSize {
		return "", errors.New("parse signature: its second line is not a signature")
	}
	global, err := base64.StdEncoding.DecodeString(lines[3])
	if err != nil || len(global) != ed25519.SignatureSize {
		return "", errors.New("parse signature: its fourth line is not a signature")
	}
	if string(sig[:2]) != hashedEd25519 {
		return "", errors.New("parse signature: it is of the older form, over the file itself")
	}
	if len(p.key) == 0 || !bytes.Equal(sig[2:2+keyIDLength], p.id[:]) {
		return "", fmt.Errorf("%w: another key made it", ErrForged)
	}
	comment = strings.TrimPrefix(lines[2], trustedPrefix)
	hash := blake2b(data)
	signed := sig[2+keyIDLength:]
	if !ed25519.Verify(p.key, hash[:], signed) || !ed25519.Verify(p.key, append(bytes.Clone(signed), comment...), global) {
		return "", ErrForged
	}
	return comment, nil
}
