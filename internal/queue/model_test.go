package queue_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"bellman.sh/desktop/internal/queue"
)

// world is the queue as simply as it can be said, beside the real one: two
// processes on one file, two identities, three members.
type world struct {
	path   string
	queues [2]*queue.Queue
	leases [2]map[seatKey]queue.Lease
	seats  []*modelSeat
	claims []*modelClaim
	acked  []*modelClaim
}

type seatKey struct {
	id   queue.Identity
	room string
}

// modelSeat is one membership.
type modelSeat struct {
	id      queue.Identity
	m       queue.Member
	fetched int64
	lastKey int64
	ended   bool
	events  []*modelEvent // undelivered, by cursor
	handed  map[int64]bool
	claim   *modelClaim
	syncs   []*modelSync
}

type modelEvent struct {
	cursor, key int64
	ambient     bool
	flagged     bool
	claim       *modelClaim
}

type modelClaim struct {
	by    int // which process
	token string
	sent  bool
	taken map[*modelSeat][]*modelEvent
}

type modelSync struct {
	by   int
	seat *modelSeat
	s    *queue.Sync
}

var rapidSettings = queue.Settings{Beat: time.Hour, Lease: time.Hour, RoomEvents: 40, TotalEvents: 60}

func newWorld(t *rapid.T, dir string) *world {
	w := &world{path: filepath.Join(dir, "queue.db")}
	other := queue.Identity{Server: me.Server, User: "u_other"}
	for i, id := range []queue.Identity{me, me, other} {
		w.seats = append(w.seats, &modelSeat{id: id, m: queue.Member{Room: fmt.Sprint("r", i%2), ID: fmt.Sprint("m", i)}, handed: map[int64]bool{}})
	}
	for i := range w.queues {
		w.open(t, i)
	}
	for _, s := range w.seats {
		w.must(t, func() error { _, err := w.queues[0].Touch(t.Context(), s.id, s.m, 0); return err }())
		key := seatKey{s.id, s.m.Room}
		by := len(w.leases[0]) % 2
		l, err := w.queues[by].Lease(t.Context(), s.id, s.m.Room)
		w.must(t, err)
		w.leases[by][key] = l
	}
	return w
}

func (w *world) open(t *rapid.T, i int) {
	q, err := queue.OpenWith(t.Context(), w.path, slog.New(slog.DiscardHandler), rapidSettings)
	w.must(t, err)
	w.queues[i] = q
	w.leases[i] = map[seatKey]queue.Lease{}
}

func (w *world) must(t *rapid.T, err error) {
	if err != nil {
		t.Fatal(err)
	}
}

// put draws a batch around the cursor, repeats included, and a process that
// may not have the lease.
func (w *world) put(t *rapid.T) {
	s := rapid.SampledFrom(w.seats).Draw(t, "seat")
	by := rapid.IntRange(0, 1).Draw(t, "process")
	l, leased := w.leases[by][seatKey{s.id, s.m.Room}]
	if !leased {
		var err error
		if l, err = w.queues[by].Lease(t.Context(), s.id, s.m.Room); errors.Is(err, queue.ErrHeld) {
			return
		}
		w.must(t, err)
		w.leases[by][seatKey{s.id, s.m.Room}] = l
	}
	var events []queue.Event
	low := max(0, s.fetched-3)
	for c := low + 1; c <= low+int64(rapid.IntRange(0, 9).Draw(t, "count")); c++ {
		if rapid.IntRange(0, 4).Draw(t, "own") == 0 {
			continue // the member's own events are left out
		}
		at := time.UnixMicro(int64(rapid.IntRange(0, 8).Draw(t, "at")))
		events = append(events, queue.Event{Cursor: c, Type: "message", At: at, Ambient: c%3 == 0, Body: json.RawMessage(fmt.Sprintf(`{"c":%d}`, c))})
	}
	cursor := low + int64(rapid.IntRange(0, 10).Draw(t, "cursor"))
	var fresh []queue.Event
	for _, e := range events {
		if e.Cursor > s.fetched && !s.handed[e.Cursor] {
			fresh = append(fresh, e)
		}
	}
	n, err := w.queues[by].Put(t.Context(), l, s.m.ID, events, cursor)
	if full := !w.fits(s, len(fresh)); full != errors.Is(err, queue.ErrFull) {
		t.Fatalf("put of %d: error %v, want full %v", len(fresh), err, full)
	} else if full {
		return
	}
	w.must(t, err)
	if n != len(fresh) {
		t.Fatalf("put added %d, want %d", n, len(fresh))
	}
	for _, e := range fresh {
		s.lastKey = max(s.lastKey, e.At.UnixMicro())
		s.events = append(s.events, &modelEvent{cursor: e.Cursor, key: s.lastKey, ambient: e.Ambient})
		s.fetched = max(s.fetched, e.Cursor)
	}
	s.fetched = max(s.fetched, cursor)
}

// fits is the bound of rapidSettings; each model room has one member.
func (w *world) fits(s *modelSeat, n int) bool {
	total := 0
	for _, o := range w.seats {
		total += len(o.events)
	}
	return n == 0 || (len(s.events) == 0 || len(s.events)+n <= 40) && (total == 0 || total+n <= 60)
}

func (s *modelSeat) held() bool { return s.claim != nil || len(s.syncs) > 0 }

func (s *modelSeat) matches(id queue.Identity, f queue.Filter) bool {
	return s.id == id && (f.Room == "" || f.Room == s.m.Room) && (f.Member == "" || f.Member == s.m.ID)
}

// next is the since_cursor of the seat once skip of its events are gone.
func (s *modelSeat) next(skip int) int64 {
	if len(s.events) > skip {
		return s.events[skip].cursor - 1
	}
	c := s.fetched
	for s.handed[c+1] {
		c++
	}
	return c
}

func (w *world) claim(t *rapid.T) {
	by := rapid.IntRange(0, 1).Draw(t, "process")
	id := rapid.SampledFrom([]queue.Identity{me, w.seats[2].id}).Draw(t, "identity")
	f := rapid.SampledFrom([]queue.Filter{{}, {}, {Room: "r0"}, {Member: "m1"}, {Room: "r1", Member: "m0"}}).Draw(t, "filter")
	lim := queue.Limit{Events: rapid.IntRange(0, 8).Draw(t, "limit")}
	got, err := w.queues[by].Claim(t.Context(), id, f, lim)
	w.must(t, err)
	want, c := w.expect(id, f, lim)
	c.by, c.token = by, got.Token
	if (got.Token == "") != (len(want.Deliveries) == 0) {
		t.Fatalf("token %q for %d events", got.Token, len(want.Deliveries))
	}
	want.Token = got.Token
	byMember := cmpopts.SortSlices(func(a, b queue.Next) bool { return a.Member.ID < b.Member.ID })
	if d := cmp.Diff(want, got, byMember, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(queue.Event{}, "At", "Body", "Type")); d != "" {
		t.Fatalf("claim of %v %+v (-want +got):\n%s", id.User, f, d)
	}
	if got.Token != "" {
		w.claims = append(w.claims, c)
	}
}

// expect says what a claim must give, and marks it as given.
func (w *world) expect(id queue.Identity, f queue.Filter, lim queue.Limit) (queue.Batch, *modelClaim) {
	var b queue.Batch
	c := &modelClaim{taken: map[*modelSeat][]*modelEvent{}}
	for lim.Events == 0 || len(b.Deliveries) < lim.Events {
		var from *modelSeat
		var first *modelEvent
		for _, s := range w.seats { // in the order of their rows, which breaks ties
			if n := len(c.taken[s]); s.matches(id, f) && !s.held() && n < len(s.events) && (first == nil || s.events[n].key < first.key) {
				from, first = s, s.events[n]
			}
		}
		if from == nil {
			break
		}
		c.taken[from] = append(c.taken[from], first)
		b.Deliveries = append(b.Deliveries, queue.Delivery{Member: from.m, Redelivered: first.flagged, Event: queue.Event{Cursor: first.cursor, Ambient: first.ambient}})
	}
	for _, s := range w.seats {
		for _, e := range c.taken[s] {
			e.claim, s.claim = c, c
		}
	}
	for _, s := range w.seats {
		if !s.matches(id, f) {
			continue
		}
		b.Remaining += len(slices.DeleteFunc(slices.Clone(s.events), func(e *modelEvent) bool { return e.claim != nil }))
		if len(c.taken[s]) > 0 || !s.ended {
			b.Next = append(b.Next, queue.Next{Member: s.m, SinceCursor: s.next(len(c.taken[s]))})
		}
	}
	return b, c
}

// check compares what can be read at any time.
func (w *world) check(t *rapid.T) {
	q := w.queues[0]
	for _, s := range w.seats {
		next, err := q.Next(t.Context(), s.id, s.m)
		w.must(t, err)
		if want := s.next(0); next != want {
			t.Fatalf("next of %v: %d, want %d", s.m, next, want)
		}
		var want queue.Pending
		for _, e := range s.events {
			if e.claim == nil {
				want.Events++
				if !e.ambient {
					want.Interrupting, want.Rooms = want.Interrupting+1, 1
				}
			}
		}
		got, err := q.Pending(t.Context(), s.id, queue.Filter{Room: s.m.Room, Member: s.m.ID})
		w.must(t, err)
		if got != want {
			t.Fatalf("pending of %v: %+v, want %+v", s.m, got, want)
		}
		list, err := q.Memberships(t.Context(), s.id)
		w.must(t, err)
		i := slices.IndexFunc(list, func(m queue.Membership) bool { return m.Member == s.m })
		if i < 0 || list[i].Fetched != s.fetched || (list[i].Ended != "") != s.ended {
			t.Fatalf("memberships %+v, want %v fetched %d ended %v", list, s.m, s.fetched, s.ended)
		}
	}
	w.must(t, q.Audit(t.Context()))
}

// Whatever two processes do, in any order, crashes included, the queue hands
// out exactly what the model says, in its order and with its flags.
func TestTheQueueIsWhatTheModelSays(t *testing.T) {
	t.Parallel()
	root, n := t.TempDir(), 0
	rapid.Check(t, func(t *rapid.T) {
		n++
		dir := filepath.Join(root, fmt.Sprint(n))
		defer func() { _ = os.RemoveAll(dir) }()
		w := newWorld(t, dir)
		defer func() {
			for _, q := range w.queues {
				w.must(t, q.Close())
			}
		}()
		t.Repeat(map[string]func(*rapid.T){
			"put": w.put, "put again": w.put, "put more": w.put, "claim": w.claim, "claim again": w.claim, "sent": w.sent,
			"ack": w.ack, "ack again": w.ack, "release": w.release, "recall": w.recall, "begin sync": w.beginSync,
			"end sync": w.endSync, "end sync again": w.endSync, "crash": w.crash, "restart": w.restart, "end": w.end, "": w.check,
		})
	})
}
