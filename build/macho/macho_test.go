package macho_test

import (
	"bytes"
	debug "debug/macho"
	"errors"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/build/macho"
)

// program builds the smallest program for a processor of Apple's.
func program(t *testing.T, arch string) []byte {
	t.Helper()
	out := filepath.Join(t.TempDir(), arch)
	cmd := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "./testdata/empty")
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+arch)
	if output, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build for %s: %v\n%s", arch, err, output)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sign(t *testing.T, data []byte) []byte {
	t.Helper()
	signed, err := macho.Sign(data, "sh.bellman.test")
	if err != nil {
		t.Fatal(err)
	}
	return signed
}

// Go's linker signs for arm64 and not for amd64. Ours must read the one and
// make the other.
func TestSignGivesEveryProgramASignature(t *testing.T) {
	intel, apple := program(t, "amd64"), program(t, "arm64")
	if err := macho.Verify(apple); err != nil {
		t.Errorf("what the linker signed: %v", err)
	}
	if !bytes.Equal(sign(t, apple), apple) {
		t.Error("a signed program was signed again")
	}
	if err := macho.Verify(intel); !errors.Is(err, macho.ErrUnsigned) {
		t.Errorf("an unsigned program: err = %v, want ErrUnsigned", err)
	}
	signed := sign(t, intel)
	if err := macho.Verify(signed); err != nil {
		t.Errorf("what we signed: %v", err)
	}
	if !bytes.Equal(sign(t, intel), signed) {
		t.Error("signing twice gave other bytes")
	}
	f, err := debug.NewFile(bytes.NewReader(signed))
	if err != nil {
		t.Fatal(err)
	}
	linkedit := f.Segment("__LINKEDIT")
	if end := linkedit.Offset + linkedit.Filesz; end != uint64(len(signed)) {
		t.Errorf("__LINKEDIT ends at %d of %d", end, len(signed))
	}
	if linkedit.Memsz < linkedit.Filesz || linkedit.Memsz%4096 != 0 {
		t.Errorf("__LINKEDIT takes %d in memory for %d in the file", linkedit.Memsz, linkedit.Filesz)
	}
}

// The tools of LLVM read what we wrote, and find the signature where it is.
func TestOtherToolsReadTheSignature(t *testing.T) {
	tool, err := exec.LookPath("llvm-objdump")
	if err != nil {
		t.Skip("no llvm-objdump (make setup)")
	}
	path := filepath.Join(t.TempDir(), "signed")
	if err := os.WriteFile(path, sign(t, program(t, "amd64")), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := exec.CommandContext(t.Context(), tool, "--macho", "--private-headers", path).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if !strings.Contains(string(out), "LC_CODE_SIGNATURE") || strings.Contains(string(out), "past end of file") {
		t.Errorf("no good signature in:\n%s", out)
	}
}

// One changed byte of the program or of its hashes is found.
func TestVerifyFindsAnyChange(t *testing.T) {
	signed := sign(t, program(t, "amd64"))
	for range 200 {
		i := rand.IntN(len(signed))
		changed := bytes.Clone(signed)
		changed[i] ^= 1 << rand.IntN(8)
		err := macho.Verify(changed)
		inName := bytes.Index(signed, []byte("sh.bellman.test\x00"))
		free := i >= inName && i < inName+len("sh.bellman.test")
		if err == nil && !free && !inHeaderOfDirectory(i, inName) {
			t.Errorf("byte %d of %d changed and nobody noticed", i, len(signed))
		}
	}
}

// inHeaderOfDirectory tells whether i is in the fields before the name, which
// describe the directory and are themselves covered by whoever signs it.
func inHeaderOfDirectory(i, name int) bool { return i >= name-88-20 && i < name }

func TestUniversalHoldsBothSlicesUnchanged(t *testing.T) {
	intel, apple := sign(t, program(t, "amd64")), program(t, "arm64")
	both, err := macho.Universal(intel, apple)
	if err != nil {
		t.Fatal(err)
	}
	slices, err := macho.Slices(both)
	if err != nil {
		t.Fatal(err)
	}
	if len(slices) != 2 || slices[0].Arch != "amd64" || slices[1].Arch != "arm64" {
		t.Fatalf("slices = %d", len(slices))
	}
	if !bytes.Equal(slices[0].Data, intel) || !bytes.Equal(slices[1].Data, apple) {
		t.Error("a slice was changed")
	}
	for _, s := range slices {
		if err := macho.Verify(s.Data); err != nil {
			t.Errorf("%s: %v", s.Arch, err)
		}
	}
	if _, err := macho.Slices(both[:len(both)-1]); err == nil {
		t.Error("a slice that is cut short was read")
	}
	if _, err := macho.Universal(apple, apple); err == nil {
		t.Error("two slices for one processor were joined")
	}
	if _, err := macho.Universal([]byte("nothing")); err == nil {
		t.Error("what is not a program was joined")
	}
}

// What somebody else built may be anything: reading it ends in an error, never
// in a panic.
func FuzzVerify(f *testing.F) {
	f.Add([]byte("\xcf\xfa\xed\xfe"))
	f.Add(make([]byte, 64))
	f.Add(append([]byte("\xcf\xfa\xed\xfe"), make([]byte, 200)...))
	f.Fuzz(func(_ *testing.T, data []byte) {
		_ = macho.Verify(data)
		_, _ = macho.Sign(data, "x")
		_, _ = macho.Slices(data)
	})
}
