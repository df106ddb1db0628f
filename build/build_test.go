package main_test

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"bellman.sh/desktop/build/mcpb"
)

// tool is the program under test, built once.
var tool string

func TestMain(m *testing.M) {
	os.Exit(func() int {
		dir, err := os.MkdirTemp("", "bellman-build-test-")
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		defer os.RemoveAll(dir)
		tool = filepath.Join(dir, "build")
		if out, err := exec.Command("go", "build", "-o", tool, ".").CombinedOutput(); err != nil {
			fmt.Fprintf(os.Stderr, "build the tool: %v\n%s", err, out)
			return 1
		}
		bundleDir = filepath.Join(dir, "out")
		return m.Run()
	}())
}

// build runs the tool in the root of the repository.
func build(t *testing.T, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	return buildIn(t, "..", args...)
}

func buildIn(t *testing.T, dir string, args ...string) (stdout, stderr string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir = dir
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return out.String(), errs.String(), cmd.ProcessState.ExitCode()
}

var (
	bundleDir  string
	bundleOnce sync.Once
	unpackOnce sync.Once
	unpacked   mcpb.Manifest
)

// everything returns the bundle for every system, made once for all tests.
func everything(t *testing.T) string {
	t.Helper()
	path := filepath.Join(bundleDir, "bellman.mcpb")
	bundleOnce.Do(func() {
		needs(t, "aarch64-linux-gnu-gcc", "x86_64-w64-mingw32-gcc")
		if _, stderr, code := build(t, "bundle", "--platform", "all", "--out", bundleDir); code != 0 {
			t.Errorf("bundle: exit %d\n%s", code, stderr)
		}
	})
	if _, err := os.Stat(path); err != nil {
		t.Skip("the bundle could not be made; another test says why")
	}
	return path
}

// needs skips the test on a machine that lacks a program. CI installs them
// all, so there it fails.
func needs(t *testing.T, programs ...string) {
	t.Helper()
	for _, name := range programs {
		if _, err := exec.LookPath(name); err == nil {
			continue
		}
		if os.Getenv("CI") != "" {
			t.Fatalf("CI has %s", name)
		}
		t.Skipf("no %s (make setup)", name)
	}
}

// install unpacks the bundle as the worst host does: into a path with spaces
// and letters that are not ASCII, every file at 0600.
func install(t *testing.T) (dir string, m mcpb.Manifest) {
	t.Helper()
	path := everything(t)
	needs(t, "unzip")
	unpackOnce.Do(func() { // by another program: our own is slow under the race detector
		out := filepath.Join(bundleDir, "unpacked")
		runIn(t, os.Environ(), "unzip", "-q", path, "-d", out)
		data, err := os.ReadFile(filepath.Join(out, mcpb.ManifestName))
		if err == nil {
			unpacked, err = mcpb.ParseManifest(data)
		}
		if err != nil {
			t.Error(err)
		}
	})
	if unpacked.Name == "" {
		t.Skip("the bundle could not be unpacked; another test says why")
	}
	dir = filepath.Join(t.TempDir(), "Claude Extensions", "béllman (Ünï Cödé)")
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(bundleDir, "unpacked"))); err != nil {
		t.Fatal(err)
	}
	err := filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return os.Chmod(path, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir, unpacked
}
