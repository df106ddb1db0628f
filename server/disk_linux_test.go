package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// On a full disk the agent is told that nothing can arrive and how it reads the
// rooms all the same; what was not read meanwhile arrives once there is space.
func TestAFullDiskIsSaidToWhoWaits(t *testing.T) {
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", hubtest.Jesse)
	state := filepath.Join(p.dir, "state")
	if err := os.Mkdir(state, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount("tmpfs", state, "tmpfs", 0, "size=2m"); err != nil {
		t.Skipf("only root can mount a small file system: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(state, unix.MNT_DETACH) })
	j, b := joinAs(t, h, p)
	ballast := filepath.Join(state, "ballast")
	for block := make([]byte, 4096); ; {
		f, err := os.OpenFile(ballast, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		_, err = f.Write(block)
		_ = f.Close()
		if err != nil {
			break
		}
	}
	for range 60 { // the log has room for some
		j.peer.Say(t, strings.Repeat("x", 10_000))
	}
	seen := map[int64]bool{}
	for deadline := time.Now().Add(30 * time.Second); ; {
		r := b.call("bellman_wait", map[string]any{"wait_seconds": 0})
		seen = having(t, seen, r)
		if strings.Contains(r.text(), "cannot store events at the moment") && strings.Contains(r.text(), "full") && strings.Contains(r.text(), "bellman_sync") {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("the wait says %s", r.text())
		}
		time.Sleep(50 * time.Millisecond)
	}
	if err := os.Remove(ballast); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(60 * time.Second); len(seen) < 60; {
		if seen = having(t, seen, b.call("bellman_wait", map[string]any{"wait_seconds": 5})); time.Now().After(deadline) {
			t.Fatalf("%d events of 60 once there is space", len(seen))
		}
	}
}

// having adds the cursors of a wait's events.
func having(t *testing.T, seen map[int64]bool, r result) map[int64]bool {
	t.Helper()
	if r.IsError {
		return seen // what it could not claim comes again
	}
	var w waited
	if err := json.Unmarshal(r.Data, &w); err != nil {
		t.Fatal(err)
	}
	for _, e := range w.Events {
		seen[e.Cursor] = true
	}
	return seen
}
