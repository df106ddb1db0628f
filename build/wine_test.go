package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

var wineOnce sync.Once

// wine returns the environment in which Windows programs run here. The folder
// Wine keeps its system in is made once and kept, because that takes longer
// than all the rest; it holds the library that Wine 8 lacks.
func wine(t *testing.T) []string {
	t.Helper()
	needs(t, "wine", "x86_64-w64-mingw32-gcc")
	prefix, err := filepath.Abs("../.cache/wine")
	if err != nil {
		t.Fatal(err)
	}
	env := append(os.Environ(), "WINEPREFIX="+prefix, "WINEDEBUG=-all", "WINEARCH=win64", "WINEDLLOVERRIDES=mscoree,mshtml=")
	wineOnce.Do(func() {
		library := filepath.Join(prefix, "drive_c", "windows", "system32", "bcryptprimitives.dll")
		if _, err := os.Stat(library); err == nil {
			return
		}
		if err := os.MkdirAll(prefix, 0o700); err != nil {
			t.Fatal(err)
		}
		runIn(t, env, "wineboot", "--init")
		runIn(t, env, "x86_64-w64-mingw32-gcc", "-shared", "-o", library, "testdata/bcryptprimitives.c", "-ladvapi32")
	})
	t.Cleanup(func() {
		wait := exec.Command("wineserver", "-w")
		wait.Env = env
		_ = wait.Run()
	})
	return env
}

func runIn(t *testing.T, env []string, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Env = env
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %v: %v\n%s", name, args, err, out)
	}
}

// Policy in the registry is read as an administrator's tools write it. The
// test itself is a Windows program.
func TestPolicyUnderWindows(t *testing.T) {
	env := wine(t)
	program := filepath.Join(t.TempDir(), "policy.test.exe")
	cmd := exec.CommandContext(t.Context(), "go", "test", "-c", "-o", program, "../internal/policy")
	cmd.Env = append(os.Environ(), "GOOS=windows", "GOARCH=amd64", "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("build the test: %v\n%s", err, out)
	}
	run := exec.CommandContext(t.Context(), "wine", program, "-test.run=Registry", "-test.v")
	run.Env, run.Dir = env, t.TempDir()
	out, err := run.CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
