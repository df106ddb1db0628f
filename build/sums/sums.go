// Package sums writes and reads lists of SHA-256 sums in the form that
// sha256sum makes and checks.
package sums

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode"
)

// Name is what the file with the list is called.
const Name = "SHA256SUMS"

// List holds the sum of each file by its name, which has no folder.
type List map[string][sha256.Size]byte

// Of returns the sum of the file at path.
func Of(path string) (sum [sha256.Size]byte, err error) {
	if info, err := os.Stat(path); err != nil {
		return sum, err
	} else if !info.Mode().IsRegular() { // a pipe would never end
		return sum, fmt.Errorf("read %s: it is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return sum, err
	}
	defer f.Close()
	h := sha256.New()
	if _, err := io.Copy(h, f); err != nil {
		return sum, fmt.Errorf("read %s: %w", path, err)
	}
	return [sha256.Size]byte(h.Sum(nil)), nil
}

// Encode returns the list, sorted by name.
func (l List) Encode() []byte {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(l)) {
		sum := l[name]
		fmt.Fprintf(&b, "%x  %s\n", sum, name)
	}
	return b.Bytes()
}

// Parse reads a list that Encode has written. A line of another form or in
// another place, a name with a folder in it and one that stands there twice
// are errors: those who check with other programs must not read another list.
func Parse(text []byte) (List, error) {
	l := List{}
	for i, line := range strings.Split(strings.TrimSuffix(string(text), "\n"), "\n") {
		digest, name, ok := strings.Cut(line, "  ")
		raw, err := hex.DecodeString(digest)
		if !ok || err != nil || len(raw) != sha256.Size {
			return nil, fmt.Errorf("read sums: line %d is not a sum and a name", i+1)
		}
		if name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || r == '\\' || !unicode.IsPrint(r) }) {
			return nil, fmt.Errorf("read sums: line %d does not name a file of this folder", i+1)
		}
		if _, twice := l[name]; twice {
			return nil, fmt.Errorf("read sums: %s stands there twice", name)
		}
		l[name] = [sha256.Size]byte(raw)
	}
	if !bytes.Equal(l.Encode(), text) {
		return nil, errors.New("read sums: the lines are not sorted, or not those of sha256sum to the letter")
	}
	return l, nil
}

// ErrMismatch reports a file whose bytes are not those the list was made from.
var ErrMismatch = errors.New("sums: the file is not the one in the list")

// Check compares the file at path with the list. ErrMismatch when the sums
// differ; another error when the file is not in the list or cannot be read.
func (l List) Check(path string) error {
	want, ok := l[filepath.Base(path)]
	if !ok {
		return fmt.Errorf("check %s: it is not in the list", path)
	}
	got, err := Of(path)
	if err != nil {
		return err
	}
	if got != want {
		return fmt.Errorf("check %s: %w", path, ErrMismatch)
	}
	return nil
}
