package main_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// folder is a bundle's server folder in a path that breaks careless quoting.
// Each binary is a script that tells its name and arguments.
func folder(t *testing.T, mode os.FileMode, binaries ...string) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "Claude Extensions", "it's \"Ünï Cödé\" $HOME", "server")
	if err := os.MkdirAll(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	launcher, err := os.ReadFile("launch.sh")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "launch.sh"), launcher, mode); err != nil {
		t.Fatal(err)
	}
	for _, name := range binaries {
		script := "#!/bin/sh\nprintf '%s' \"" + name + "\"; printf ' [%s]' \"$@\"; exit 7\n"
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), mode); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// uname returns a PATH on which uname says what it is told to.
func uname(t *testing.T, system, machine string) string {
	t.Helper()
	dir := t.TempDir()
	script := "#!/bin/sh\ncase $1 in -s) echo " + system + " ;; -m) echo " + machine + " ;; esac\n"
	if err := os.WriteFile(filepath.Join(dir, "uname"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	return dir + ":" + os.Getenv("PATH")
}

func launch(t *testing.T, dir, path string) (output string, code int) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/bin/sh", filepath.Join(dir, "launch.sh"), "--bundle", "a b", "", "*")
	cmd.Env = append(os.Environ(), "PATH="+path)
	cmd.Dir = t.TempDir()
	out, err := cmd.CombinedOutput()
	if err != nil && cmd.ProcessState == nil {
		t.Fatal(err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

var bridges = []string{"bellman-bridge-darwin", "bellman-bridge-linux-amd64", "bellman-bridge-linux-arm64"}

// EACCES at start on macOS: the host extracts every file as 0600 and ignores
// the modes that are stored. "Bad CPU type in executable": the host cannot
// tell processors apart. The launcher sees to both.
func TestLauncherStartsTheRightBinaryWithoutAnyMode(t *testing.T) {
	for _, tt := range []struct{ system, machine, want string }{
		{"Darwin", "arm64", "bellman-bridge-darwin"},
		{"Darwin", "x86_64", "bellman-bridge-darwin"},
		{"Linux", "x86_64", "bellman-bridge-linux-amd64"},
		{"Linux", "amd64", "bellman-bridge-linux-amd64"},
		{"Linux", "aarch64", "bellman-bridge-linux-arm64"},
		{"Linux", "arm64", "bellman-bridge-linux-arm64"},
	} {
		t.Run(tt.system+" "+tt.machine, func(t *testing.T) {
			out, code := launch(t, folder(t, 0o600, bridges...), uname(t, tt.system, tt.machine))
			if want := tt.want + " [--bundle] [a b] [] [*]"; out != want || code != 7 {
				t.Errorf("exit %d, output %q, want 7 and %q", code, out, want)
			}
		})
	}
}

// A person who got the wrong file is told so in words.
func TestLauncherSaysWhyItCannotStart(t *testing.T) {
	for name, tt := range map[string]struct {
		system, machine string
		binaries        []string
		want            string
	}{
		"other processor": {"Linux", "riscv64", bridges, "there is no bridge for Linux on riscv64"},
		"other system":    {"FreeBSD", "amd64", bridges, "there is no bridge for FreeBSD"},
		"other bundle":    {"Darwin", "arm64", bridges[1:], "it lacks bellman-bridge-darwin"},
	} {
		t.Run(name, func(t *testing.T) {
			out, code := launch(t, folder(t, 0o600, tt.binaries...), uname(t, tt.system, tt.machine))
			if code != 1 || !strings.HasPrefix(out, "bellman: ") || !strings.Contains(out, tt.want) {
				t.Errorf("exit %d, output %q, want 1 and %q", code, out, tt.want)
			}
		})
	}
}

// The launcher is plain POSIX: it runs under every shell that may be /bin/sh.
func TestLauncherRunsUnderEveryShell(t *testing.T) {
	for _, shell := range []string{"sh", "dash", "bash", "busybox", "zsh", "ksh"} {
		path, err := exec.LookPath(shell)
		if err != nil {
			continue
		}
		t.Run(shell, func(t *testing.T) {
			args := []string{filepath.Join(folder(t, 0o600, bridges...), "launch.sh"), "x"}
			if shell == "busybox" {
				args = append([]string{"sh"}, args...)
			}
			cmd := exec.CommandContext(t.Context(), path, args...)
			cmd.Env = append(os.Environ(), "PATH="+uname(t, "Linux", "x86_64"))
			out, _ := cmd.CombinedOutput()
			if want := "bellman-bridge-linux-amd64 [x]"; string(out) != want {
				t.Errorf("output %q, want %q", out, want)
			}
		})
	}
}
