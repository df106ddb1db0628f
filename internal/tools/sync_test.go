package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// pending is how many events wait for jesse's agent.
func (r *rig) pending() int {
	r.t.Helper()
	p, err := r.queue.Pending(r.t.Context(), jesse, queue.Filter{})
	if err != nil {
		r.t.Fatal(err)
	}
	return p.Events
}

func (r *rig) untilPending(n int) {
	r.t.Helper()
	eventually(r.t, fmt.Sprintf("%d events wait", n), func() bool { return r.pending() == n })
}

// membership returns what the queue knows of the agent's seat.
func (j *joined) membership() queue.Membership {
	j.t.Helper()
	all, err := j.queue.Memberships(j.t.Context(), jesse)
	if err != nil {
		j.t.Fatal(err)
	}
	for _, m := range all {
		if m.Room == j.room && m.ID == j.member {
			return m
		}
	}
	return queue.Membership{}
}

func wantSynced(tb testing.TB, s synced, want ...string) {
	tb.Helper()
	if got := s.texts(); !slices.Equal(got, want) {
		tb.Fatalf("synced %q, want %q", got, want)
	}
}

// The agent's own send moves its cursor past events that are still queued; the
// sync that follows from the old cursor hands them over, and no wait repeats
// them.
func TestASendPastQueuedEventsThenASync(t *testing.T) {
	j := join(t, nil)
	j.watch()
	old := j.last
	j.peer.Say(t, "one")
	j.untilPending(1)
	var sent struct{ Cursor int64 }
	j.ok("bellman_send", j.seat(args{"type": "message", "payload": args{"text": "mine"}}), &sent)
	if j.pending() != 1 {
		t.Fatal("the agent's own send took what it has not seen")
	}
	wantSynced(t, j.sync(old), "one")
	if sent.Cursor != j.last {
		t.Errorf("synced to %d, want %d", j.last, sent.Cursor)
	}
	wantTexts(t, j.wait(0))
}

// An agent that skips with the cursor of its send leaves what was queued.
func TestASendPastQueuedEventsThenASyncFromThere(t *testing.T) {
	j := join(t, nil)
	j.watch()
	j.peer.Say(t, "skipped")
	j.untilPending(1)
	var sent struct{ Cursor int64 }
	j.ok("bellman_send", j.seat(args{"type": "message", "payload": args{"text": "mine"}}), &sent)
	wantSynced(t, j.sync(sent.Cursor))
	wantTexts(t, j.wait(0), "skipped")
}

// The cursor of another room, beyond this room's log, is only echoed: nothing
// that waits here goes, and nothing that comes later is missed.
func TestAnotherRoomsCursorPassedToSync(t *testing.T) {
	j := join(t, nil)
	j.watch()
	j.peer.Say(t, "one")
	j.untilPending(1)
	if s := j.sync(1000); s.Cursor != 1000 {
		t.Fatalf("the service answers %d", s.Cursor)
	}
	j.peer.Say(t, "two")
	j.untilPending(2)
	wantTexts(t, j.wait(0), "one", "two")
}

func TestWaitThenSyncWithTheOldAndWithTheNewCursor(t *testing.T) {
	j := join(t, nil)
	j.watch()
	old := j.last
	j.peer.Say(t, "one")
	w := j.wait(20)
	wantTexts(t, w, "one")
	wantSynced(t, j.sync(old), "one") // the agent's own replay
	j.peer.Say(t, "two")
	j.untilPending(1)
	wantSynced(t, j.sync(w.Next[0].SinceCursor), "two")
	wantTexts(t, j.wait(0))
}

// While a sync is held by the service, no wait takes that seat's events; the
// agent gets each once.
func TestAWaitAndALongPollAtOnce(t *testing.T) {
	j, f := behindFront(t)
	j.watch()
	polling := make(chan struct{})
	f.set(func(q request) fault {
		if q.Tool == "bellman_sync" && strings.Contains(string(q.Params), j.member) && strings.Contains(string(q.Params), `"wait_seconds":20`) {
			close(polling)
		}
		return nil
	})
	synced1 := make(chan tools.Answer, 1)
	go func() {
		synced1 <- j.begin(t.Context(), "bellman_sync", j.seat(args{"since_cursor": j.last, "wait_seconds": 20}))
	}()
	<-polling
	j.peer.Say(t, "once")
	a := <-synced1
	wantTexts(t, j.wait(0)) // its reply has not been written yet
	var s synced
	if err := json.Unmarshal(j.write(a).data, &s); err != nil {
		t.Fatal(err)
	}
	wantSynced(t, s, "once")
	wantTexts(t, j.wait(0.3))
}

// A sync whose reply is lost has handed over nothing.
func TestASyncWhoseReplyIsLostHandsOverNothing(t *testing.T) {
	for _, left := range []bool{false, true} {
		j := join(t, nil)
		j.watch()
		j.peer.Say(t, "one")
		j.untilPending(1)
		j.lose(j.begin(t.Context(), "bellman_sync", j.seat(args{"since_cursor": j.last})), left)
		wantTexts(t, j.wait(0), "one")
	}
}

// Whatever becomes of a sync, its seat's events can be waited for afterwards.
func TestNoHoldOutlivesItsSync(t *testing.T) {
	j, f := behindFront(t)
	j.watch()
	j.peer.Say(t, "one")
	j.untilPending(1)
	frozen := func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprint(w, `{"jsonrpc":"2.0","id":1,"error":{"code":-32000,"message":"no"}}`)
	}
	sync := j.seat(args{"since_cursor": j.last})
	for name, end := range map[string]func(){
		"an outage":        func() { f.set(onTool("bellman_sync", 0, unavailable)); j.refused("bellman_sync", sync) },
		"a broken line":    func() { f.set(onTool("bellman_sync", 0, dropped)); j.refused("bellman_sync", sync) },
		"a protocol error": func() { f.set(onTool("bellman_sync", 0, frozen)); j.begin(t.Context(), "bellman_sync", sync) },
		"a refusal":        func() { f.set(nil); j.refused("bellman_sync", j.seat(args{"wait_seconds": 26})) },
		"another's seat":   func() { j.refused("bellman_sync", args{"session_id": j.room, "member_id": j.peer.Member}) },
		"a cancelled call": func() {
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			j.lose(j.begin(ctx, "bellman_sync", sync), false)
		},
		"an odd cursor":     func() { j.begin(t.Context(), "bellman_sync", j.seat(args{"since_cursor": "x"})) },
		"no arguments":      func() { j.begin(t.Context(), "bellman_sync", nil) },
		"a sign-out inside": func() { j.signOutDuring(f, sync) },
	} {
		f.set(nil)
		end()
		f.set(nil)
		a := j.begin(t.Context(), "bellman_wait", args{"wait_seconds": 0})
		if got := readResult(t, a); !strings.Contains(string(got.data), `"count":1`) {
			t.Errorf("after %s: %s", name, got.data)
		}
		j.lose(a, false)
	}
}

// signOutDuring signs out while a sync is with the service, and in again.
func (j *joined) signOutDuring(f *front, sync args) {
	f.set(func(q request) fault {
		if q.Tool == "bellman_sync" && !strings.Contains(string(q.Params), "wait_seconds") {
			j.who.Store(nil)
		}
		return nil
	})
	a := j.begin(j.t.Context(), "bellman_sync", sync)
	j.who.Store(&jesse)
	if a.Receipt.Written != nil {
		j.t.Error("what one person reads is handed over though they have signed out")
	}
}

// The first bellman_sync of a seat this machine has not seen starts its watch
// behind what it handed over, and where the agent asked from when the reply is
// lost.
func TestTheFirstSyncOfAnUnknownSeat(t *testing.T) {
	for _, lost := range []bool{false, true} {
		h := hubtest.Start(t)
		seat := h.As(hubtest.Jesse).Open(t, nil)
		peer := h.As(hubtest.Peer).Join(t, seat.Code)
		peer.Say(t, "one")
		j := &joined{rig: newRig(t, h.URL+"/mcp", hubtest.Jesse), hub: h, peer: peer, room: seat.Room, member: seat.Member}
		j.watch()
		a := j.begin(t.Context(), "bellman_sync", j.seat(args{"since_cursor": 1}))
		if lost {
			j.lose(a, true)
			wantTexts(t, j.wait(20), "one")
		} else {
			j.write(a)
			peer.Say(t, "two")
			wantTexts(t, j.wait(20), "two")
		}
		wantTexts(t, j.wait(0))
	}
}

// On first sight the cursor of another room says nothing of this one: it is
// watched from its beginning rather than from beyond its end.
func TestTheFirstSyncWithAnotherRoomsCursor(t *testing.T) {
	h := hubtest.Start(t)
	seat := h.As(hubtest.Jesse).Open(t, nil)
	peer := h.As(hubtest.Peer).Join(t, seat.Code)
	j := &joined{rig: newRig(t, h.URL+"/mcp", hubtest.Jesse), hub: h, peer: peer, room: seat.Room, member: seat.Member}
	j.watch()
	j.sync(500)
	peer.Say(t, "one")
	j.untilPending(2) // the arrival and the message
	if at := j.membership(); at.Fetched > 10 {
		t.Errorf("watched from beyond the log: %+v", at)
	}
	at := j.wait(0)
	wantTexts(t, at, "", "one")
	k := &joined{rig: newRig(t, h.URL+"/mcp", hubtest.Jesse), hub: h, peer: peer, room: seat.Room, member: seat.Member}
	last := at.Events[1].Cursor
	if k.sync(last); k.membership().Fetched != last {
		t.Errorf("synced at the very end: watched from %+v, want %d", k.membership(), last)
	}
}

// During an outage the reply says what is already here and hands none of it
// out, even when another bridge died with a claim on it.
func TestASyncDuringAnOutage(t *testing.T) {
	j, f := behindFront(t)
	j.watch()
	f.set(onTool("bellman_sync", 0, unavailable))
	at := j.last
	j.refused("bellman_sync", j.seat(args{"since_cursor": at}), "Nothing was read or lost", "No event of this room waits")
	j.peer.Say(t, "one")
	j.peer.Say(t, "two")
	j.untilPending(2)
	j.refused("bellman_sync", j.seat(args{"since_cursor": at}), "Nothing was read or lost", "already on this machine: 2", "bellman_wait and wait_seconds 0")
	other, err := queue.Open(t.Context(), j.cfg.Dir+"/queue.db", j.cfg.Log)
	if err != nil {
		t.Fatal(err)
	}
	batch, err := other.Claim(t.Context(), jesse, queue.Filter{}, queue.Limit{})
	if err != nil || len(batch.Deliveries) != 2 {
		t.Fatalf("claimed %+v, %v", batch, err)
	}
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	wantTexts(t, j.wait(20), "one", "two")
	f.set(nil)
	wantSynced(t, j.sync(at), "one", "two") // the agent asks from its old cursor: a replay of its own
	wantTexts(t, j.wait(0))
}

func TestARoomThatEndsIsNoLongerWatched(t *testing.T) {
	t.Run("left", func(t *testing.T) {
		j := join(t, nil)
		j.ok("bellman_leave", j.seat(), nil)
		j.sync(0)
		if m := j.membership(); m.Ended != "left" {
			t.Errorf("ended %q", m.Ended)
		}
	})
	t.Run("closed", func(t *testing.T) {
		j := join(t, nil)
		j.peer.OK(t, "bellman_leave", j.peer.Ref(), nil)
		j.hub.As(hubtest.Jesse).OK(t, "bellman_leave", j.seat(), nil) // not through the bridge
		j.lose(j.begin(t.Context(), "bellman_sync", j.seat()), true)
		if m := j.membership(); m.Ended != "" {
			t.Errorf("ended %q by a reply that was lost", m.Ended)
		}
		j.sync(0)
		if m := j.membership(); m.Ended != "closed" {
			t.Errorf("ended %q", m.Ended)
		}
	})
	t.Run("removed", func(t *testing.T) {
		h := hubtest.Start(t)
		owner := h.As(hubtest.Peer).Open(t, nil)
		seat := h.As(hubtest.Jesse).Join(t, owner.Code)
		j := &joined{rig: newRig(t, h.URL+"/mcp", hubtest.Jesse), hub: h, room: seat.Room, member: seat.Member}
		j.sync(0)
		owner.Say(t, "someone else's member_evicted "+seat.Member)
		j.sync(0)
		if m := j.membership(); m.Ended != "" {
			t.Fatalf("ended %q by a message", m.Ended)
		}
		owner.OK(t, "bellman_evict", args{"session_id": seat.Room, "member_id": seat.Member}, nil)
		j.sync(0)
		if m := j.membership(); m.Ended != "removed" {
			t.Errorf("ended %q", m.Ended)
		}
		k := &joined{rig: newRig(t, h.URL+"/mcp", hubtest.Jesse), hub: h, room: seat.Room, member: seat.Member}
		k.sync(0)
		if m := k.membership(); m.ID != "" {
			t.Errorf("a seat that is gone is watched from its first sync on: %+v", m)
		}
	})
}

// An end that proves wrong is lifted by what the service says later; leaving is
// for good.
func TestASeatThatOnlySeemedGoneIsWatchedAgain(t *testing.T) {
	j := join(t, nil)
	m := queue.Member{Room: j.room, ID: j.member}
	for _, again := range []func(){
		func() { j.sync(0) },
		func() { j.ok("bellman_send", j.seat(args{"type": "message", "payload": args{"text": "x"}}), nil) },
	} {
		if err := j.queue.End(t.Context(), jesse, m, "not found"); err != nil {
			t.Fatal(err)
		}
		if again(); j.membership().Ended != "" {
			t.Errorf("still ended: %+v", j.membership())
		}
	}
	if err := j.queue.End(t.Context(), jesse, m, "left"); err != nil {
		t.Fatal(err)
	}
	if j.sync(0); j.membership().Ended != "left" {
		t.Error("a seat that was left is watched again")
	}
}

// What one person's call shows is not noted for the next person.
func TestAResultThatCrossesASignInIsNobodysRoom(t *testing.T) {
	j, f := behindFront(t)
	ben := queue.Identity{Server: jesse.Server, User: "ben"}
	f.set(func(q request) fault {
		if q.Tool == "bellman_start" || q.Tool == "bellman_send" || q.Tool == "bellman_sync" {
			j.who.Store(&ben)
		}
		return nil
	})
	for tool, a := range map[string]args{
		"bellman_start": {"manifest": args{"room": "r", "preset": "pair"}, "brief": hubtest.Brief("g")},
		"bellman_send":  j.seat(args{"type": "message", "payload": args{"text": "x"}}),
		"bellman_sync":  j.seat(),
	} {
		j.who.Store(&jesse)
		j.ok(tool, a, nil)
		if all, err := j.queue.Memberships(t.Context(), ben); err != nil || len(all) != 0 {
			t.Errorf("%s: ben has %+v, %v", tool, all, err)
		}
	}
}
