//go:build unix

package room_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// soakVar is how long the soak lasts, 6 s unless it says otherwise. From a
// minute on there are 50 rooms, four bridges, and a fifth now and then.
const soakVar = "BELLMAN_SOAK"

// ledger is what was said and what was handed out.
type ledger struct {
	mu    sync.Mutex
	said  map[string]map[int64]bool // by room
	given map[string]map[int64]int  // how often
	late  int                       // events that may be repeats and said so
}

func (l *ledger) say(room string, cursor int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.said[room] == nil {
		l.said[room] = map[int64]bool{}
	}
	l.said[room][cursor] = true
}

func (l *ledger) give(list []queue.Delivery) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, d := range list {
		if l.given[d.Member.Room] == nil {
			l.given[d.Member.Room] = map[int64]int{}
		}
		l.given[d.Member.Room][d.Event.Cursor]++
		if d.Redelivered {
			l.late++
		}
	}
}

// missing counts what was said and not handed out.
func (l *ledger) missing() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	n := 0
	for room, cursors := range l.said {
		for c := range cursors {
			if l.given[room][c] == 0 {
				n++
			}
		}
	}
	return n
}

func (l *ledger) audit(t *testing.T) {
	t.Helper()
	l.mu.Lock()
	defer l.mu.Unlock()
	total := 0
	for room, cursors := range l.said {
		total += len(cursors)
		for c := range cursors {
			if l.given[room][c] != 1 {
				t.Errorf("event %d of %s was handed out %d times", c, room, l.given[room][c])
			}
		}
	}
	for room, cursors := range l.given {
		for c, n := range cursors {
			if n != 1 {
				t.Errorf("event %d of %s was handed out %d times", c, room, n)
			}
		}
	}
	t.Logf("%d events in %d rooms, each handed out once; %d flagged", total, len(l.said), l.late)
	if total == 0 || l.late != 0 {
		t.Errorf("%d events, %d flagged as repeats", total, l.late)
	}
}

// Rooms and bridges of one profile live through restarts of the hub, kills of
// bridges and everything the network does, and in the end every event has been
// handed out exactly once.
func TestSoakEveryEventExactlyOnce(t *testing.T) {
	t.Parallel()
	length, rooms, others := 6*time.Second, 12, 1
	if v := os.Getenv(soakVar); v != "" {
		var err error
		if length, err = time.ParseDuration(v); err != nil {
			t.Fatal(err)
		}
		if length >= time.Minute {
			rooms, others = 50, 3
		}
	}
	s := startService(t)
	dir := t.TempDir()
	l := &ledger{said: map[string]map[int64]bool{}, given: map[string]map[int64]int{}}
	keeper := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse))
	var peers []*hubtest.Seat
	for range rooms {
		ours, peer := s.pair(t)
		keeper.join(t, ours)
		peers = append(peers, peer)
	}
	keeper.start(t)

	ctx, cancel := context.WithTimeout(t.Context(), length)
	defer cancel()
	var speaking, taking sync.WaitGroup
	for i, peer := range peers {
		speaking.Go(func() { speak(ctx, t, peer, i, l) })
	}
	takeUntil, enough := context.WithCancel(t.Context())
	defer enough()
	taking.Go(func() { drainInto(takeUntil, t, keeper, l) })
	havoc(t, length, s, dir, others, l)
	speaking.Wait()
	s.set(fault{})
	s.cut()
	keeper.watcher.Kick()
	keeper.eventually(t, "everything is handed out", func() bool {
		keeper.watcher.Kick()
		return l.missing() == 0
	})
	time.Sleep(500 * time.Millisecond) // for repeats
	enough()
	taking.Wait()
	l.audit(t)
}

// speak says something now and then, each thing once, whatever becomes of the
// replies.
func speak(ctx context.Context, t *testing.T, peer *hubtest.Seat, seed int, l *ledger) {
	t.Helper()
	whole := context.WithoutCancel(ctx)
	for n := 0; ctx.Err() == nil; n++ {
		args := peer.Ref().With(hubtest.Args{
			"type": "message", "payload": hubtest.Args{"text": fmt.Sprint(n)}, "idempotency_key": fmt.Sprintf("soak-%d-%d", seed, n),
		})
		for {
			r, err := peer.Call(whole, bellman.ToolSend, args)
			if err == nil && !r.IsError {
				l.say(peer.Room, cursorOf(t, r))
				break
			}
			time.Sleep(20 * time.Millisecond) // the hub is being restarted
		}
		time.Sleep(time.Duration(rand.IntN(60)) * time.Millisecond)
	}
}

// drainInto takes whatever comes, as bellman_wait does.
func drainInto(ctx context.Context, t *testing.T, b *bridge, l *ledger) {
	t.Helper()
	for ctx.Err() == nil {
		batch, err := b.queue.Await(ctx, b.id, queue.Filter{}, queue.Limit{Events: 50})
		if err != nil || batch.Token == "" {
			continue
		}
		b.queue.Sent(batch.Token)
		if err := b.queue.Ack(context.WithoutCancel(ctx), batch.Token); err != nil {
			t.Errorf("acknowledge: %v", err)
		}
		l.give(batch.Deliveries)
	}
}

// havoc does one thing after another to the service, the network and the other
// bridges of the profile.
func havoc(t *testing.T, length time.Duration, s *service, dir string, others int, l *ledger) {
	t.Helper()
	children := make([]*child, others)
	for i := range children {
		children[i] = s.spawn(t, dir)
	}
	for end := time.Now().Add(length); time.Now().Before(end); {
		switch rand.IntN(7) {
		case 0:
			s.stop(t)
			s.restart(t)
		case 1:
			s.cut()
		case 2:
			s.set(fault{stall: true})
		case 3:
			s.set(fault{dropped: true})
		case 4:
			s.set(fault{limit: 2000})
		case 5:
			i := rand.IntN(others)
			_ = children[i].Kill()
			children[i] = s.spawn(t, dir)
		case 6:
			visit(t, s, dir, l)
		}
		time.Sleep(time.Duration(100+rand.IntN(500)) * time.Millisecond)
		s.set(fault{})
	}
	for _, c := range children {
		_ = c.Kill()
	}
}

// visit is a bridge that comes, takes part for a moment and leaves in order.
func visit(t *testing.T, s *service, dir string, l *ledger) {
	t.Helper()
	b := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse)).start(t)
	ctx, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond)
	defer cancel()
	drainInto(ctx, t, b, l)
	b.stop()
}
