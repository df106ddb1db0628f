package sqlite_test

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bellman.sh/desktop/internal/hub/journal"
	"bellman.sh/desktop/internal/hub/journal/journaltest"
	"bellman.sh/desktop/internal/hub/sqlite"
)

// A connection that database/sql is closing may outlive Close by a moment.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func options(path string) sqlite.Options {
	return sqlite.Options{Path: path, Log: slog.New(slog.DiscardHandler)}
}

func open(tb testing.TB, o sqlite.Options) *sqlite.DB {
	tb.Helper()
	db, err := sqlite.Open(tb.Context(), o)
	if err != nil {
		tb.Fatalf("open: %v", err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Errorf("close: %v", err)
		}
	})
	return db
}

// The engine keeps the promises of every engine.
func TestJournal(t *testing.T) {
	dirs := sync.Map{}
	journaltest.Run(t, func(tb testing.TB, name string) (journal.Journal, func()) {
		tb.Helper()
		dir, _ := dirs.LoadOrStore(tb.Name()+name, filepath.Join(tb.TempDir(), "hub.db"))
		path, _ := dir.(string)
		db := open(tb, options(path))
		return db, func() {
			if err := db.Close(); err != nil {
				tb.Errorf("close: %v", err)
			}
		}
	})
}

// A database in memory keeps them too, while it is open.
func TestJournalInMemory(t *testing.T) {
	db := open(t, options(":memory:"))
	if err := db.Append(t.Context(), "a", 0, journal.Entry{Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	if at, err := db.Watch(t.Context(), "a", 0); err != nil || at != 1 {
		t.Errorf("watch: %d %v", at, err)
	}
}

// A watch in one process is woken by what another writes.
func TestWatchSeesOtherProcesses(t *testing.T) {
	path := filepath.Join(t.TempDir(), "hub.db")
	served := open(t, options(path))
	shared := options(path)
	shared.Shared = true
	beside := open(t, shared)
	woken := make(chan error, 1)
	go func() {
		_, err := served.Watch(t.Context(), "a", 0)
		woken <- err
	}()
	if err := beside.Append(t.Context(), "a", 0, journal.Entry{Body: []byte("x")}); err != nil {
		t.Fatal(err)
	}
	select {
	case err := <-woken:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(10 * time.Second):
		t.Error("not woken")
	}
}

// One hub a directory; a foreign or newer database is refused and left as it
// is; a fresh one is private.
func TestOpenRefusals(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "hub.db")
	db := open(t, options(path))
	if _, err := sqlite.Open(t.Context(), options(path)); !errors.Is(err, sqlite.ErrInUse) || !strings.Contains(err.Error(), dir) {
		t.Errorf("second open: %v, want in use, with the path", err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v %v, want 0600", info.Mode(), err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	open(t, options(path))

	foreign := filepath.Join(t.TempDir(), "hub.db")
	if err := os.WriteFile(foreign, []byte(strings.Repeat("not a database ", 20)), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sqlite.Open(t.Context(), options(foreign)); err == nil || !strings.Contains(err.Error(), foreign) {
		t.Errorf("a text file: %v, want an error with the path", err)
	}
	// Bytes 60 to 63 and 68 to 71 of the header are the schema's version and
	// whose it is.
	for words, change := range map[string]struct{ at, to byte }{"newer version": {63, 99}, "not a hub's": {68, 1}} {
		path := filepath.Join(t.TempDir(), "hub.db")
		if err := open(t, options(path)).Close(); err != nil {
			t.Fatal(err)
		}
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		whole[change.at] = change.to
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := sqlite.Open(t.Context(), options(path)); err == nil || !strings.Contains(err.Error(), words) || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %v, want that and the path", words, err)
		}
		if left, err := os.ReadFile(path); err != nil || !bytes.Equal(left, whole) {
			t.Errorf("%s: the file was changed (%v)", words, err)
		}
	}
}

// After Close every call fails instead of hanging.
func TestClosed(t *testing.T) {
	db := open(t, options(filepath.Join(t.TempDir(), "hub.db")))
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	if err := db.Append(t.Context(), "a", 0, journal.Entry{}); !errors.Is(err, sqlite.ErrClosed) {
		t.Errorf("append: %v, want closed", err)
	}
	if _, err := db.Read(t.Context(), "a", 0, 1); err == nil {
		t.Error("read on a closed database succeeded")
	}
}

// Items expire on the dot, are taken once, and are listed by prefix.
func TestShelf(t *testing.T) {
	now := time.Unix(1000, 0)
	o := options(":memory:")
	o.Now = func() time.Time { return now }
	db := open(t, o)
	s := db.Shelf("s")
	ctx := t.Context()
	put := func(key string, expires time.Time) {
		t.Helper()
		if err := s.Put(ctx, key, []byte("v-"+key), expires); err != nil {
			t.Fatal(err)
		}
	}
	put("a/1", time.Time{})
	put("a/2", now.Add(time.Minute))
	put("b/1", now.Add(time.Minute))
	if items, err := s.List(ctx, "a/"); err != nil || len(items) != 2 || items[1].Key != "a/2" || string(items[1].Value) != "v-a/2" {
		t.Errorf("list: %v %v", items, err)
	}
	if n, err := s.Size(ctx); err != nil || n != 3 {
		t.Errorf("size %d %v, want 3", n, err)
	}
	now = now.Add(time.Minute)
	if _, ok, err := s.Get(ctx, "a/2"); ok || err != nil {
		t.Errorf("expired item: %t %v", ok, err)
	}
	if _, ok, err := s.Take(ctx, "b/1"); ok || err != nil {
		t.Errorf("expired item taken: %t %v", ok, err)
	}
	if err := db.Sweep(ctx); err != nil {
		t.Fatal(err)
	}
	if _, ok, _ := db.Shelf("other").Get(ctx, "a/1"); ok {
		t.Error("shelves are not apart")
	}
	taken := make(chan bool, 8)
	var wg sync.WaitGroup
	for range cap(taken) {
		wg.Go(func() {
			_, ok, err := s.Take(ctx, "a/1")
			if err != nil {
				t.Error(err)
			}
			taken <- ok
		})
	}
	wg.Wait()
	close(taken)
	n := 0
	for ok := range taken {
		if ok {
			n++
		}
	}
	if n != 1 {
		t.Errorf("taken %d times, want once", n)
	}
}

// A counter stops at its limit and starts again when it has expired.
func TestShelfCount(t *testing.T) {
	now := time.Unix(1000, 0)
	o := options(":memory:")
	o.Now = func() time.Time { return now }
	s := open(t, o).Shelf("s")
	count := func() bool {
		t.Helper()
		ok, err := s.Count(t.Context(), "k", 12, now.Add(time.Hour))
		if err != nil {
			t.Fatal(err)
		}
		return ok
	}
	for range 2 {
		for i := range 12 {
			if !count() {
				t.Fatalf("stopped at %d, want 12", i)
			}
		}
		if count() {
			t.Fatal("went past 12")
		}
		now = now.Add(time.Hour)
	}
}

// Appends of many rooms go to disk together, each once.
func TestGroupCommit(t *testing.T) {
	db := open(t, options(filepath.Join(t.TempDir(), "hub.db")))
	var wg sync.WaitGroup
	for r := range 50 {
		wg.Go(func() {
			room := fmt.Sprint("room-", r)
			for i := range int64(20) {
				if err := db.Append(t.Context(), room, i, journal.Entry{Body: []byte("x")}); err != nil {
					t.Errorf("%s after %d: %v", room, i, err)
					return
				}
			}
		})
	}
	wg.Wait()
	if err := db.Check(t.Context()); err != nil {
		t.Error(err)
	}
}

// A backup of a database that is being written to is whole.
func TestBackup(t *testing.T) {
	dir := t.TempDir()
	db := open(t, options(filepath.Join(dir, "hub.db")))
	var wg sync.WaitGroup
	wg.Go(func() {
		for i := range int64(200) {
			if err := db.Append(t.Context(), "a", i, journal.Entry{Body: []byte("x")}); err != nil {
				t.Error(err)
				return
			}
		}
	})
	to := filepath.Join(dir, "copy", "hub.db")
	if err := os.Mkdir(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := db.Backup(t.Context(), to); err != nil {
		t.Fatal(err)
	}
	wg.Wait()
	if err := db.Backup(t.Context(), to); !errors.Is(err, os.ErrExist) {
		t.Errorf("over an old backup: %v, want that it exists", err)
	}
	if err := open(t, options(to)).Check(t.Context()); err != nil {
		t.Error(err)
	}
}
