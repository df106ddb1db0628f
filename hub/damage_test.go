package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// Damage to a data directory is found by check, and named.
func TestCheckFindsDamage(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	child := startChild(t, data)
	server := &hubtest.Server{URL: child.url}
	a := server.As(hubtest.Jesse).Open(t, nil)
	b := server.As(hubtest.Peer).Join(t, a.Code)
	for range 40 {
		b.Say(t, strings.Repeat("ring ", 1000))
	}
	child.kill(t)
	check := func() (int, string) {
		var out, errOut strings.Builder
		code := run(t.Context(), []string{"check", "--data", data}, os.Getenv, &out, &errOut)
		return code, out.String() + errOut.String()
	}
	if code, said := check(); code != exitOK {
		t.Fatalf("whole: %d %s", code, said)
	}
	path := filepath.Join(data, "hub.db")
	whole, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	broken := append([]byte{}, whole...)
	for i := len(broken) / 2; i < len(broken)/2+4096; i++ {
		broken[i] ^= 0xff
	}
	for name, content := range map[string][]byte{"overwritten": broken, "cut": whole[:len(whole)/2]} {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		code, said := check()
		if code != exitFailed || strings.Count(said, "\n") != 1 {
			t.Errorf("%s: %d %q, want one line and exit 1", name, code, said)
		}
	}
}
