package queue_test

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// withoutLog makes a directory in which the index of a write-ahead log cannot
// be made, as on a file system that shares no memory.
func withoutLog(tb testing.TB) string {
	tb.Helper()
	dir := filepath.Join(tb.TempDir(), "state")
	if err := os.MkdirAll(filepath.Join(dir, "queue.db.probe-shm", "in the way"), 0o700); err != nil {
		tb.Fatal(err)
	}
	return dir
}

// Where there can be no write-ahead log the queue says so and keeps its
// promises with a rollback journal, every commit of which is FULL.
func TestAFileSystemWithoutSharedMemoryIsSlowerAndNoMore(t *testing.T) {
	t.Parallel()
	dir := withoutLog(t)
	path := filepath.Join(dir, "queue.db")
	var said strings.Builder
	q, err := queue.Open(t.Context(), path, slog.New(slog.NewTextHandler(&said, nil)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(said.String(), "cannot share a write-ahead log") || !strings.Contains(said.String(), path) {
		t.Errorf("log %q does not say what is slower", said.String())
	}
	modes, err := q.Pragmas(t.Context(), "journal_mode")
	if err != nil || slices.Contains(modes, "wal") {
		t.Errorf("journal modes %v, %v", modes, err)
	}
	levels, err := q.Pragmas(t.Context(), "synchronous")
	if err != nil || levels[len(levels)-1] != "2" {
		t.Errorf("the writer commits at level %v, %v; want 2, FULL", levels, err)
	}
	fill(t, q)
	other := open(t, dir)
	got := make(chan queue.Batch, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		b, _ := other.Await(ctx, me, queue.Filter{Room: "qs_2"}, all)
		got <- b
	}()
	l, err := q.Lease(t.Context(), me, "qs_2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(t.Context(), l, "m_2", batch(1, 2), 2); err != nil {
		t.Fatal(err)
	}
	b := <-got
	wantCursors(t, b, 1, 2)
	if err := other.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	again := open(t, dir)
	wantCursors(t, claim(t, again), 3, 4, 5)
	if err := again.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// Trying for a write-ahead log leaves nothing behind, also after a process that
// died while it tried.
func TestTryingForALogLeavesNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, name := range []string{"queue.db.probe", "queue.db.probe-wal", "queue.db.probe-shm"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte("half a file"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	q := open(t, dir)
	if modes, err := q.Pragmas(t.Context(), "journal_mode"); err != nil || modes[0] != "wal" {
		t.Errorf("journal modes %v, %v", modes, err)
	}
	if left, err := filepath.Glob(filepath.Join(dir, "*.probe*")); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, %v", left, err)
	}
}
