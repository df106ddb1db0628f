package queue_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
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

// Somebody deletes the file's log, the log's index, both, or the file alone
// under two running processes: nothing is lost, no log of one file is taken
// for another's, and whoever comes later meets them in the new file.
func TestADeletedLogIsMended(t *testing.T) {
	t.Parallel()
	if os.PathSeparator == '\\' {
		t.Skip("Windows does not remove files that are open")
	}
	for _, suffixes := range [][]string{{"-wal"}, {"-shm"}, {"-wal", "-shm"}, {""}, {"", "-shm"}} {
		t.Run(strings.Join(suffixes, " and "), func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			q, other := open(t, dir), open(t, dir)
			fill(t, q)
			db := raw(t, q.Path()) // so that the log holds some pages and the file the rest
			run(t, db, "pragma wal_checkpoint(passive)")
			if err := db.Close(); err != nil {
				t.Fatal(err)
			}
			if _, err := q.Touch(t.Context(), me, queue.Member{Room: "qs_8", ID: "m_8"}, 0); err != nil {
				t.Fatal(err)
			}
			before, err := os.Stat(q.Path())
			if err != nil {
				t.Fatal(err)
			}
			for _, suffix := range suffixes {
				if err := os.Remove(q.Path() + suffix); err != nil {
					t.Fatal(err)
				}
			}
			eventually(t, "new file", func() bool {
				now, err := os.Stat(q.Path())
				return err == nil && !os.SameFile(now, before)
			})
			eventually(t, "meeting", func() bool {
				_, errTouch := other.Touch(t.Context(), me, queue.Member{Room: "qs_9", ID: "m_9"}, 0)
				list, err := q.Memberships(t.Context(), me)
				return errTouch == nil && err == nil && len(list) == 5
			})
			late := open(t, dir)
			wantCursors(t, claim(t, late), 3, 4, 5)
			if err := late.Audit(t.Context()); err != nil {
				t.Error(err)
			}
			var verdict string
			if err := raw(t, q.Path()).QueryRow("pragma integrity_check").Scan(&verdict); err != nil || verdict != "ok" {
				t.Errorf("integrity: %s, %v", verdict, err)
			}
			time.Sleep(600 * time.Millisecond) // for what must not happen: the closing of the old file touches the new one's log
			if aside, _ := filepath.Glob(q.Path() + ".corrupt-*"); len(aside) > 0 {
				t.Errorf("set aside: %v", aside)
			}
			for _, suffix := range []string{"", "-wal", "-shm"} {
				if _, err := os.Stat(q.Path() + suffix); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

// Another process has begun a new log before this one noticed that the old one
// was gone: its file is taken as it is, and what was only in the old log is
// read from the room again.
func TestALogThatAnotherProcessBeganIsTakenAsItIs(t *testing.T) {
	t.Parallel()
	if os.PathSeparator == '\\' {
		t.Skip("Windows does not remove files that are open")
	}
	dir := t.TempDir()
	q := open(t, dir)
	q.Still()
	fill(t, q)
	db := raw(t, q.Path())
	run(t, db, "pragma wal_checkpoint(passive)")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	l, err := q.Lease(t.Context(), me, "qs_2")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(t.Context(), l, "m_2", batch(1, 3), 3); err != nil { // into the log alone
		t.Fatal(err)
	}
	for _, suffix := range []string{"-wal", "-shm"} {
		if err := os.Remove(q.Path() + suffix); err != nil {
			t.Fatal(err)
		}
	}
	c := spawn(t, dir, "newcomer")
	if got := c.line(t); got != "here" {
		t.Fatal(got)
	}
	if err := q.Mend(context.WithoutCancel(t.Context())); err != nil {
		t.Fatal(err)
	}
	c.tell(t)
	if got := c.line(t); got != "put <nil>" {
		t.Errorf("the newcomer: %s", got)
	}
	if _, err := q.Put(t.Context(), l, "m_2", batch(4, 1), 4); !errors.Is(err, queue.ErrStale) {
		t.Errorf("a put beyond a gap: %v; want a stale lease", err)
	}
	list, err := q.Memberships(t.Context(), me)
	if err != nil || len(list) != 4 {
		t.Fatalf("memberships %+v, %v; want those of both", list, err)
	}
	for _, m := range list {
		if m.Room == "qs_2" && m.Fetched != 0 {
			t.Errorf("read up to %d though the events are gone", m.Fetched)
		}
	}
	if err := q.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// Somebody removes the lock of a process that runs, or puts another file in its
// place: it makes its lock again, so that a look from outside still shows it
// and a process that comes later does not take its rooms.
func TestARemovedLockIsMadeAgain(t *testing.T) {
	t.Parallel()
	if os.PathSeparator == '\\' {
		t.Skip("Windows does not remove files that are open")
	}
	for name, spoil := range map[string]func(path string) error{
		"removed": os.Remove,
		"replaced": func(path string) error {
			return errors.Join(os.WriteFile(path+".copy", nil, 0o600), os.Rename(path+".copy", path))
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "state")
			q, l := leased(t, dir)
			locks, err := filepath.Glob(filepath.Join(dir, "owner-*.lock"))
			if err != nil || len(locks) != 1 {
				t.Fatalf("locks %v, %v", locks, err)
			}
			if err := spoil(locks[0]); err != nil {
				t.Fatal(err)
			}
			eventually(t, "the process is seen to run", func() bool {
				o := inspect(t, dir)
				return len(o.Bridges) == 1 && o.Bridges[0].Rooms == 1 && roomIn(t, o, seat.Room).Holder == os.Getpid()
			})
			if _, err := open(t, dir).Lease(t.Context(), me, seat.Room); !errors.Is(err, queue.ErrHeld) {
				t.Errorf("leased twice: %v", err)
			}
			put(t, q, l, 1)
			if err := q.Close(); err != nil {
				t.Error(err)
			}
			if left, _ := filepath.Glob(locks[0]); left != nil {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}
