package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

var (
	memberA = queue.Member{Room: "qs_a", ID: "m_a"}
	memberB = queue.Member{Room: "qs_b", ID: "m_b"}
)

// offline is a rig that reaches no service: bellman_wait needs none.
func offline(tb testing.TB, change ...func(*tools.Config)) *rig {
	tb.Helper()
	return newRig(tb, nowhere, "key", change...)
}

func TestAWaitTakesWhatIsHereOnce(t *testing.T) {
	r := offline(t)
	r.put(memberA, message(1, "one"), message(2, "two"))
	r.put(memberB, message(1, "b"))
	w := r.wait(0)
	wantTexts(t, w, "one", "b", "two")
	if w.Count != 3 || w.Remaining != 0 {
		t.Errorf("count %d, remaining %d", w.Count, w.Remaining)
	}
	for _, e := range w.Events {
		if e.Trust != "untrusted" || e.FromLabel != "peer@example.com" || e.Type != "message" || e.Redelivered {
			t.Errorf("event %+v", e)
		}
	}
	next := map[string]int64{}
	for _, n := range w.Next {
		next[n.SessionID+" "+n.MemberID] = n.SinceCursor
	}
	if next["qs_a m_a"] != 2 || next["qs_b m_b"] != 1 || len(next) != 2 {
		t.Errorf("next %v", next)
	}
	w = r.wait(0)
	if wantTexts(t, w); w.Count != 0 || w.Events == nil || len(w.Next) != 2 {
		t.Errorf("nothing left, and got %+v", w)
	}
}

// An agent in many rooms is not told of each of them every time.
func TestTheTextNamesFewSeats(t *testing.T) {
	r := offline(t)
	for i := range 30 {
		r.put(queue.Member{Room: fmt.Sprintf("qs_%d", i), ID: "m_x"}, message(1, "x"))
	}
	if got := r.call("bellman_wait", args{"wait_seconds": 0}).text(); strings.Count(got, "Next bellman_sync") != 30 {
		t.Errorf("of 30 seats that brought something: %s", got)
	}
	got := r.call("bellman_wait", args{"wait_seconds": 0})
	if strings.Count(got.text(), "Next bellman_sync") != 10 || !strings.Contains(got.text(), "20 seats more") || strings.Count(string(got.data), "since_cursor") != 30 {
		t.Errorf("of 30 seats that brought nothing: %s", got.raw)
	}
}

// The filters leave the rest queued; session_id wins over room_id.
func TestAWaitCanBeForOneRoomOrSeat(t *testing.T) {
	r := offline(t)
	r.put(memberA, message(1, "a"))
	r.put(memberB, message(1, "b"))
	wantTexts(t, r.wait(0, args{"session_id": "qs_none"}))
	if got := r.call("bellman_wait", args{"wait_seconds": 0, "session_id": "qs_none"}).text(); !strings.Contains(got, "watches no room that fits") {
		t.Errorf("of a room that is not watched: %s", got)
	}
	wantTexts(t, r.wait(0, args{"session_id": "qs_b", "room_id": "qs_a"}), "b")
	wantTexts(t, r.wait(0, args{"member_id": "m_b"}))
	wantTexts(t, r.wait(0, args{"room_id": "qs_a", "member_id": "m_a"}), "a")
}

// At most 50 events or 96 KiB a call, at least one, and remaining says what is
// left.
func TestABatchIsBounded(t *testing.T) {
	r := offline(t)
	var many []queue.Event
	for i := range int64(120) {
		many = append(many, message(i+1, "x"))
	}
	r.put(memberA, many...)
	for _, want := range []struct{ count, remaining int }{{50, 70}, {50, 20}, {20, 0}} {
		if w := r.wait(0); w.Count != want.count || w.Remaining != want.remaining {
			t.Errorf("count %d, remaining %d, want %v", w.Count, w.Remaining, want)
		}
	}
	large := func(cursor int64) queue.Event { // the dearest kind: each byte is seven in the text
		e := message(cursor, strings.Repeat("<", 40<<10))
		e.Body = []byte(strings.ReplaceAll(string(e.Body), `\u003c`, "<"))
		return e
	}
	r.put(memberB, large(1), large(2), large(3), message(4, strings.Repeat("y", 200<<10)))
	for _, want := range []int{2, 1, 1} {
		a := r.begin(t.Context(), "bellman_wait", args{"wait_seconds": 0})
		if len(a.Result) > 900<<10 {
			t.Errorf("a reply of %d bytes", len(a.Result))
		}
		var w waited
		if err := json.Unmarshal(r.write(a).data, &w); err != nil || w.Count != want {
			t.Errorf("count %d (%v), want %d", w.Count, err, want)
		}
	}
	r.put(memberB, message(5, strings.Repeat("z", 600<<10)))
	if got := r.call("bellman_wait", args{"wait_seconds": 0}); got.data != nil || !strings.Contains(got.text(), "zzz") || len(got.raw) > 900<<10 {
		t.Errorf("one event that fits once: structured %d bytes, text %d", len(got.data), len(got.text()))
	}
	r.put(memberB, message(6, strings.Repeat("z", 1<<20)))
	if w := r.wait(0); w.Count != 1 || w.Events[0].Cursor != 6 {
		t.Errorf("one event beyond all bounds: %+v", w)
	}
	if w := r.wait(0); w.Count != 0 {
		t.Errorf("it comes again: %+v", w)
	}
}

// Bad arguments are named, and nothing is taken.
func TestTheArgumentsOfAWait(t *testing.T) {
	r := offline(t)
	for given, words := range map[string]string{
		`{"wait_seconds":"soon"}`: "wait_seconds must be a number", `{"session_id":7}`: "session_id must be a string", `{"wait_seconds":-5}`: "wait_seconds must be between 0 and 25", `{"wait_seconds":1e300}`: "wait_seconds must be between 0 and 25", `[]`: "arguments must be an object", `"x"`: "arguments must be an object",
	} {
		r.refused("bellman_wait", json.RawMessage(given), words)
	}
	r.put(memberA, message(1, "x"))
	for _, seconds := range []any{0, 0.001, 25} {
		a := r.begin(t.Context(), "bellman_wait", args{"wait_seconds": seconds, "unknown": true})
		if got := readResult(t, a); got.isError || !strings.Contains(string(got.data), `"count":1`) {
			t.Errorf("%v: %s", seconds, got.raw)
		}
		r.lose(a, false)
	}
}

// How long a wait lasts: 20 s unless it says otherwise, 25 s at most.
func TestHowLongAWaitLasts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := offline(t)
		for _, c := range []struct {
			args any
			want time.Duration
		}{
			{nil, 20 * time.Second},
			{args{}, 20 * time.Second},
			{args{"wait_seconds": nil}, 20 * time.Second},
			{args{"wait_seconds": 2.5}, 2500 * time.Millisecond},
			{args{"wait_seconds": 25}, 25 * time.Second},
		} {
			began := time.Now()
			got := r.call("bellman_wait", c.args)
			if took := time.Since(began); took < c.want || took > c.want+100*time.Millisecond || got.isError {
				t.Errorf("%v: %s and %s, want %s", c.args, took, got.raw, c.want)
			}
		}
	})
}

func TestAnEventEndsAWait(t *testing.T) {
	r := offline(t)
	got := make(chan waited, 1)
	go func() { got <- r.wait(25) }()
	time.Sleep(20 * time.Millisecond)
	r.put(memberA, message(1, "now"))
	wantTexts(t, <-got, "now")
}

// What should not interrupt comes along in its place, and says what it is.
func TestAmbientEventsComeAlong(t *testing.T) {
	r := offline(t)
	progress := event(2, "progress", "peer@example.com", args{"note": "half"})
	progress.Ambient = true
	r.put(memberA, event(1, "heartbeat", "system", args{"members": []any{}}), progress)
	var w waited
	got := r.ok("bellman_wait", args{"wait_seconds": 0}, &w)
	if w.Count != 2 || w.Events[0].Type != "heartbeat" || w.Events[0].Ambient || w.Events[1].Type != "progress" || !w.Events[1].Ambient {
		t.Errorf("got %+v", w.Events)
	}
	if strings.Count(got.text(), "ambient=true") != 1 || strings.Count(string(got.data), `"ambient":`) != 1 {
		t.Errorf("got %s", got.raw)
	}
}

// Of several waits each event goes to one, and a wait for the room comes before
// one for all.
func TestEachEventGoesToOneWait(t *testing.T) {
	r := offline(t)
	var mu sync.Mutex
	var all []string
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for {
				w := r.wait(1)
				if w.Count == 0 {
					return
				}
				mu.Lock()
				all = append(all, w.texts()...)
				mu.Unlock()
			}
		})
	}
	want := []string{}
	for i := range int64(100) {
		r.put(memberA, message(i+1, string(rune('A'+i))))
		want = append(want, string(rune('A'+i)))
	}
	wg.Wait()
	slices.Sort(all)
	if slices.Sort(want); !slices.Equal(all, want) {
		t.Errorf("got %q", all)
	}
}

// Two chats wait, one of them for its own room only: it gets that room's events.
func TestTwoChatsOneUnfiltered(t *testing.T) {
	r := offline(t)
	r.put(memberA, message(1, "seen"))
	r.wait(0)
	any, own := make(chan waited, 1), make(chan waited, 1)
	go func() { any <- r.wait(25) }()
	time.Sleep(20 * time.Millisecond) // the one for all was there first
	go func() { own <- r.wait(25, args{"session_id": "qs_a"}) }()
	time.Sleep(50 * time.Millisecond)
	r.put(memberA, message(2, "for a"))
	wantTexts(t, <-own, "for a")
	r.put(memberB, message(1, "for any"))
	wantTexts(t, <-any, "for any")
}

func TestWhatBecomesOfABatchWithItsReply(t *testing.T) {
	r := offline(t)
	wait := func() (tools.Answer, waited) {
		t.Helper()
		a := r.begin(t.Context(), "bellman_wait", args{"wait_seconds": 0})
		var w waited
		if err := json.Unmarshal(readResult(t, a).data, &w); err != nil {
			t.Fatal(err)
		}
		return a, w
	}
	r.put(memberA, message(1, "x"))
	a, w := wait()
	wantTexts(t, w, "x")
	if _, other := wait(); other.Count != 0 {
		t.Fatal("handed out twice at once")
	}
	r.lose(a, false)
	a, w = wait()
	if wantTexts(t, w, "x"); w.Events[0].Redelivered {
		t.Error("flagged though nothing of it had left")
	}
	r.lose(a, true)
	a, w = wait()
	if wantTexts(t, w, "x"); !w.Events[0].Redelivered {
		t.Error("not flagged though part of it may have left")
	}
	r.write(a)
	if _, w = wait(); w.Count != 0 {
		t.Fatal("handed out again after it was written")
	}
	if err := a.Receipt.Recalled(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, w = wait()
	if wantTexts(t, w, "x"); !w.Events[0].Redelivered {
		t.Error("a recalled batch is not flagged")
	}
	if r.write(a); strings.Count(readResult(t, a).text(), "redelivered=true") != 1 {
		t.Errorf("the text does not say so: %s", readResult(t, a).text())
	}
}

func TestACancelledWaitTakesNothing(t *testing.T) {
	r := offline(t)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan tools.Answer, 1)
	go func() { done <- r.begin(ctx, "bellman_wait", args{"wait_seconds": 25}) }()
	time.Sleep(20 * time.Millisecond)
	cancel()
	r.lose(<-done, false)
	r.put(memberA, message(1, "x"))
	if w := r.wait(0); !slices.Equal(w.texts(), []string{"x"}) || w.Events[0].Redelivered {
		t.Errorf("the next wait gets %+v", w)
	}
}

// Whoever signs out during a wait, or while events wait, takes them along: the
// next person sees neither them nor the rooms they are of.
func TestSignOutAndSignInAsSomebodyElse(t *testing.T) {
	r := offline(t)
	ben := queue.Identity{Server: jesse.Server, User: "ben"}
	r.put(memberA, message(1, "for jesse"))
	r.who.Store(nil)
	if got := r.call("bellman_wait", nil); got.isError || strings.Contains(string(got.raw), "qs_a") || !strings.Contains(got.text(), "Nobody is signed in") || !strings.Contains(got.text(), "bellman_rooms starts the sign-in") {
		t.Errorf("signed out: %s", got.raw)
	}
	r.who.Store(&ben)
	if w := r.wait(0); w.Count != 0 || w.Remaining != 0 || len(w.Next) != 0 {
		t.Errorf("ben gets %+v", w)
	}
	r.who.Store(&jesse)
	wantTexts(t, r.wait(0), "for jesse")

	asked := make(chan struct{}, 16)
	during := r.another(func(c *tools.Config) {
		identity := c.Identity
		c.Identity = func() (queue.Identity, bool) { asked <- struct{}{}; return identity() }
	})
	done := make(chan tools.Answer, 1)
	go func() { done <- during.begin(t.Context(), "bellman_wait", args{"wait_seconds": 25}) }()
	<-asked
	time.Sleep(50 * time.Millisecond) // jesse's wait is under way
	r.who.Store(&ben)
	if _, err := r.queue.Touch(t.Context(), jesse, memberA, 0); err != nil {
		t.Fatal(err)
	}
	lease, err := r.queue.Lease(t.Context(), jesse, memberA.Room)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.queue.Put(t.Context(), lease, memberA.ID, []queue.Event{message(2, "secret")}, 2); err != nil {
		t.Fatal(err)
	}
	got := during.write(<-done)
	if strings.Contains(string(got.raw), "secret") || strings.Contains(string(got.raw), "qs_a") || !strings.Contains(got.text(), "changed during the wait") {
		t.Errorf("ben's bridge answers %s", got.raw)
	}
	r.who.Store(&jesse)
	if w := r.wait(20); w.Events[0].Redelivered {
		t.Errorf("jesse's events come back as %+v", w)
	}
}

func TestAQueueThatCannotBeUsedIsSaidToBeSo(t *testing.T) {
	r := offline(t, func(c *tools.Config) {
		c.Queue = func(context.Context) (*queue.Queue, error) { return nil, queue.ErrNetwork }
	})
	r.refused("bellman_wait", nil, "event queue cannot be used", "bellman_sync still reads")
	r.refused("bellman_sync", args{"session_id": "qs_1", "member_id": "m_1"}, "cannot be reached")
}
