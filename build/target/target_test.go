package target_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/build/target"
)

// tell is a program that says how it was built.
const tell = `package main

import (
	"fmt"
	"runtime/debug"
)

var version string

func main() {
	info, _ := debug.ReadBuildInfo()
	fmt.Println("version", version)
	for _, s := range info.Settings {
		fmt.Println(s.Key, s.Value)
	}
}
`

func source(t *testing.T) target.Program {
	t.Helper()
	root := t.TempDir()
	for name, text := range map[string]string{"go.mod": "module example.com/tell\n\ngo 1.26.0\n", "main.go": tell} {
		if err := os.WriteFile(filepath.Join(root, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return target.Program{Root: root, Package: ".", Version: "1.2.3-test"}
}

func run(t *testing.T, p target.Program) (how, output string) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "tell"+target.Host().Extension())
	how, err := p.Build(t.Context(), target.Host(), out)
	if err != nil {
		t.Fatal(err)
	}
	text, err := exec.CommandContext(t.Context(), out).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	return how, string(text)
}

// A person without a C compiler gets a program that works, and is told.
func TestHostFallsBackToPureGo(t *testing.T) {
	p := source(t)
	t.Setenv("CGO_ENABLED", "0")
	how, output := run(t, p)
	if how != "pure Go" || !strings.Contains(output, "CGO_ENABLED 0") {
		t.Errorf("built as %s:\n%s", how, output)
	}
	goPath, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("CGO_ENABLED", "")
	t.Setenv("CC", "")
	t.Setenv("PATH", filepath.Dir(goPath))
	if _, err := exec.LookPath("gcc"); err == nil {
		t.Skip("the compiler stands beside the go command")
	}
	if how, _ = run(t, p); how != "pure Go" {
		t.Errorf("without a compiler it was built as %s", how)
	}
}

// The version is stamped and no path of this machine is inside.
func TestBuildStampsTheVersionAndNoPath(t *testing.T) {
	p := source(t)
	_, output := run(t, p)
	if !strings.Contains(output, "version 1.2.3-test") || !strings.Contains(output, "-trimpath true") {
		t.Errorf("it says:\n%s", output)
	}
	out := filepath.Join(t.TempDir(), "tell")
	if _, err := p.Build(t.Context(), target.Host(), out); err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(data), p.Root) {
		t.Errorf("%s is inside", p.Root)
	}
}

func TestEveryTargetHasItsPlaceInTheBundle(t *testing.T) {
	names := map[string][]string{}
	for _, goal := range target.All {
		names[goal.BundleName()] = append(names[goal.BundleName()], goal.String())
		if goal.Platform() == "windows" {
			t.Errorf("%s: a manifest calls it win32", goal)
		}
		if strings.HasSuffix(goal.BundleName(), ".exe") != (goal.OS == "windows") {
			t.Errorf("%s is called %s", goal, goal.BundleName())
		}
	}
	if len(names) != 4 || len(names["bellman-bridge-darwin"]) != 2 {
		t.Errorf("names = %v, want four, darwin's for both processors", names)
	}
}
