package queue_test

import (
	"context"
	"os"
	"path/filepath"
	"testing"
)

// What a process still wrote to a removed file, after another had written it
// anew, does not part events and cursor: its lease is stale and the watch
// begins again from what the new file knows, and what it claimed comes again,
// flagged.
func TestWhatWentToARemovedFileIsReadAgain(t *testing.T) {
	t.Parallel()
	if os.PathSeparator == '\\' {
		t.Skip("Windows does not remove files that are open")
	}
	dir := filepath.Join(t.TempDir(), "state")
	first, slow := open(t, dir), open(t, dir)
	slow.Still()
	if _, err := slow.Touch(t.Context(), me, seat, 0); err != nil {
		t.Fatal(err)
	}
	l, err := slow.Lease(t.Context(), me, seat.Room)
	if err != nil {
		t.Fatal(err)
	}
	put(t, slow, l, 1)
	held := claim(t, slow)
	files, err := filepath.Glob(filepath.Join(dir, "queue.db*")) // and no lock
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if err := os.Remove(f); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "new file", func() bool {
		list, err := first.Memberships(t.Context(), me)
		_, errStat := os.Stat(filepath.Join(dir, "queue.db"))
		return err == nil && errStat == nil && len(list) == 1
	})
	put(t, slow, l, 2) // into the file that is gone
	if err := slow.Ack(t.Context(), held.Token); err != nil {
		t.Fatal(err)
	}
	if err := slow.Mend(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	if n, err := slow.Put(t.Context(), l, seat.ID, batch(3, 1), 3); err == nil {
		t.Errorf("put of %d events beyond a gap", n)
	}
	list, err := slow.Memberships(t.Context(), me)
	if err != nil || len(list) != 1 || list[0].Fetched != 1 {
		t.Fatalf("memberships %+v, %v; want one read up to 1", list, err)
	}
	if l, err = slow.Lease(t.Context(), me, seat.Room); err != nil {
		t.Fatal(err)
	}
	put(t, slow, l, 2, 3)
	got := claim(t, slow)
	wantCursors(t, got, 1, 2, 3)
	if !got.Deliveries[0].Redelivered || got.Deliveries[1].Redelivered {
		t.Error("want the first event flagged and the second not")
	}
	if err := first.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}
