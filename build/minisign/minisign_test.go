package minisign_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/build/minisign"
)

// The example of RFC 7693, appendix A.
func TestHashIsThatOfTheStandard(t *testing.T) {
	const want = "ba80a53f981c4d0d6a2797b69f12f6e94c212f14685ac4b74b12bb6fdbffa2d1" +
		"7d87c5392aab792dc252d5de4533cc9518d38aa8dbf1925ab92386edd4009923"
	sum := minisign.BLAKE2b([]byte("abc"))
	if got := hex.EncodeToString(sum[:]); got != want {
		t.Errorf("hash of abc = %s, want %s", got, want)
	}
}

// Around every boundary of a block, the hash is that of the system's b2sum.
func TestHashMatchesB2sum(t *testing.T) {
	tool, err := exec.LookPath("b2sum")
	if err != nil {
		t.Skip("no b2sum")
	}
	for _, n := range []int{0, 1, 127, 128, 129, 255, 256, 257, 4096, 100_003} {
		data := make([]byte, n)
		for i := range data {
			data[i] = byte(rand.IntN(256))
		}
		cmd := exec.CommandContext(t.Context(), tool)
		cmd.Stdin = bytes.NewReader(data)
		out, err := cmd.Output()
		if err != nil {
			t.Fatal(err)
		}
		want, _, _ := strings.Cut(string(out), " ")
		sum := minisign.BLAKE2b(data)
		if got := hex.EncodeToString(sum[:]); got != want {
			t.Errorf("%d bytes: %s, want %s", n, got, want)
		}
	}
}

// signed makes a key pair and a signature with the real program.
func signed(t *testing.T, data []byte, options ...string) (key minisign.PublicKey, signature string) {
	t.Helper()
	tool, err := exec.LookPath("minisign")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("CI has minisign")
	}
	if err != nil {
		t.Skip("no minisign (make setup)")
	}
	dir := t.TempDir()
	path := filepath.Join(dir, "SHA256SUMS")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	run := func(args ...string) {
		cmd := exec.CommandContext(t.Context(), tool, args...)
		cmd.Dir = dir
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("minisign %v: %v\n%s", args, err, out)
		}
	}
	run("-G", "-W", "-p", "key.pub", "-s", "key")
	run(append([]string{"-S", "-s", "key", "-m", path, "-t", "bellman 1.2.3"}, options...)...)
	text, err := os.ReadFile(filepath.Join(dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	key, err = minisign.ParsePublicKey(string(text))
	if err != nil {
		t.Fatal(err)
	}
	if want := "minisign public key " + key.String(); !strings.Contains(string(text), want) {
		t.Errorf("key file %q does not say %q", text, want)
	}
	sig, err := os.ReadFile(path + ".minisig")
	if err != nil {
		t.Fatal(err)
	}
	return key, string(sig)
}

func TestVerifyTakesWhatMinisignMade(t *testing.T) {
	data := []byte(strings.Repeat("0123456789abcdef  file\n", 100))
	key, sig := signed(t, data)
	comment, err := key.Verify(data, sig)
	if err != nil || comment != "bellman 1.2.3" {
		t.Errorf("Verify = %q, %v", comment, err)
	}
	if _, err := key.Verify(data, strings.ReplaceAll(sig, "\n", "\r\n")); err != nil {
		t.Errorf("with the line ends of Windows: %v", err)
	}
}

// Data, signature, trusted comment and key: a change in any of them is found.
func TestVerifyFindsAnyChange(t *testing.T) {
	data := []byte("0123456789abcdef  file\n")
	key, sig := signed(t, data)
	for i := range data {
		changed := bytes.Clone(data)
		changed[i] ^= 1
		if _, err := key.Verify(changed, sig); !errors.Is(err, minisign.ErrForged) {
			t.Fatalf("byte %d of the data changed: err = %v, want ErrForged", i, err)
		}
	}
	lines := strings.Split(sig, "\n")
	for n := 1; n < 4; n++ {
		changed := strings.Split(sig, "\n")
		if n == 2 {
			changed[n] = strings.Replace(lines[n], "1.2.3", "9.9.9", 1)
		} else {
			raw, err := base64.StdEncoding.DecodeString(lines[n])
			if err != nil {
				t.Fatal(err)
			}
			raw[len(raw)-40] ^= 1
			changed[n] = base64.StdEncoding.EncodeToString(raw)
		}
		if _, err := key.Verify(data, strings.Join(changed, "\n")); !errors.Is(err, minisign.ErrForged) {
			t.Errorf("line %d of the signature changed: err = %v, want ErrForged", n, err)
		}
	}
	other, _ := signed(t, data)
	if _, err := other.Verify(data, sig); !errors.Is(err, minisign.ErrForged) {
		t.Errorf("another key: err = %v, want ErrForged", err)
	}
}

func TestOlderFormIsRefused(t *testing.T) {
	data := []byte("x")
	key, sig := signed(t, data, "-l")
	if _, err := key.Verify(data, sig); err == nil || !strings.Contains(err.Error(), "older form") {
		t.Errorf("err = %v, want one about the older form", err)
	}
}

func FuzzVerify(f *testing.F) {
	f.Add("untrusted comment: x\nRUQ=\ntrusted comment: y\nRUQ=\n")
	f.Fuzz(func(_ *testing.T, text string) {
		key, err := minisign.ParsePublicKey(text)
		if err == nil {
			_, _ = key.Verify([]byte("x"), text)
		}
		_, _ = minisign.PublicKey{}.Verify([]byte("x"), text)
	})
}
