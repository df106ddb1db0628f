package queue_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"path/filepath"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

var (
	me   = queue.Identity{Server: "http://127.0.0.1:3900/mcp", User: "u_me"}
	seat = queue.Member{Room: "qs_1", ID: "m_1"}
	all  = queue.Limit{}
)

func open(tb testing.TB, dir string) *queue.Queue {
	tb.Helper()
	q, err := queue.Open(tb.Context(), filepath.Join(dir, "queue.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := q.Close(); err != nil {
			tb.Error(err)
		}
	})
	return q
}

// leased opens a queue with seat known and its room leased.
func leased(tb testing.TB, dir string) (*queue.Queue, queue.Lease) {
	tb.Helper()
	q := open(tb, dir)
	if _, err := q.Touch(tb.Context(), me, seat, 0); err != nil {
		tb.Fatal(err)
	}
	l, err := q.Lease(tb.Context(), me, seat.Room)
	if err != nil {
		tb.Fatal(err)
	}
	return q, l
}

func event(cursor int64) queue.Event {
	return queue.Event{Cursor: cursor, Type: "message", At: time.Unix(cursor, 0), Body: json.RawMessage(`{"n":1}`)}
}

func put(tb testing.TB, q *queue.Queue, l queue.Lease, cursors ...int64) {
	tb.Helper()
	var events []queue.Event
	for _, c := range cursors {
		events = append(events, event(c))
	}
	if _, err := q.Put(tb.Context(), l, seat.ID, events, cursors[len(cursors)-1]); err != nil {
		tb.Fatal(err)
	}
}

func claim(tb testing.TB, q *queue.Queue) queue.Batch {
	tb.Helper()
	b, err := q.Claim(tb.Context(), me, queue.Filter{}, all)
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func cursors(b queue.Batch) []int64 {
	list := []int64{}
	for _, d := range b.Deliveries {
		list = append(list, d.Event.Cursor)
	}
	return list
}

func wantCursors(tb testing.TB, b queue.Batch, want ...int64) {
	tb.Helper()
	got := cursors(b)
	if len(got) != len(want) {
		tb.Fatalf("events %v, want %v", got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			tb.Fatalf("events %v, want %v", got, want)
		}
	}
}

func TestARepeatAddsNothingAndTheCursorNeverGoesBack(t *testing.T) {
	q, l := leased(t, t.TempDir())
	put(t, q, l, 1, 2, 3)
	put(t, q, l, 1, 2, 3)
	put(t, q, l, 2)
	wantCursors(t, claim(t, q), 1, 2, 3)
	list, err := q.Memberships(t.Context(), me)
	if err != nil || len(list) != 1 || list[0].Fetched != 3 {
		t.Fatalf("memberships %+v, %v; want fetched 3", list, err)
	}
}

func TestAnAcknowledgedBatchIsGoneAndOneReleasedComesAgain(t *testing.T) {
	q, l := leased(t, t.TempDir())
	put(t, q, l, 1, 2)
	b := claim(t, q)
	wantCursors(t, claim(t, q)) // held
	if err := q.Release(t.Context(), b.Token, false); err != nil {
		t.Fatal(err)
	}
	b = claim(t, q)
	wantCursors(t, b, 1, 2)
	if b.Deliveries[0].Redelivered {
		t.Error("flagged though its reply never left")
	}
	q.Sent(b.Token)
	if err := q.Release(t.Context(), b.Token, false); err != nil {
		t.Fatal(err)
	}
	b = claim(t, q)
	if !b.Deliveries[0].Redelivered {
		t.Error("not flagged though its reply may have left")
	}
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	wantCursors(t, claim(t, q))
}

func TestACrossedCancellationPutsAnAcknowledgedBatchBack(t *testing.T) {
	q, l := leased(t, t.TempDir())
	put(t, q, l, 1, 2)
	b := claim(t, q)
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	if err := q.Recall(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	b = claim(t, q)
	wantCursors(t, b, 1, 2)
	if !b.Deliveries[0].Redelivered {
		t.Error("not flagged")
	}
}

func TestASyncHandsOverItsRangeAndNothingBelow(t *testing.T) {
	q, l := leased(t, t.TempDir())
	put(t, q, l, 1, 2, 3, 4)
	s, err := q.BeginSync(t.Context(), me, seat)
	if err != nil {
		t.Fatal(err)
	}
	wantCursors(t, claim(t, q)) // a sync is in flight
	if err := s.Done(t.Context(), 2, 6); err != nil {
		t.Fatal(err)
	}
	put(t, q, l, 5, 6, 7) // 5 and 6 were handed over before the watch read them
	b := claim(t, q)
	wantCursors(t, b, 1, 2, 7)
	if len(b.Next) != 1 || b.Next[0].SinceCursor != 7 {
		t.Errorf("next %+v, want since_cursor 7", b.Next)
	}
}

func TestAWaiterIsWokenByAPutOfAnotherQueueOnTheFile(t *testing.T) {
	dir := t.TempDir()
	q, l := leased(t, dir)
	other := open(t, dir)
	got := make(chan queue.Batch, 1)
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		b, err := other.Await(ctx, me, queue.Filter{}, all)
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	time.Sleep(50 * time.Millisecond)
	put(t, q, l, 1)
	wantCursors(t, <-got, 1)
}

func TestAWaitThatRunsOutIsNoError(t *testing.T) {
	q, _ := leased(t, t.TempDir())
	for _, d := range []time.Duration{0, 30 * time.Millisecond} {
		ctx, cancel := context.WithTimeout(t.Context(), d)
		b, err := q.Await(ctx, me, queue.Filter{}, all)
		cancel()
		if err != nil || b.Token != "" || len(b.Next) != 1 {
			t.Errorf("after %v: batch %+v, error %v; want an empty batch with a next cursor", d, b, err)
		}
	}
}

// A recall that comes too late does nothing, and the rows are gone; one that
// comes before the acknowledgement is a release.
func TestARecallHasItsTime(t *testing.T) {
	q, err := queue.OpenWith(t.Context(), filepath.Join(t.TempDir(), "queue.db"), slog.New(slog.DiscardHandler),
		queue.Settings{Keep: time.Nanosecond})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	fill(t, q)
	b := claim(t, q)
	if err := q.Recall(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	b = claim(t, q)
	wantCursors(t, b, 3, 4, 5)
	if !b.Deliveries[0].Redelivered {
		t.Error("not flagged")
	}
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	if err := q.Expire(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, token := range []string{b.Token, "", "x", "1.2", b.Token + "0"} {
		if err := q.Recall(t.Context(), token); err != nil {
			t.Errorf("recall %q: %v", token, err)
		}
	}
	wantCursors(t, claim(t, q))
	if err := q.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// What one process changes, the others are told.
func TestAChangeInAnotherProcessIsSignalled(t *testing.T) {
	dir := t.TempDir()
	q, other := open(t, dir), open(t, dir)
	for _, c := range []struct {
		what   string
		change func() error
	}{
		{"touch", func() error { _, err := q.Touch(t.Context(), me, seat, 0); return err }},
		{"end", func() error { return q.End(t.Context(), me, seat, "left") }},
		{"resume", func() error { return q.Resume(t.Context(), me, seat) }},
		{"lease", func() error { _, err := q.Lease(t.Context(), me, seat.Room); return err }},
	} {
		changed := other.Changed()
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		select {
		case <-changed:
		case <-time.After(20 * time.Second):
			t.Errorf("%s was not signalled", c.what)
		}
	}
}

// An end has its first reason, hands out what it has, and can be lifted.
func TestAnEndedMembershipStillHandsOut(t *testing.T) {
	q := open(t, t.TempDir())
	fill(t, q)
	for _, reason := range []string{"closed", "left"} {
		if err := q.End(t.Context(), me, seat, reason); err != nil {
			t.Fatal(err)
		}
	}
	if added, err := q.Touch(t.Context(), me, seat, 0); err != nil || added {
		t.Errorf("touch: added %v, %v; want it to stay ended", added, err)
	}
	ended := func() string {
		t.Helper()
		list, err := q.Memberships(t.Context(), me)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if m.Member == seat {
				return m.Ended
			}
		}
		return "unknown"
	}
	if got := ended(); got != "closed" {
		t.Errorf("ended %q, want the first reason", got)
	}
	b := claim(t, q)
	wantCursors(t, b, 3, 4, 5)
	if len(b.Next) != 2 {
		t.Errorf("next %+v; want the living member and the one of the batch", b.Next)
	}
	if err := q.Resume(t.Context(), me, seat); err != nil {
		t.Fatal(err)
	}
	if got := ended(); got != "" {
		t.Errorf("ended %q after resume", got)
	}
}
