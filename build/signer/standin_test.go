package signer_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"bellman.sh/desktop/build/macho"
	"bellman.sh/desktop/build/signer"
)

// said keeps what a signer says, a line each.
type said struct{ strings.Builder }

func (s *said) say(format string, args ...any) { fmt.Fprintf(s, format+"\n", args...) }

// standIn puts a program of that name before all others on the PATH. It notes
// its arguments, one a line, and then runs script.
func standIn(t *testing.T, name, script string) (arguments func() []string) {
	t.Helper()
	dir := t.TempDir()
	log := filepath.Join(dir, "arguments")
	text := "#!/bin/sh\nprintf '%s\\n' \"$@\" >>'" + log + "'\n" + script + "\n"
	if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	return func() []string {
		data, err := os.ReadFile(log)
		if err != nil {
			t.Fatalf("%s was not run: %v", name, err)
		}
		return strings.Split(strings.TrimSuffix(string(data), "\n"), "\n")
	}
}

// universal is the smallest program for both of Apple's processors.
func universal(t *testing.T) []byte {
	t.Helper()
	data, err := smallest()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

var smallest = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "bellman-signer-test-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	var slices [][]byte
	for _, arch := range []string{"amd64", "arm64"} {
		out := filepath.Join(dir, arch)
		cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", out, "../macho/testdata/empty")
		cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=darwin", "GOARCH="+arch)
		if output, err := cmd.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("build for %s: %w\n%s", arch, err, output)
		}
		data, err := os.ReadFile(out)
		if err != nil {
			return nil, err
		}
		if data, err = macho.Sign(data, signer.Identifier); err != nil {
			return nil, err
		}
		slices = append(slices, data)
	}
	return macho.Universal(slices...)
})
