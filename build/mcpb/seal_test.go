package mcpb_test

import (
	"archive/zip"
	"bytes"
	"errors"
	"testing"

	"bellman.sh/desktop/build/mcpb"
)

func seal(t *testing.T, bundle, signature []byte) []byte {
	t.Helper()
	sealed, err := mcpb.Seal(bundle, func([]byte) ([]byte, error) { return signature, nil })
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// "Invalid comment length. Expected: 2264. Found: 0.": what is signed ends
// with an end record that counts the signature as its comment, so the file is
// a ZIP file for the strictest reader.
func TestSealedBundleIsStillAZIPFile(t *testing.T) {
	bundle := pack(t, sample(t))
	var signed []byte
	sealed, err := mcpb.Seal(bundle, func(content []byte) ([]byte, error) {
		signed = bytes.Clone(content)
		return []byte("signature"), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	r, err := zip.NewReader(bytes.NewReader(sealed), int64(len(sealed)))
	if err != nil {
		t.Fatal(err)
	}
	if got := len(r.Comment); got != 16384 {
		t.Errorf("the comment has %d bytes, want 16384", got)
	}
	content, signature, err := mcpb.Unseal(sealed)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(content, signed) || string(signature) != "signature" {
		t.Errorf("unsealed %d bytes and %q, want the %d that were signed", len(content), signature, len(signed))
	}
	if _, _, err := mcpb.Unseal(bundle); !errors.Is(err, mcpb.ErrUnsealed) {
		t.Errorf("a bundle nobody sealed: err = %v, want ErrUnsealed", err)
	}
}

// room is what the comment of 16,384 bytes leaves for a signature, beside the
// two marks and the length.
const room = 16384 - 11 - 4 - 12

func TestSealTakesTheLongestSignature(t *testing.T) {
	longest := bytes.Repeat([]byte("s"), room)
	_, signature, err := mcpb.Unseal(seal(t, pack(t, sample(t)), longest))
	if err != nil || !bytes.Equal(signature, longest) {
		t.Errorf("%d bytes came back, err = %v", len(signature), err)
	}
}

func TestSealRefuses(t *testing.T) {
	bundle := pack(t, sample(t))
	for name, tt := range map[string]struct{ bundle, signature []byte }{
		"a sealed bundle":      {seal(t, bundle, []byte("x")), []byte("x")},
		"no bundle":            {[]byte("PK"), []byte("x")},
		"a signature too long": {bundle, make([]byte, room+1)},
		"an end record inside": {bundle, []byte("PK\x05\x06")},
	} {
		if _, err := mcpb.Seal(tt.bundle, func([]byte) ([]byte, error) { return tt.signature, nil }); err == nil {
			t.Errorf("%s was sealed", name)
		}
	}
}

// What the official tool's own signing leaves, and a seal somebody meddled
// with, are not taken for one of ours.
func TestUnsealRefusesOtherLayouts(t *testing.T) {
	bundle := pack(t, sample(t))
	sealed := seal(t, bundle, []byte("signature"))
	at := len(bundle)
	change := func(offset int, b byte) []byte {
		c := bytes.Clone(sealed)
		c[offset] = b
		return c
	}
	for name, data := range map[string][]byte{
		"appended to the file": append(bytes.Clone(bundle), "MCPB_SIG_V1\x01\x00\x00\x00xMCPB_SIG_END"...),
		"another length":       change(at+11, 0xff),
		"a length to the end":  append(append(bytes.Clone(sealed[:at+11]), 0xf3, 0x3f, 0, 0), sealed[at+15:]...),
		"huge length":          change(at+14, 0x7f),
		"byte in the padding":  change(len(sealed)-1, 1),
		"comment not counted":  change(at-1, 0),
		"footer":               change(at+11+4+9, 'x'),
	} {
		if _, _, err := mcpb.Unseal(data); err == nil || errors.Is(err, mcpb.ErrUnsealed) {
			t.Errorf("%s: err = %v, want one that says what is wrong", name, err)
		}
	}
}
