//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

// The host dies while something else still holds the bridge's input open.
func TestABridgeWhoseParentIsGoneLeaves(t *testing.T) {
	p := newProfile(t, dead, "k")
	pidFile := filepath.Join(p.dir, "pid")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	sh := exec.Command("/bin/sh", "-c", `exec 3<&0; "$1" <&3 >/dev/null 2>&1 & echo $! > "$2"; sleep 1`, "sh", self, pidFile)
	sh.Env = append(os.Environ(), p.env...)
	sh.Stdin = r
	if err := sh.Run(); err != nil {
		t.Fatal(err)
	}
	r.Close()
	text, err := os.ReadFile(pidFile)
	if err != nil {
		t.Fatal(err)
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(10 * time.Second); alive(pid); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			_ = syscall.Kill(pid, syscall.SIGKILL)
			t.Fatal("the bridge stayed after its parent was gone")
		}
	}
}

// alive reports whether the process runs: one that ended may stay as a zombie
// until init takes it.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return syscall.Kill(pid, 0) == nil
	}
	_, rest, _ := strings.Cut(string(stat), ") ")
	return !strings.HasPrefix(rest, "Z")
}
