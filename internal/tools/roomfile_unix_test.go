//go:build unix

package tools_test

import (
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"bellman.sh/desktop/internal/tools"
)

// A room file that is a FIFO holds nothing up, with a writer or without.
func TestARoomFileThatIsAFIFO(t *testing.T) {
	dir := project(t, "")
	if err := os.Mkdir(filepath.Join(dir, ".bellman"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mkfifo(filepath.Join(dir, ".bellman", "room.yaml"), 0o600); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	inProject(t, nowhere, dir).refused("bellman_start", args{}, "not a regular file", "Nothing was sent")
	if took := time.Since(began); took > 20*time.Second { // for ever, if it were opened
		t.Errorf("took %s", took)
	}
}

// Whatever is refused, its file is closed.
func TestRefusedFilesAreClosed(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only Linux tells which files are open")
	}
	open := func() int {
		all, err := os.ReadDir("/proc/self/fd")
		if err != nil {
			t.Fatal(err)
		}
		return len(all)
	}
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "big.bin"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(root, "big.bin"), 26_214_401); err != nil {
		t.Fatal(err)
	}
	r := offline(t, func(c *tools.Config) { c.RoomDir, c.Upload.Root = project(t, "- a\n"), root })
	before := 0
	for i := range 301 {
		if i == 1 {
			before = open()
		}
		r.refused("bellman_start", args{}, "room.yaml")
		r.refused("bellman_upload", args{"session_id": "qs_1", "member_id": "m_1", "path": "big.bin", "key": "k"}, "at most 26214400")
	}
	if after := open(); after > before+9 {
		t.Errorf("%d files are open, %d were", after, before)
	}
}
