//go:build unix

package tools_test

import (
	"net"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"bellman.sh/desktop/internal/tools"
)

// What is no file is never opened: a FIFO would wait for its writer, a device
// may act.
func TestFIFOsSocketsAndDevicesAreNotOpened(t *testing.T) {
	d := newDesk(t)
	fifo := filepath.Join(d.root, "pipe.md")
	if err := syscall.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := net.Listen("unix", filepath.Join(d.root, "s.md"))
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for _, name := range []string{"pipe.md", "s.md"} {
		d.refused("bellman_upload", d.args(name, nil), "is not a regular file")
	}
	any := d.another(func(c *tools.Config) { c.Upload.Root = "/" })
	for _, device := range []string{"/dev/null", "/dev/zero", "/dev/tty"} {
		if _, err := os.Lstat(device); err == nil {
			any.refused("bellman_upload", d.args(device, nil), "is not a regular file")
		}
	}
	d.file("closed.md", []byte("x"))
	if os.Getuid() != 0 {
		if err := os.Chmod(filepath.Join(d.root, "closed.md"), 0); err != nil {
			t.Fatal(err)
		}
		d.refused("bellman_upload", d.args("closed.md", nil), "permission denied")
	}
}
