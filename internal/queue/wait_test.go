package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// waiterIn starts a wait and returns where its batch will be.
func waiterIn(t *testing.T, q *queue.Queue, f queue.Filter) <-chan queue.Batch {
	t.Helper()
	got := make(chan queue.Batch, 1)
	started := make(chan struct{})
	go func() {
		ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
		defer cancel()
		close(started)
		b, err := q.Await(ctx, me, f, queue.Limit{})
		if err != nil {
			t.Error(err)
		}
		got <- b
	}()
	<-started
	time.Sleep(30 * time.Millisecond) // it waits by now; later, the order would be another and still right
	return got
}

// An event wakes the waiter for its room before the one for all, though that
// one came first.
func TestAWaiterWithAFilterIsServedFirst(t *testing.T) {
	q, l := leased(t, t.TempDir())
	forAll := waiterIn(t, q, queue.Filter{})
	forRoom := waiterIn(t, q, queue.Filter{Room: seat.Room})
	put(t, q, l, 1)
	b := <-forRoom
	wantCursors(t, b, 1)
	select {
	case b := <-forAll:
		t.Fatalf("the waiter for all got %v", cursors(b))
	default:
	}
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	put(t, q, l, 2)
	wantCursors(t, <-forAll, 2)
}

// A look without a wait takes nothing away from those who waited before it,
// and a look with a filter nothing from those with one.
func TestALookTakesNothingFromThoseWhoWait(t *testing.T) {
	for _, row := range []struct {
		name     string
		waits    queue.Filter
		looks    queue.Filter
		overtook bool
	}{
		{"for all before a wait for the room", queue.Filter{Room: seat.Room}, queue.Filter{}, false},
		{"for all before a wait for all", queue.Filter{}, queue.Filter{}, false},
		{"for the member before a wait for the room", queue.Filter{Room: seat.Room}, queue.Filter{Member: seat.ID}, false},
		{"for the room before a wait for all", queue.Filter{}, queue.Filter{Room: seat.Room}, true},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			q, l := leased(t, t.TempDir())
			waiting := waiterIn(t, q, row.waits)
			q.Still() // whoever looks comes before the news do
			put(t, q, l, 1)
			b, err := q.Claim(t.Context(), me, row.looks, all)
			if err != nil || (b.Token != "") != row.overtook {
				t.Fatalf("the look got %v (%v)", cursors(b), err)
			}
			if row.overtook {
				wantCursors(t, b, 1)
				if err := q.Release(t.Context(), b.Token, false); err != nil {
					t.Fatal(err)
				}
				if b, err = q.Claim(t.Context(), me, queue.Filter{}, all); err != nil || b.Token != "" {
					t.Fatalf("the look for all got %v (%v)", cursors(b), err)
				}
			}
			wantCursors(t, <-waiting, 1)
		})
	}
}

// A waiter for another room is left alone, and so is one of another identity.
func TestAWaiterGetsNothingOfOthers(t *testing.T) {
	q, l := leased(t, t.TempDir())
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	put(t, q, l, 1)
	b, err := q.Await(ctx, me, queue.Filter{Room: "elsewhere"}, all)
	if err != nil || b.Token != "" || b.Remaining != 0 || len(b.Next) != 0 {
		t.Errorf("other room: %+v, %v", b, err)
	}
	b, err = q.Await(ctx, queue.Identity{Server: me.Server, User: "u_other"}, queue.Filter{}, all)
	if err != nil || b.Token != "" || b.Remaining != 0 || len(b.Next) != 0 {
		t.Errorf("other identity: %+v, %v", b, err)
	}
}

// Many waiters share what comes: each event goes to one of them.
func TestEachEventGoesToOneWaiter(t *testing.T) {
	const events = 400
	q, l := leased(t, t.TempDir())
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var mu sync.Mutex
	seen := make(map[int64]int)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			for {
				b, err := q.Await(ctx, me, queue.Filter{}, queue.Limit{Events: 7})
				if err != nil {
					if !errors.Is(err, context.Canceled) {
						t.Error(err)
					}
					return
				}
				mu.Lock()
				for _, d := range b.Deliveries {
					seen[d.Event.Cursor]++
				}
				done := len(seen) == events
				mu.Unlock()
				if err := q.Ack(context.WithoutCancel(ctx), b.Token); err != nil {
					t.Error(err)
				}
				if done {
					cancel()
				}
			}
		})
	}
	for c := int64(1); c <= events; c += 4 {
		put(t, q, l, c, c+1, c+2, c+3)
	}
	wg.Wait()
	for c := int64(1); c <= events; c++ {
		if seen[c] != 1 {
			t.Errorf("event %d went to %d waiters", c, seen[c])
		}
	}
}

// Waiters that give up at every moment lose nothing and flag nothing.
func TestACancelledWaitLosesNothing(t *testing.T) {
	const events = 200
	q, l := leased(t, t.TempDir())
	var fed sync.WaitGroup
	fed.Go(func() {
		for c := int64(1); c <= events; c++ {
			if _, err := q.Put(t.Context(), l, seat.ID, []queue.Event{event(c)}, c); err != nil {
				t.Error(err)
			}
		}
	})
	last := int64(0)
	for round := 0; last < events; round++ {
		ctx, cancel := context.WithCancel(t.Context())
		stop := time.AfterFunc(time.Duration(round%40)*50*time.Microsecond, cancel)
		b, err := q.Await(ctx, me, queue.Filter{}, queue.Limit{Events: 3})
		stop.Stop()
		cancel()
		if errors.Is(err, context.Canceled) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range b.Deliveries {
			if d.Event.Cursor != last+1 || d.Redelivered {
				t.Fatalf("event %d after %d, redelivered %v", d.Event.Cursor, last, d.Redelivered)
			}
			last++
		}
		if err := q.Ack(t.Context(), b.Token); err != nil {
			t.Fatal(err)
		}
	}
	fed.Wait()
}

// Close ends every wait with a reason, and calls after it say the same.
func TestCloseEndsWaits(t *testing.T) {
	q, err := queue.Open(t.Context(), filepath.Join(t.TempDir(), "queue.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 8)
	for range cap(ended) {
		go func() {
			_, err := q.Await(t.Context(), me, queue.Filter{}, all)
			ended <- err
		}()
	}
	time.Sleep(50 * time.Millisecond)
	if err := errors.Join(q.Close(), q.Close()); err != nil {
		t.Fatal(err)
	}
	for range cap(ended) {
		if err := <-ended; !errors.Is(err, queue.ErrClosed) {
			t.Errorf("wait ended with %v", err)
		}
	}
	_, errTouch := q.Touch(t.Context(), me, seat, 0)
	_, errClaim := q.Claim(t.Context(), me, queue.Filter{}, all)
	for _, err := range []error{errTouch, errClaim, q.Ack(t.Context(), "1.1"), q.End(t.Context(), me, seat, "left")} {
		if err != nil && !errors.Is(err, queue.ErrClosed) {
			t.Errorf("after close: %v", err)
		}
	}
}

// A batch is bounded by count and by bytes, and never empty for that.
func TestABatchIsBounded(t *testing.T) {
	q, l := leased(t, t.TempDir())
	put(t, q, l, 1, 2, 3, 4, 5)
	size := len(event(1).Body)
	for _, c := range []struct {
		lim  queue.Limit
		want int
	}{
		{queue.Limit{Events: 2}, 2},
		{queue.Limit{Bytes: 3 * size}, 3},
		{queue.Limit{Bytes: 3*size - 1}, 2},
		{queue.Limit{Bytes: 1}, 1},
		{queue.Limit{Events: 4, Bytes: 100 * size}, 4},
		{queue.Limit{}, 5},
	} {
		b, err := q.Claim(t.Context(), me, queue.Filter{}, c.lim)
		if err != nil || len(b.Deliveries) != c.want || b.Remaining != 5-c.want {
			t.Errorf("%+v: %d events, %d remaining, %v; want %d", c.lim, len(b.Deliveries), b.Remaining, err, c.want)
		}
		if err := q.Release(t.Context(), b.Token, false); err != nil {
			t.Fatal(err)
		}
	}
}

// Events come as they went in, to the byte.
func TestAnEventIsKeptVerbatim(t *testing.T) {
	q, l := leased(t, t.TempDir())
	want := []queue.Event{
		{Cursor: 1, Type: "message", At: time.UnixMicro(1_700_000_000_123_456).UTC(), Body: []byte(`{"a": 1e400, "b":"\u003c` + "\u202e" + `"}`)},
		{Cursor: 2, Type: "", At: time.Time{}, Ambient: true, Body: nil},
		{Cursor: 3, Type: "progress\x00", At: time.UnixMicro(-1).UTC(), Body: []byte("not JSON at all \xff\x00")},
	}
	if _, err := q.Put(t.Context(), l, seat.ID, want, 3); err != nil {
		t.Fatal(err)
	}
	got := claim(t, q)
	for i, d := range got.Deliveries {
		w := want[i]
		if d.Event.Cursor != w.Cursor || d.Event.Type != w.Type || !d.Event.At.Equal(w.At) || d.Event.Ambient != w.Ambient || string(d.Event.Body) != string(w.Body) {
			t.Errorf("got %+v, want %+v", d.Event, w)
		}
	}
	if len(got.Deliveries) != len(want) {
		t.Errorf("%d events, want %d", len(got.Deliveries), len(want))
	}
}
