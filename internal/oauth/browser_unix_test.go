//go:build unix && !darwin

package oauth_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/oauth"
)

// mcp-remote's CVE-2025-6514 and the quoting of cmd: a link reaches the
// launcher as one argument, through no shell, and the launcher has none of
// our streams.
func TestBrowserGetsTheLinkAsOneArgument(t *testing.T) {
	dir := t.TempDir()
	out := filepath.Join(dir, "out")
	script := "#!/bin/sh\n{ echo \"$#\"; printf '%s\\n' \"$1\"; readlink /proc/self/fd/1 /proc/$$/fd/0 /proc/$$/fd/2; } >" + out + ".new\nmv " + out + ".new " + out + "\n"
	if err := os.WriteFile(filepath.Join(dir, "xdg-open"), []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir+string(os.PathListSeparator)+os.Getenv("PATH"))
	t.Setenv("DISPLAY", ":99")
	link := "http://127.0.0.1:1/start/a?b=$(touch%20x)&c=`id`;d='\"|e"
	if err := oauth.OpenBrowser(t.Context(), link); err != nil {
		t.Fatal(err)
	}
	var lines []string
	eventually(t, "the launcher has run", func() bool {
		b, err := os.ReadFile(out)
		lines = strings.Split(strings.TrimSpace(string(b)), "\n")
		return err == nil
	})
	if len(lines) != 5 || lines[0] != "1" || lines[1] != link || lines[3] != "/dev/null" || lines[4] != "/dev/null" {
		t.Errorf("the launcher saw %q", lines)
	}
}

// Without a display no launcher is tried: it would take a terminal that is
// not ours.
func TestNoDisplayOpensNothing(t *testing.T) {
	for _, name := range []string{"DISPLAY", "WAYLAND_DISPLAY", "BROWSER"} {
		t.Setenv(name, "")
	}
	if err := oauth.OpenBrowser(t.Context(), "https://example.com/"); err == nil || !strings.Contains(err.Error(), "no display") {
		t.Errorf("OpenBrowser: %v", err)
	}
}
