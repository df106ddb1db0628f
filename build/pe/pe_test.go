package pe_test

import (
	"bytes"
	debug "debug/pe"
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bellman.sh/desktop/build/pe"
)

var info = pe.Info{
	Version:     "1.22.333-rc.1",
	File:        "bellman-bridge.exe",
	Product:     "Bellman for Claude Desktop",
	Description: "Bellman bridge",
	Company:     "Bellman",
	Copyright:   "Copyright © 2026 Bellman",
}

func program(t *testing.T) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), "empty.exe")
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./testdata/empty")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=windows", "GOARCH=amd64")
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build: %v\n%s", err, output)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func stamp(t *testing.T, data []byte) []byte {
	t.Helper()
	stamped, err := pe.Stamp(data, info)
	if err != nil {
		t.Fatal(err)
	}
	return stamped
}

// The program's own sections stay as they are, byte for byte.
func TestStampAddsOneSection(t *testing.T) {
	data := program(t)
	stamped := stamp(t, data)
	before, err := debug.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	after, err := debug.NewFile(bytes.NewReader(stamped))
	if err != nil {
		t.Fatal(err)
	}
	if len(after.Sections) != len(before.Sections)+1 || after.Sections[len(before.Sections)].Name != ".rsrc" {
		t.Fatalf("%d sections became %d", len(before.Sections), len(after.Sections))
	}
	for i, s := range before.Sections {
		a, errA := s.Data()
		b, errB := after.Sections[i].Data()
		if errA != nil || errB != nil || !bytes.Equal(a, b) {
			t.Errorf("section %s changed (%v, %v)", s.Name, errA, errB)
		}
	}
	if !bytes.Equal(stamp(t, data), stamped) {
		t.Error("stamping twice gave other bytes")
	}
	if _, err := pe.Stamp(stamped, info); err == nil {
		t.Error("a stamped program was stamped again")
	}
	if signed, err := pe.Signed(stamped); signed || err != nil {
		t.Errorf("Signed = %t, %v for a program nobody signed", signed, err)
	}
}

// The tools of the compiler read the resources back in words.
func TestOtherToolsReadTheVersion(t *testing.T) {
	windres, err := exec.LookPath("x86_64-w64-mingw32-windres")
	if err != nil && os.Getenv("CI") != "" {
		t.Fatal("CI has mingw-w64")
	}
	if err != nil {
		t.Skip("no mingw-w64 (make setup)")
	}
	path := filepath.Join(t.TempDir(), "a.exe")
	if err := os.WriteFile(path, stamp(t, program(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), windres, "-O", "rc", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	for _, want := range []string{
		"FILEVERSION 1, 22, 333, 0", `VALUE "ProductName", "Bellman for Claude Desktop"`,
		`VALUE "OriginalFilename", "bellman-bridge.exe"`, `VALUE "FileVersion", "1.22.333-rc.1"`,
		`VALUE "Translation", 0x409, 1200`, "longPathAware",
	} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
}

func TestStampRefusesWhatItCannotStamp(t *testing.T) {
	data := program(t)
	bad := info
	bad.Version = "1.2"
	if _, err := pe.Stamp(data, bad); err == nil {
		t.Error("a version of two numbers was taken")
	}
	bad.Version = "1.2.70000"
	if _, err := pe.Stamp(data, bad); err == nil {
		t.Error("a version that does not fit was taken")
	}
	for _, n := range []int{0, 1, 64, 200, 600} {
		if _, err := pe.Stamp(data[:n], info); err == nil {
			t.Errorf("the first %d bytes of a program were taken", n)
		}
	}
}

func FuzzStamp(f *testing.F) {
	f.Add([]byte("MZ"))
	f.Add(append([]byte("MZ"), make([]byte, 600)...))
	f.Fuzz(func(_ *testing.T, data []byte) { _, _ = pe.Stamp(data, info) })
}

// The sum in the header is that of 16-bit words with every carry added back in.
func TestStampLeavesARightChecksum(t *testing.T) {
	data := stamp(t, program(t))
	f, err := debug.NewFile(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	header, ok := f.OptionalHeader.(*debug.OptionalHeader64)
	if !ok {
		t.Fatalf("header %T", f.OptionalHeader)
	}
	var stored [4]byte
	binary.LittleEndian.PutUint32(stored[:], header.CheckSum)
	at := int(binary.LittleEndian.Uint32(data[0x3c:])) + 24 + 64
	if !bytes.Equal(data[at:at+4], stored[:]) {
		t.Fatalf("the field is not at %d", at)
	}
	var sum uint64
	for i := 0; i < len(data); i += 2 {
		if i != at && i != at+2 {
			sum += uint64(binary.LittleEndian.Uint16(data[i:]))
		}
	}
	for sum > 0xffff {
		sum = sum&0xffff + sum>>16
	}
	if want := uint32(sum) + uint32(len(data)); header.CheckSum != want {
		t.Errorf("checksum %#x, want %#x", header.CheckSum, want)
	}
}

// Another program computes the same Authenticode sum, which does not change
// when the program is signed.
func TestOthersComputeTheSameDigest(t *testing.T) {
	for _, name := range []string{"osslsigncode", "openssl"} {
		if _, err := exec.LookPath(name); err != nil {
			t.Skipf("no %s (make setup)", name)
		}
	}
	dir := t.TempDir()
	unsigned, signed := filepath.Join(dir, "unsigned.exe"), filepath.Join(dir, "signed.exe")
	key, cert := filepath.Join(dir, "key.pem"), filepath.Join(dir, "cert.pem")
	if err := os.WriteFile(unsigned, stamp(t, program(t)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, args := range [][]string{
		{"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-subj", "/CN=throw-away", "-keyout", key, "-out", cert},
		{"osslsigncode", "sign", "-certs", cert, "-key", key, "-h", "sha256", "-in", unsigned, "-out", signed},
	} {
		if out, err := exec.CommandContext(t.Context(), args[0], args[1:]...).CombinedOutput(); err != nil {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}
	found := regexp.MustCompile(`(?i)(current|calculated) (message digest)\s*:\s*([0-9a-f]+)`)
	for _, path := range []string{unsigned, signed} {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		sum, err := pe.Digest(data)
		if err != nil {
			t.Fatal(err)
		}
		out, _ := exec.CommandContext(t.Context(), "osslsigncode", "verify", "-in", path).CombinedOutput()
		said := map[string]string{}
		for _, m := range found.FindAllStringSubmatch(string(out), -1) {
			said[strings.ToLower(m[1]+" "+m[2])] = strings.ToLower(m[3])
		}
		if path == signed && said["calculated message digest"] != fmt.Sprintf("%x", sum) {
			t.Errorf("sum %x, osslsigncode: %v", sum, said)
		}
		if first, err := os.ReadFile(unsigned); err != nil {
			t.Fatal(err)
		} else if want, err := pe.Digest(first); err != nil || want != sum {
			t.Errorf("signing changed the sum from %x to %x (%v)", want, sum, err)
		}
		if is, err := pe.Signed(data); err != nil || is != (path == signed) {
			t.Errorf("%s is signed: %t (%v)", path, is, err)
		}
	}
	data, err := os.ReadFile(signed)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pe.Stamp(data, info); err == nil {
		t.Error("a signed program was stamped")
	}
	for _, cut := range [][]byte{data[:1000], data[:100], nil} {
		if sum, err := pe.Digest(cut); err == nil {
			t.Errorf("%d bytes have the sum %x", len(cut), sum)
		}
	}
}
