package tools_test

import (
	"testing"

	"bellman.sh/desktop/internal/tools"
)

// Names of devices and of streams beside a file's content are refused, under
// every root.
func TestWindowsNamesAreRefused(t *testing.T) {
	d := newDesk(t)
	d.file("a.txt", []byte("x"))
	any := d.another(func(c *tools.Config) { c.Upload.Root = "/" })
	for _, name := range []string{
		"NUL", "nul.txt", "CON", "COM1", "sub/LPT9.md", "a.txt:hidden", "a.txt::$DATA", `\\.\NUL`, `\\?\C:\Windows\win.ini`, `C:\a.txt:x`,
	} {
		d.refused("bellman_upload", d.args(name, nil), "is no name of a file")
		any.refused("bellman_upload", d.args(name, nil), "is no name of a file")
	}
	any.ok("bellman_upload", d.args(d.file("b.txt", []byte("y")), nil), nil)
}
