package blob_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"bellman.sh/desktop/internal/hub/blob"
)

func open(t *testing.T, dir string) *blob.Store {
	t.Helper()
	s, err := blob.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// files lists what is on disk, whatever its name.
func files(t *testing.T, dir string) []string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "*", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return found
}

// A blob is kept whole, privately, and says how it begins.
func TestPut(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	body := strings.Repeat("a bell ", 5000)
	stored, err := s.Put(t.Context(), iotest.OneByteReader(strings.NewReader(body)), int64(len(body)))
	if err != nil {
		t.Fatal(err)
	}
	if !blob.ID(stored.ID) || stored.Bytes != int64(len(body)) || string(stored.Head) != body[:16] {
		t.Errorf("stored %+v", stored)
	}
	f, err := s.Open(stored.ID)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = f.Close() }()
	if got, err := io.ReadAll(f); err != nil || string(got) != body {
		t.Errorf("read %d bytes, %v", len(got), err)
	}
	info, err := f.Stat()
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v", info.Mode(), err)
	}
	empty, err := s.Put(t.Context(), strings.NewReader(""), 0)
	if err != nil || empty.Bytes != 0 || len(empty.Head) != 0 {
		t.Errorf("empty: %+v %v", empty, err)
	}
}

// A body that is not as long as announced, that breaks off, or whose context
// ends leaves nothing behind.
func TestPutKeepsNothingHalf(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	broken := errors.New("the line broke")
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, c := range map[string]struct {
		end  bool
		body io.Reader
		n    int64
		want error
	}{
		"short":    {false, strings.NewReader("1234"), 5, blob.ErrLength},
		"long":     {false, strings.NewReader("123456"), 5, blob.ErrLength},
		"cut":      {false, io.MultiReader(strings.NewReader("12"), iotest.ErrReader(io.ErrUnexpectedEOF)), 5, blob.ErrLength},
		"late cut": {false, io.MultiReader(bytes.NewReader(make([]byte, 1<<17)), iotest.ErrReader(io.ErrUnexpectedEOF)), 1 << 20, blob.ErrLength},
		"broken":   {false, io.MultiReader(bytes.NewReader(make([]byte, 1<<17)), iotest.ErrReader(broken)), 1 << 20, broken},
		"ended":    {true, strings.NewReader("12345"), 5, context.Canceled},
	} {
		ctx := t.Context()
		if c.end {
			ctx = ended
		}
		if _, err := s.Put(ctx, c.body, c.n); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
	if left := files(t, dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// No name but an id reaches a file, and removing is harmless twice.
func TestNames(t *testing.T) {
	dir := t.TempDir()
	outside := filepath.Join(filepath.Dir(dir), "secret")
	if err := os.WriteFile(outside, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	s := open(t, dir)
	for _, id := range []string{"", "..", "../secret", strings.Repeat("A", 32), strings.Repeat("0", 31), "00/../../secret", strings.Repeat("0", 32)} {
		if _, err := s.Open(id); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%q: %v, want that it does not exist", id, err)
		}
		if err := s.Remove(id); err != nil {
			t.Errorf("remove %q: %v", id, err)
		}
	}
	stored, err := s.Put(t.Context(), strings.NewReader("x"), 1)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.Remove(stored.ID); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(outside); err != nil {
		t.Error(err)
	}
	// A link in place of a directory leads nowhere.
	link := strings.Repeat("ab", 16)
	if err := os.Symlink(filepath.Dir(dir), filepath.Join(dir, "ab")); err != nil {
		t.Skip("no links here")
	}
	if err := os.WriteFile(filepath.Join(filepath.Dir(dir), link), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(link); err == nil {
		t.Error("a link led out of the directory")
	}
}

// What an interrupted upload left, in part or whole, is swept once it is old,
// and copies hold whole blobs alone.
func TestSweepAndCopy(t *testing.T) {
	dir, to := t.TempDir(), t.TempDir()
	s, copies := open(t, dir), open(t, to)
	stored, err := s.Put(t.Context(), strings.NewReader("whole"), 5)
	if err != nil {
		t.Fatal(err)
	}
	part := filepath.Join(dir, stored.ID[:2], strings.Repeat("0", 32)+".part")
	if err := os.WriteFile(part, []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := s.CopyTo(t.Context(), copies); err != nil {
			t.Fatal(err)
		}
	}
	if got := files(t, to); len(got) != 1 {
		t.Errorf("copied %v", got)
	}
	if _, err := s.Put(t.Context(), strings.NewReader("nobody's"), 8); err != nil {
		t.Fatal(err)
	}
	known := func(id string) (bool, error) { return id == stored.ID, nil }
	for _, c := range []struct {
		after time.Duration
		left  int
	}{{time.Hour, 3}, {25 * time.Hour, 1}} {
		if err := s.Sweep(time.Now().Add(c.after), known); err != nil {
			t.Fatal(err)
		}
		if got := files(t, dir); len(got) != c.left {
			t.Errorf("%v later: %v", c.after, got)
		}
	}
}

// A store without a directory leaves nothing.
func TestTemporary(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	s, err := blob.Open("")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(t.Context(), strings.NewReader("x"), 1); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if left, err := os.ReadDir(os.Getenv("TMPDIR")); err != nil || len(left) != 0 {
		t.Errorf("left %v %v", left, err)
	}
}
