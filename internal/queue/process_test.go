//go:build unix

package queue_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// A bridge killed at any instruction between receive and reply loses nothing,
// repeats only with the flag, and flags at most the one batch it was in.
func TestABridgeKilledAtAnyMomentLosesNothing(t *testing.T) {
	t.Parallel()
	kills := 40
	if soak {
		kills = 500
	}
	dir := t.TempDir()
	for range kills {
		c := spawn(t, dir, "bridge")
		if !c.lines.Scan() { // it may have found everything done
			t.Fatal("the bridge did not start")
		}
		time.Sleep(time.Duration(rand.IntN(25_000)) * time.Microsecond)
		if err := c.cmd.Process.Signal(syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		_ = c.cmd.Wait() // "signal: killed" is what was asked for
	}
	last := spawn(t, dir, "bridge") // nobody kills this one
	last.line(t)
	if err := last.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	auditReplies(t, filepath.Join(dir, "replies"), kills)
	q := openAsChild(t, dir)
	if err := q.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	list, err := q.Memberships(t.Context(), me)
	if err != nil || len(list) != 1 || list[0].Fetched != logEnd {
		t.Errorf("memberships %+v, %v; want the watch at %d", list, err, logEnd)
	}
}

func auditReplies(t *testing.T, path string, kills int) {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	seen := make(map[int64]int)
	flagged := make(map[string]bool)
	last := int64(0)
	for line := range strings.Lines(string(text)) {
		if strings.HasSuffix(line, torn) {
			continue
		}
		var cursor int64
		var again bool
		var token string
		if _, err := fmt.Sscan(line, &cursor, &again, &token); err != nil {
			t.Fatalf("reply %q: %v", line, err)
		}
		if seen[cursor] > 0 && !again {
			t.Errorf("event %d came again without the flag", cursor)
		}
		if !again && cursor != last+1 {
			t.Errorf("event %d after %d", cursor, last)
		}
		if again {
			flagged[token] = true
		}
		seen[cursor]++
		last = max(last, cursor)
	}
	for cursor := int64(1); cursor <= logEnd; cursor++ {
		if seen[cursor] == 0 {
			t.Errorf("event %d was lost", cursor)
		}
	}
	if len(flagged) > kills {
		t.Errorf("%d flagged batches after %d kills", len(flagged), kills)
	}
	t.Logf("%d kills, %d flagged batches, %d events", kills, len(flagged), len(seen))
}

// With nobody killed, nothing is flagged and nothing comes twice.
func TestWithoutAKillNothingIsFlagged(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	c := spawn(t, dir, "bridge")
	c.line(t)
	if err := c.cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	auditReplies(t, filepath.Join(dir, "replies"), 0)
}

// A bridge that is stopped past its lease and then woken has lost its claim,
// its lease and its owner row: what it still does has no effect, and it goes on
// under a new identity.
func TestAStoppedBridgeHasNoEffectWhenItWakes(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	q := openAsChild(t, dir)
	if _, err := q.Touch(t.Context(), me, seat, 0); err != nil {
		t.Fatal(err)
	}
	l, err := q.Lease(t.Context(), me, seat.Room)
	if err != nil {
		t.Fatal(err)
	}
	put(t, q, l, 1, 2, 3)
	if err := q.Unlease(t.Context(), l); err != nil {
		t.Fatal(err)
	}
	c := spawn(t, dir, "stopped")
	if got := c.line(t); got != "claimed 3" {
		t.Fatalf("child %q", got)
	}
	if err := c.cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	b, err := q.Await(ctx, me, queue.Filter{}, all)
	if err != nil {
		t.Fatal(err)
	}
	wantCursors(t, b, 1, 2, 3)
	if !b.Deliveries[0].Redelivered {
		t.Error("not flagged though the stopped bridge may have replied")
	}
	if _, err := q.Lease(t.Context(), me, seat.Room); err != nil {
		t.Errorf("the stopped bridge's lease did not lapse: %v", err)
	}
	if err := c.cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	c.tell(t)
	if got := c.line(t); got != "true <nil> <nil> <nil>" {
		t.Errorf("woken: put is stale, ack, release, recall = %q", got)
	}
	if got := c.line(t); got != "0 <nil>" {
		t.Errorf("woken: it claimed %q, want nothing: its batch is claimed here", got)
	}
	if err := q.Ack(t.Context(), b.Token); err != nil {
		t.Fatal(err)
	}
	if err := c.cmd.Wait(); err != nil {
		t.Error(err)
	}
	wantCursors(t, claim(t, q))
	if list, err := q.Memberships(t.Context(), me); err != nil || list[0].Fetched != 3 {
		t.Errorf("memberships %+v, %v; want fetched 3", list, err)
	}
}

// Eight processes that drain one file get everything, and nothing twice.
func TestEightProcessesShareTheEvents(t *testing.T) {
	t.Parallel()
	const rooms, each, processes = 4, 5000, 8
	dir := t.TempDir()
	q := openAsChild(t, dir)
	for r := range rooms {
		m := queue.Member{Room: fmt.Sprint("room", r), ID: fmt.Sprint("member", r)}
		if _, err := q.Touch(t.Context(), me, m, 0); err != nil {
			t.Fatal(err)
		}
		l, err := q.Lease(t.Context(), me, m.Room)
		if err != nil {
			t.Fatal(err)
		}
		events := make([]queue.Event, each)
		for i := range events {
			events[i] = event(int64(i + 1))
		}
		if _, err := q.Put(t.Context(), l, m.ID, events, each); err != nil {
			t.Fatal(err)
		}
	}
	got := make(map[string]int)
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range processes {
		c := spawn(t, dir, "drain")
		wg.Go(func() {
			for c.lines.Scan() {
				mu.Lock()
				got[c.lines.Text()]++
				mu.Unlock()
			}
			if err := c.cmd.Wait(); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for r := range rooms {
		for n := 1; n <= each; n++ {
			if key := fmt.Sprint("member", r, " ", n, " false"); got[key] != 1 {
				t.Fatalf("event %q came %d times", key, got[key])
			}
		}
	}
	if len(got) != rooms*each {
		t.Errorf("%d deliveries, want %d", len(got), rooms*each)
	}
	if err := q.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}
