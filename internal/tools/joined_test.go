package tools_test

import (
	"encoding/json"
	"maps"
	"slices"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// waited is what bellman_wait returns.
type waited struct {
	Count     int
	Remaining int
	Events    []struct {
		Trust       string
		SessionID   string `json:"session_id"`
		MemberID    string `json:"member_id"`
		Cursor      int64
		Type        string
		FromLabel   string `json:"from_label"`
		Redelivered bool
		Ambient     bool
		Payload     struct{ Text string }
	}
	Next []struct {
		SessionID   string `json:"session_id"`
		MemberID    string `json:"member_id"`
		SinceCursor int64  `json:"since_cursor"`
	}
}

func (w waited) texts() []string {
	all := []string{}
	for _, e := range w.Events {
		all = append(all, e.Payload.Text)
	}
	return all
}

func (r *rig) wait(seconds float64, more ...args) waited {
	r.t.Helper()
	a := args{"wait_seconds": seconds}
	for _, m := range more {
		maps.Copy(a, m)
	}
	var w waited
	r.ok("bellman_wait", a, &w)
	return w
}

func wantTexts(tb testing.TB, w waited, want ...string) {
	tb.Helper()
	if got := w.texts(); !slices.Equal(got, want) {
		tb.Fatalf("events %q, want %q", got, want)
	}
}

// joined is a room with the rig's agent in one seat and a peer in the other.
type joined struct {
	*rig
	hub    *hubtest.Server
	peer   *hubtest.Seat
	room   string
	member string
	last   int64 // the cursor that the agent knows
}

// join starts a hub and a rig in front of it, or of what front makes of it,
// with the rig's agent in a room that a peer has joined. The agent has synced.
func join(t *testing.T, front func(hub string) string, change ...func(*tools.Config)) *joined {
	t.Helper()
	h := hubtest.Start(t)
	address := h.URL
	if front != nil {
		address = front(h.URL)
	}
	j := &joined{rig: newRig(t, address+"/mcp", hubtest.Jesse, change...), hub: h}
	j.enter()
	return j
}

func (j *joined) enter() {
	j.t.Helper()
	var started struct {
		SessionID string `json:"session_id"`
		MemberID  string `json:"member_id"`
		JoinCode  string `json:"join_code"`
	}
	j.ok("bellman_start", args{"manifest": args{"room": "r", "preset": "pair"}, "brief": hubtest.Brief("g")}, &started)
	j.room, j.member = started.SessionID, started.MemberID
	j.peer = j.hub.As(hubtest.Peer).Join(j.t, started.JoinCode)
	j.sync(0)
}

// seat are the arguments that name the agent's seat, and more.
func (j *joined) seat(more ...args) args {
	a := args{"session_id": j.room, "member_id": j.member}
	for _, m := range more {
		maps.Copy(a, m)
	}
	return a
}

type synced struct {
	Cursor int64
	Events []struct {
		Data struct {
			Cursor  int64
			Type    string
			Payload struct{ Text string }
		}
	}
}

func (s synced) texts() []string {
	all := []string{}
	for _, e := range s.Events {
		all = append(all, e.Data.Payload.Text)
	}
	return all
}

func (j *joined) sync(since int64) synced {
	j.t.Helper()
	var s synced
	j.ok("bellman_sync", j.seat(args{"since_cursor": since}), &s)
	j.last = s.Cursor
	return s
}

// put stores an event in the queue as a watch does.
func (r *rig) put(m queue.Member, events ...queue.Event) {
	r.t.Helper()
	id := *r.who.Load()
	if _, err := r.queue.Touch(r.t.Context(), id, m, 0); err != nil {
		r.t.Fatal(err)
	}
	lease, err := r.queue.Lease(r.t.Context(), id, m.Room)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.queue.Put(r.t.Context(), lease, m.ID, events, events[len(events)-1].Cursor); err != nil {
		r.t.Fatal(err)
	}
	if err := r.queue.Unlease(r.t.Context(), lease); err != nil {
		r.t.Fatal(err)
	}
}

// event is an event as the room socket brings it.
func event(cursor int64, kind, label string, payload any) queue.Event {
	at := time.UnixMilli(1_800_000_000_000 + cursor*1000).UTC()
	body, err := json.Marshal(args{
		"cursor": cursor, "type": kind, "from": args{"member_id": "m_aaaaaaaa", "label": label},
		"payload": payload, "ref_id": nil, "at": at.Format("2006-01-02T15:04:05.000Z"),
	})
	if err != nil {
		body = nil
	}
	return queue.Event{Cursor: cursor, Type: kind, At: at, Body: body}
}

func message(cursor int64, text string) queue.Event {
	return event(cursor, "message", "peer@example.com", args{"text": text})
}

// waitNote returns the next notification of the method.
func (r *rig) waitNote(method string) note {
	r.t.Helper()
	for {
		select {
		case n := <-r.notes:
			if n.method == method {
				return n
			}
		case <-time.After(20 * time.Second):
			r.t.Fatalf("no %s", method)
		}
	}
}
