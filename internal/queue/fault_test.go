package queue_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// What a power cut leaves is a file and a log cut anywhere. It always opens,
// events and cursor agree, and what was acknowledged stays so from the moment
// Ack returned.
func TestAPowerCutPartsNothing(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q, l := leased(t, dir)
	path := filepath.Join(dir, "queue.db")
	type mark struct{ size, acked int64 }
	var marks []mark
	for i := range int64(20) {
		put(t, q, l, 3*i+1, 3*i+2, 3*i+3)
		b, err := q.Claim(t.Context(), me, queue.Filter{}, queue.Limit{Events: 2})
		if err != nil {
			t.Fatal(err)
		}
		if err := q.Ack(t.Context(), b.Token); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(path + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		marks = append(marks, mark{info.Size(), b.Deliveries[1].Event.Cursor})
	}
	db, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	wal, err := os.ReadFile(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	step := len(wal) / 60
	if soak {
		step = 997
	}
	for cut := len(wal); cut >= 0; cut -= step {
		var acked int64
		for _, m := range marks {
			if m.size <= int64(cut) {
				acked = m.acked
			}
		}
		afterCut(t, db, wal[:cut], acked)
	}
}

func afterCut(t *testing.T, db, wal []byte, acked int64) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "queue.db")
	if err := errors.Join(os.WriteFile(path, db, 0o600), os.WriteFile(path+"-wal", wal, 0o600)); err != nil {
		t.Fatal(err)
	}
	q, err := queue.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatalf("cut at %d: %v", len(wal), err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	if aside, _ := filepath.Glob(path + ".corrupt-*"); len(aside) != 0 {
		t.Fatalf("cut at %d: taken for corrupt", len(wal))
	}
	if err := q.Audit(t.Context()); err != nil {
		t.Errorf("cut at %d: %v", len(wal), err)
	}
	list, err := q.Memberships(t.Context(), me)
	if err != nil || len(list) == 0 {
		return // before the membership itself
	}
	got := cursors(claim(t, q))
	var want []int64
	if len(got) > 0 {
		for c := got[0]; c <= list[0].Fetched; c++ {
			want = append(want, c)
		}
		if got[0] <= acked {
			t.Errorf("cut at %d: event %d came again, acknowledged up to %d", len(wal), got[0], acked)
		}
	}
	if !slices.Equal(got, want) {
		t.Errorf("cut at %d: events %v with the watch at %d", len(wal), got, list[0].Fetched)
	}
}

// A process stopped inside a write holds the others up for the busy timeout;
// then they say so, and readers are not held up at all.
func TestAStuckWriterIsAReasonAndNotAHang(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q, l := leased(t, dir)
	put(t, q, l, 1)
	db := raw(t, filepath.Join(dir, "queue.db"))
	c, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = c.Close() }()
	if _, err := c.ExecContext(t.Context(), "begin immediate"); err != nil {
		t.Fatal(err)
	}
	if p, err := q.Pending(t.Context(), me, queue.Filter{}); err != nil || p.Events != 1 {
		t.Errorf("pending %+v, %v; want 1 while a writer is stuck", p, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if _, err := q.Put(ctx, l, seat.ID, []queue.Event{event(2)}, 2); err == nil || ctx.Err() != nil {
		t.Errorf("put: %v; want the reason before the context ends", err)
	}
	if _, err := c.ExecContext(t.Context(), "rollback"); err != nil {
		t.Fatal(err)
	}
	put(t, q, l, 2)
	wantCursors(t, claim(t, q), 1, 2)
}

// An acknowledgement that cannot be written is owed, and paid when it can be.
func TestAnOwedAcknowledgementIsPaid(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q, l := leased(t, dir)
	put(t, q, l, 1)
	b := claim(t, q)
	db := raw(t, filepath.Join(dir, "queue.db"))
	run(t, db, "create trigger full before insert on kept begin select raise(abort, 'disk full'); end")
	if err := q.Ack(t.Context(), b.Token); err == nil {
		t.Fatal("the acknowledgement was written")
	}
	wantCursors(t, claim(t, q)) // the agent has it
	run(t, db, "drop trigger full")
	put(t, q, l, 2)
	eventually(t, "acknowledgement", func() bool {
		p, err := q.Pending(t.Context(), me, queue.Filter{})
		return err == nil && p.Events == 1
	})
	eventually(t, "claim", func() bool {
		b = claim(t, q)
		return b.Token != ""
	})
	wantCursors(t, b, 2)
}

// What says that the agent has something is on disk when the call returns; what
// comes in need not be, for the room's log has it (adr/0001).
func TestWhatTheAgentHasIsSyncedAndWhatComesInIsNot(t *testing.T) {
	q, l := leased(t, t.TempDir())
	db := raw(t, q.Path())
	run(t, db, "create table noted (what text, synchronous integer)",
		"create trigger came after insert on event begin insert into noted select 'put', synchronous from pragma_synchronous; end",
		"create trigger went after insert on kept begin insert into noted select 'ack', synchronous from pragma_synchronous; end",
		"create trigger handed after insert on handed begin insert into noted select 'sync', synchronous from pragma_synchronous; end")
	put(t, q, l, 1)
	if err := q.Ack(t.Context(), claim(t, q).Token); err != nil {
		t.Fatal(err)
	}
	s, err := q.BeginSync(t.Context(), me, seat)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Done(t.Context(), 1, 2); err != nil {
		t.Fatal(err)
	}
	put(t, q, l, 3)
	rows, err := db.Query("select what, synchronous from noted")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	var got []string
	for rows.Next() {
		var what string
		var level int
		if err := rows.Scan(&what, &level); err != nil {
			t.Fatal(err)
		}
		got = append(got, fmt.Sprint(what, " ", []string{"OFF", "NORMAL", "FULL"}[level]))
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	if want := []string{"put NORMAL", "ack FULL", "sync FULL", "put NORMAL"}; !slices.Equal(got, want) {
		t.Errorf("commits %q, want %q", got, want)
	}
}

// A release that cannot be written is owed as well: the events come again
// without a restart.
func TestAnOwedReleaseIsPaid(t *testing.T) {
	t.Parallel()
	q, l := leased(t, t.TempDir())
	put(t, q, l, 1)
	b := claim(t, q)
	db := raw(t, q.Path())
	run(t, db, "create trigger full before update of claim on event begin select raise(abort, 'disk full'); end")
	if err := q.Release(t.Context(), b.Token, false); err == nil {
		t.Fatal("the release was written")
	}
	run(t, db, "drop trigger full")
	eventually(t, "claim", func() bool {
		b = claim(t, q)
		return b.Token != ""
	})
	wantCursors(t, b, 1)
	if b.Deliveries[0].Redelivered {
		t.Error("flagged though no reply had left")
	}
}

// A cancellation that crosses a reply whose acknowledgement is still owed
// brings the events back, flagged, and the debt does not take them away again.
func TestARecallOfAnOwedAcknowledgement(t *testing.T) {
	t.Parallel()
	q, l := leased(t, t.TempDir())
	q.Still() // so that nothing is paid before the recall
	put(t, q, l, 1)
	b := claim(t, q)
	db := raw(t, q.Path())
	run(t, db, "create trigger full before insert on kept begin select raise(abort, 'disk full'); end")
	if err := q.Ack(t.Context(), b.Token); err == nil {
		t.Fatal("the acknowledgement was written")
	}
	run(t, db, "drop trigger full")
	if err := q.Recall(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	again := claim(t, q)
	wantCursors(t, again, 1)
	if !again.Deliveries[0].Redelivered {
		t.Error("the repeat is not flagged")
	}
	if err := q.Close(); err != nil { // which pays
		t.Fatal(err)
	}
	wantCursors(t, claim(t, open(t, filepath.Dir(q.Path()))), 1)
}

// The clock of the machine goes back an hour: nothing depends on it but what
// people did, and no order, claim or lease changes.
func TestAClockThatGoesBackChangesNothing(t *testing.T) {
	now := time.Now()
	q, err := queue.OpenWith(t.Context(), filepath.Join(t.TempDir(), "queue.db"), slog.New(slog.DiscardHandler),
		queue.Settings{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	fill(t, q)
	now = now.Add(-time.Hour)
	b := claim(t, q)
	wantCursors(t, b, 3, 4, 5)
	if _, err := q.Touch(t.Context(), me, seat, 0); err != nil {
		t.Fatal(err)
	}
	list, err := q.Memberships(t.Context(), me)
	i := slices.IndexFunc(list, func(m queue.Membership) bool { return m.Member == seat })
	if err != nil || !list[i].Watchable(now) || list[i].Touched.After(now) {
		t.Errorf("memberships %+v, %v; want the touch of the new time", list, err)
	}
	if err := q.Prune(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	if err := q.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := q.Recall(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	wantCursors(t, claim(t, q), 3, 4, 5)
}

// The write-ahead log is copied into the file while the queue is in use, and
// does not stay as large as it has been.
func TestTheLogDoesNotGrowForEver(t *testing.T) {
	t.Parallel()
	q := openAsChild(t, t.TempDir())
	if _, err := q.Touch(t.Context(), me, seat, 0); err != nil {
		t.Fatal(err)
	}
	l, err := q.Lease(t.Context(), me, seat.Room)
	if err != nil {
		t.Fatal(err)
	}
	cursor := int64(1)
	add := func(n int) int64 {
		t.Helper()
		if _, err := q.Put(t.Context(), l, seat.ID, batch(cursor, n), cursor+int64(n)-1); err != nil {
			t.Fatal(err)
		}
		cursor += int64(n)
		info, err := os.Stat(q.Path() + "-wal")
		if err != nil {
			t.Fatal(err)
		}
		return info.Size()
	}
	for add(500) < 12<<20 && cursor < 100_000 {
	}
	eventually(t, "smaller log", func() bool { return add(1) <= 5<<20 })
}
