package queue_test

import (
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// A flood fills its own room, which pauses and goes on when drained. The
// others never notice.
func TestAFullRoomPausesAloneAndResumes(t *testing.T) {
	q, err := queue.OpenWith(t.Context(), filepath.Join(t.TempDir(), "queue.db"), slog.New(slog.DiscardHandler),
		queue.Settings{RoomEvents: 20, TotalEvents: 1000})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	calm := queue.Member{Room: "calm", ID: "m_calm"}
	leases := make(map[queue.Member]queue.Lease)
	for _, m := range []queue.Member{seat, calm} {
		if _, err := q.Touch(t.Context(), me, m, 0); err != nil {
			t.Fatal(err)
		}
		if leases[m], err = q.Lease(t.Context(), me, m.Room); err != nil {
			t.Fatal(err)
		}
	}
	full := func(m queue.Member) bool {
		t.Helper()
		list, err := q.Memberships(t.Context(), me)
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range list {
			if got.Member == m {
				return got.Full
			}
		}
		t.Fatalf("no membership %v", m)
		return false
	}
	put(t, q, leases[seat], 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18)
	three := []queue.Event{event(19), event(20), event(21)}
	if n, err := q.Put(t.Context(), leases[seat], seat.ID, three, 21); !errors.Is(err, queue.ErrFull) || n != 0 {
		t.Fatalf("put %d, %v; want ErrFull", n, err)
	}
	if !full(seat) || full(calm) {
		t.Errorf("paused: flooded %v, calm %v", full(seat), full(calm))
	}
	if _, err := q.Put(t.Context(), leases[calm], calm.ID, []queue.Event{event(1)}, 1); err != nil {
		t.Errorf("the calm room: %v", err)
	}
	changed := q.Changed()
	b, err := q.Claim(t.Context(), me, queue.Filter{Room: seat.Room}, queue.Limit{Events: 5})
	if err != nil {
		t.Fatal(err)
	}
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	default:
		t.Error("nobody was told that the room goes on")
	}
	if full(seat) {
		t.Error("still paused though a quarter is free")
	}
	if n, err := q.Put(t.Context(), leases[seat], seat.ID, three, 21); err != nil || n != 3 {
		t.Errorf("put %d, %v; want 3", n, err)
	}
}

// The bound of the file pauses whoever meets it.
func TestAFullFilePausesEveryRoomThatMeetsIt(t *testing.T) {
	q, err := queue.OpenWith(t.Context(), filepath.Join(t.TempDir(), "queue.db"), slog.New(slog.DiscardHandler),
		queue.Settings{TotalBytes: int64(len(event(1).Body)) * 4})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := q.Close(); err != nil {
			t.Error(err)
		}
	}()
	for i := range 3 {
		m := queue.Member{Room: fmt.Sprint("r", i), ID: fmt.Sprint("m", i)}
		if _, err := q.Touch(t.Context(), me, m, 0); err != nil {
			t.Fatal(err)
		}
		l, err := q.Lease(t.Context(), me, m.Room)
		if err != nil {
			t.Fatal(err)
		}
		_, err = q.Put(t.Context(), l, m.ID, []queue.Event{event(1), event(2)}, 2)
		if (i == 2) != errors.Is(err, queue.ErrFull) {
			t.Errorf("room %d: %v", i, err)
		}
	}
	b := claim(t, q)
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	list, err := q.Memberships(t.Context(), me)
	for _, m := range list {
		if m.Full {
			t.Errorf("%v is paused, %v", m.Member, err)
		}
	}
}

// What nobody took of a room that ended goes after 30 days, and not before.
func TestEndedRoomsKeepTheirEventsThirtyDays(t *testing.T) {
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
	if err := q.End(t.Context(), me, seat, "closed"); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		after time.Duration
		want  int
	}{{29 * 24 * time.Hour, 3}, {2 * 24 * time.Hour, 0}} {
		now = now.Add(step.after)
		if err := q.Prune(t.Context()); err != nil {
			t.Fatal(err)
		}
		if p, err := q.Pending(t.Context(), me, queue.Filter{}); err != nil || p.Events != step.want {
			t.Errorf("%v later: pending %+v, %v; want %d", step.after, p, err, step.want)
		}
		if err := q.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	}
	if list, err := q.Memberships(t.Context(), me); err != nil || len(list) != 1 || list[0].Watchable(now) {
		t.Errorf("memberships %+v, %v; want the one that is idle", list, err)
	}
}

// A membership no call has named for 72 hours is idle, and any call wakes it.
func TestAnIdleMembershipIsResumedByAnyCall(t *testing.T) {
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
	watchable := func() bool {
		t.Helper()
		list, err := q.Memberships(t.Context(), me)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range list {
			if m.Member == seat {
				return m.Watchable(now)
			}
		}
		return false
	}
	now = now.Add(71 * time.Hour)
	if !watchable() {
		t.Error("idle after 71 hours")
	}
	now = now.Add(2 * time.Hour)
	if watchable() {
		t.Error("watched after 73 hours")
	}
	changed := q.Changed()
	if added, err := q.Touch(t.Context(), me, seat, 99); err != nil || added {
		t.Errorf("touch added %v, %v", added, err)
	}
	<-changed
	if !watchable() {
		t.Error("still idle after a call")
	}
	if list, err := q.Memberships(t.Context(), me); err != nil || list[0].Fetched != 5 {
		t.Errorf("memberships %+v, %v; want the watch to go on from 5", list, err)
	}
}

// One lease a room and identity, whoever holds it, and it comes back when its
// process closes or dies.
func TestARoomHasOneWatcher(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	q, l := leased(t, dir)
	other, err := queue.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	for _, by := range []*queue.Queue{q, other} {
		if _, err := by.Lease(t.Context(), me, seat.Room); !errors.Is(err, queue.ErrHeld) {
			t.Errorf("second lease: %v, want ErrHeld", err)
		}
	}
	if _, err := other.Lease(t.Context(), queue.Identity{Server: me.Server, User: "u_other"}, seat.Room); err != nil {
		t.Errorf("another identity's lease of the same room: %v", err)
	}
	if err := q.Unlease(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	next, err := other.Lease(t.Context(), me, seat.Room)
	if err != nil || next.Epoch <= l.Epoch {
		t.Fatalf("lease %+v, %v; want an epoch above %d", next, err, l.Epoch)
	}
	if _, err := q.Put(t.Context(), l, seat.ID, []queue.Event{event(1)}, 1); !errors.Is(err, queue.ErrStale) {
		t.Errorf("put with the old lease: %v, want ErrStale", err)
	}
	if err := q.Unlease(t.Context(), l); err != nil { // stale: it takes nothing from its successor
		t.Fatal(err)
	}
	if _, err := other.Put(t.Context(), next, seat.ID, []queue.Event{event(1)}, 1); err != nil {
		t.Error(err)
	}
	if _, err := other.Put(t.Context(), next, "m_nobody", []queue.Event{event(1)}, 1); !errors.Is(err, queue.ErrUnknown) {
		t.Errorf("put for nobody: %v, want ErrUnknown", err)
	}
	changed := q.Changed()
	if err := other.Crash(); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed: // its lock was found free
	case <-time.After(20 * time.Second):
		t.Fatal("nobody noticed that the watcher died")
	}
	eventually(t, "lease", func() bool {
		_, err := q.Lease(t.Context(), me, seat.Room)
		return err == nil
	})
}

// A lease that this process has had before takes nothing from the one it has
// now: neither events go in under it nor is the room given up.
func TestAnEarlierLeaseOfTheSameProcessDoesNothing(t *testing.T) {
	q, before := leased(t, t.TempDir())
	if err := q.Unlease(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	now, err := q.Lease(t.Context(), me, seat.Room)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(t.Context(), before, seat.ID, []queue.Event{event(1)}, 1); !errors.Is(err, queue.ErrStale) {
		t.Errorf("put with the lease before: %v, want ErrStale", err)
	}
	if err := q.Unlease(t.Context(), before); err != nil {
		t.Fatal(err)
	}
	put(t, q, now, 1)
}

// Who is silent for the lease time is dead, and not before. One look adds one
// beat to a silence at most: an observer that slept has not been watching.
func TestAnObserverThatSleptTakesNobodyForDead(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := queue.NewObserver(10*time.Second, 2*time.Second)
		look := func(after time.Duration, beat int64, want ...int64) {
			t.Helper()
			time.Sleep(after)
			if got := o.Dead(map[int64]int64{7: beat}); !slices.Equal(got, want) {
				t.Errorf("dead %v, want %v", got, want)
			}
		}
		look(0, 1)
		look(time.Hour, 1) // 2 s of it count
		look(2*time.Second, 1)
		look(2*time.Second, 1)
		look(2*time.Second, 2) // it lives
		for range 39 {
			look(250*time.Millisecond, 2)
		}
		look(250*time.Millisecond, 2, 7)
		look(time.Second, 3)
	})
}
