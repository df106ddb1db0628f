package hub_test

import (
	"slices"
	"strconv"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

func itoa(n int64) string { return strconv.FormatInt(n, 10) }

// sending are the arguments of a send from a seat.
func sending(s *hubtest.Seat, kind string, payload any) args {
	return s.Ref().With(args{"type": kind, "payload": payload})
}

// Case 12: a message names who was there; alone, only progress can be sent.
func TestSendNeedsSomebodyElse(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	for kind, payload := range map[string]args{
		"message": {"text": "x"}, "artifact": {"name": "x"}, "action_request": {"ask": "x"},
		"brief_update": hubtest.Brief("x"), "action_response": {"approved": true},
	} {
		a.Refused(t, bellman.ToolSend, sending(a, kind, payload), "no other active members")
	}
	var sent struct {
		Members []string `json:"room_members"`
		Cursor  int64    `json:"cursor"`
	}
	a.OK(t, bellman.ToolSend, sending(a, "progress", args{"note": "alone"}), &sent)
	if sent.Members == nil || len(sent.Members) != 0 || sent.Cursor != 1 {
		t.Errorf("progress alone: %+v, want no members and cursor 1", sent)
	}
	b := s.As(hubtest.Peer).Join(t, a.Code)
	b.OK(t, bellman.ToolSend, sending(b, "message", args{"text": "hi"}), &sent)
	if !slices.Equal(sent.Members, []string{"jesse@codenerd"}) {
		t.Errorf("room_members %v, want the other one", sent.Members)
	}
}

// nested returns an object with that many levels of containers.
func nested(levels int) any {
	var v any = args{}
	for range levels - 1 {
		v = args{"in": v}
	}
	return v
}

// Case 13: a payload has at most 20000 characters and 64 levels, keyed or not.
func TestSendBounds(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	a.Refused(t, bellman.ToolSend, sending(a, "artifact", args{"content": strings.Repeat("x", 21000)}), "payload too large", "Send a summary")
	key := args{"idempotency_key": "key-for-depth"}
	for _, more := range []args{nil, key} {
		a.Refused(t, bellman.ToolSend, sending(a, "message", nested(65)).With(more), "64", "flatten")
	}
	if got := b.Sync(t, b.Cursor); len(got.Events) != 0 {
		t.Fatalf("refused messages were stored: %v", got.Types())
	}
	a.OK(t, bellman.ToolSend, sending(a, "message", nested(64)).With(key), nil)
	// Both sides of the bound, counted in UTF-16 units: each of these characters is two.
	frame := len(`{"text":""}`)
	exact := strings.Repeat("\U0001F514", (20000-frame)/2)
	pad := strings.Repeat("x", (20000-frame)%2)
	a.OK(t, bellman.ToolSend, sending(a, "message", args{"text": exact + pad}), nil)
	a.Refused(t, bellman.ToolSend, sending(a, "message", args{"text": exact + pad + "x"}), "payload too large (20001")
}

// Case 14: consent decides who can be written to, and who can be asked to act.
func TestSendRespectsCapabilities(t *testing.T) {
	s := hubtest.Start(t)
	a, _ := pair(t, s, args{"capabilities": []string{"read_context"}})
	a.Refused(t, bellman.ToolSend, sending(a, "message", args{"text": "x"}), "no recipient allows receive_messages", "peer@codenerd")
	a.Refused(t, bellman.ToolSend, sending(a, "artifact", args{"name": "x"}), "no recipient allows receive_messages")
	c, _ := pair(t, s)
	c.Refused(t, bellman.ToolSend, sending(c, "action_request", args{"ask": "x"}), "did not grant request_actions", "peer@codenerd")
}

// An action request is answered by its exact cursor, not by its own sender,
// and with a decision.
func TestSendAnswer(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s, args{"capabilities": []string{"receive_messages", "request_actions"}})
	for range 4 {
		a.Say(t, "so that the cursor has one digit more than its value needs")
	}
	var sent struct {
		Cursor int64  `json:"cursor"`
		Note   string `json:"note"`
	}
	a.OK(t, bellman.ToolSend, sending(a, "action_request", args{"ask": "x"}), &sent)
	if !strings.Contains(sent.Note, "human") {
		t.Errorf("note %q does not speak of a human", sent.Note)
	}
	ref := itoa(sent.Cursor)
	yes := args{"approved": true}
	b.Refused(t, bellman.ToolSend, sending(b, "action_response", yes), "ref_id")
	for _, wrong := range []string{"0" + ref, ref + ".0", " " + ref, "999", "abc"} {
		b.Refused(t, bellman.ToolSend, sending(b, "action_response", yes).With(args{"ref_id": wrong}), "no action_request with cursor id "+wrong)
	}
	a.Refused(t, bellman.ToolSend, sending(a, "action_response", yes).With(args{"ref_id": ref}), "cannot respond to your own")
	for _, payload := range []args{{}, {"Approved": true}, {"approved": "yes"}, {"approved": nil}, {"approved": true, "result": strings.Repeat("x", 2001)}} {
		b.Refused(t, bellman.ToolSend, sending(b, "action_response", payload).With(args{"ref_id": ref}), "payload.")
	}
	b.OK(t, bellman.ToolSend, sending(b, "action_response", args{"approved": true, "result": "ok", "extra": 1}).With(args{"ref_id": ref}), nil)
	got := a.Sync(t, sent.Cursor)
	if len(got.Events) != 1 || got.Events[0].Data.RefID == nil || *got.Events[0].Data.RefID != ref {
		t.Errorf("answer: %+v, want ref_id %s", got.Events, ref)
	}
}

// Case 16: a brief is replaced whole, and only the sender's.
func TestSendBriefUpdate(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, args{"room": "many", "preset": "swarm"})
	b := s.As(hubtest.Peer).Join(t, a.Code)
	b.Refused(t, bellman.ToolSend, sending(b, "brief_update", args{"goal": "half"}), "brief.agent")
	// Names are what they are: nobody who reads the event would find this goal.
	near := hubtest.Brief("x").With(args{"Goal": "x"})
	delete(near, "goal")
	b.Refused(t, bellman.ToolSend, sending(b, "brief_update", near), "brief.goal")
	b.Send(t, "brief_update", hubtest.Brief("a new goal"))
	r := s.As(hubtest.Outsider).Join(t, a.Invite(t, "observer"))
	var view struct {
		Briefs []bellman.Envelope[struct{ Goal string }] `json:"briefs"`
	}
	c := s.As(hubtest.Outsider)
	var p struct {
		Token string `json:"connect_token"`
	}
	c.OK(t, bellman.ToolConnect, args{"join_code": a.Invite(t, "helper")}, &p)
	c.OK(t, bellman.ToolConfirm, args{"connect_token": p.Token, "brief": hubtest.Brief("late")}, &view)
	goals := map[string]string{}
	for _, e := range view.Briefs {
		goals[e.Origin.MemberID] = e.Data.Goal
	}
	want := map[string]string{a.Member: "open", b.Member: "a new goal", r.Member: "join"}
	for member, goal := range want {
		if goals[member] != goal {
			t.Errorf("brief of %s: %q, want %q", member, goals[member], goal)
		}
	}
}

// Case 17: cursors rise by one, and a tail is the tail.
func TestCursorsAreContiguous(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	for i := range 5 {
		if got := a.Say(t, "n"); got != b.Cursor+int64(i)+1 {
			t.Fatalf("cursor %d, want %d", got, b.Cursor+int64(i)+1)
		}
	}
	all := b.Sync(t, b.Cursor).Events
	tail := b.Sync(t, all[1].Data.Cursor).Events
	if len(all) != 5 || len(tail) != 3 || tail[0].Data.Cursor != all[2].Data.Cursor {
		t.Errorf("all %d, tail %d", len(all), len(tail))
	}
}

// Case 19: progress is held to its three fields, and what the service writes
// cannot be sent.
func TestSendProgress(t *testing.T) {
	s := hubtest.Start(t)
	a, _ := pair(t, s)
	good := []args{
		{"note": "x"},
		{"note": "x", "step": strings.Repeat("s", 40)},
		{"note": "x", "eta_seconds": 0},
		{"note": strings.Repeat("n", 500), "eta_seconds": 86400},
	}
	bad := []args{
		{},
		{"note": ""},
		{"note": strings.Repeat("n", 501)},
		{"note": "x", "step": strings.Repeat("s", 41)},
		{"note": "x", "eta_seconds": -1},
		{"note": "x", "eta_seconds": 1.5},
		{"note": "x", "eta_seconds": 86401},
		{"note": "x", "status": "busy"},
		{"note": "x", "alive": true},
		{"note": 5},
		{"note": nil},
	}
	for _, p := range good {
		a.Send(t, "progress", p)
	}
	for _, p := range bad {
		a.Refused(t, bellman.ToolSend, sending(a, "progress", p), "payload")
	}
	for _, kind := range []string{"heartbeat", "housekeeping", "member_evicted", "session_expired", "member_joined", "Message"} {
		a.Refused(t, bellman.ToolSend, sending(a, kind, args{}), "message, artifact, action_request, action_response, brief_update, progress, surface")
	}
	swarm := s.As(hubtest.Jesse).Open(t, args{"room": "many", "preset": "swarm"})
	o := s.As(hubtest.Peer).Join(t, swarm.Invite(t, "observer"))
	o.Refused(t, bellman.ToolSend, sending(o, "progress", args{"note": "x"}), `your role "observer" does not hold the verb "send"`, "none")
}

// Cases 20 and 21: who left cannot write, and a role cannot do more than it
// may.
func TestSendGate(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	b.Refused(t, bellman.ToolSend, sending(b, "surface", args{"key": "plan", "kind": "text", "body": "x"}),
		`your role "peer_b" does not hold the verb "write_surface"`)
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	b.Refused(t, bellman.ToolSend, sending(b, "message", args{"text": "x"}), "has left the session")
	a.Refused(t, bellman.ToolSend, sending(a, "message", args{"text": "x"}), "no other active members")
}

// A key makes a repeat harmless and a different message a conflict; each
// member has its own.
func TestSendIdempotency(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	key := args{"idempotency_key": "12345678"}
	var first, again struct {
		Cursor   int64 `json:"cursor"`
		Replayed bool  `json:"replayed"`
	}
	a.OK(t, bellman.ToolSend, sending(a, "message", args{"x": 1, "y": args{"p": 1, "q": 2}}).With(key), &first)
	a.OK(t, bellman.ToolSend, sending(a, "message", args{"y": args{"q": 2, "p": 1}, "x": 1.0}).With(key), &again)
	if first.Replayed || !again.Replayed || again.Cursor != first.Cursor {
		t.Errorf("first %+v, again %+v, want the same cursor, replayed", first, again)
	}
	a.Refused(t, bellman.ToolSend, sending(a, "message", args{"x": 2}).With(key), "12345678", "already used for a different message")
	a.Refused(t, bellman.ToolSend, sending(a, "artifact", args{"x": 1, "y": args{"p": 1, "q": 2}}).With(key), "already used")
	again.Replayed = false // An absent field leaves it as it is.
	b.OK(t, bellman.ToolSend, sending(b, "message", args{"x": 2}).With(key), &again)
	if again.Replayed {
		t.Error("one member's key counted for another")
	}
	if got := b.Sync(t, b.Cursor); len(got.Events) != 1 {
		t.Errorf("events %v, want the one message", got.Types())
	}
	for _, key := range []string{"1234567", strings.Repeat("k", 81)} {
		a.Refused(t, bellman.ToolSend, sending(a, "message", args{"x": 1}).With(args{"idempotency_key": key}), "idempotency_key", "8 to 80")
	}
	a.OK(t, bellman.ToolSend, sending(a, "message", args{"x": 1}).With(args{"idempotency_key": strings.Repeat("k", 80)}), nil)
	// A retry into a room that emptied is refused, not replayed.
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	a.Refused(t, bellman.ToolSend, sending(a, "message", args{"x": 1, "y": args{"p": 1, "q": 2}}).With(key), "no other active members")
}

// An answer whose reply was lost can be sent again with its key.
func TestSendAnswerAgain(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s, args{"capabilities": []string{"receive_messages", "request_actions"}})
	ref := itoa(a.Send(t, "action_request", args{"ask": "x"}))
	call := sending(b, "action_response", args{"approved": true}).With(args{"ref_id": ref, "idempotency_key": "answer-1"})
	b.OK(t, bellman.ToolSend, call, nil)
	var again struct {
		Replayed bool `json:"replayed"`
	}
	b.OK(t, bellman.ToolSend, call, &again)
	if !again.Replayed {
		t.Error("the answer was not replayed")
	}
}

// What a peer wrote arrives as it was written: order of keys, digits of
// numbers, characters.
func TestPayloadIsKept(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	raw := "{\"z\":1,\"a\":12345678901234567890,\"s\":\"</script>\u2028\\u0007\U0001F514\",\"n\":[null,1e3]}"
	a.OK(t, bellman.ToolSend, sending(a, "message", rawJSON(raw)), nil)
	got := b.Sync(t, b.Cursor).Events[0].Data.Payload
	var want, have any
	decode(t, raw, &want)
	decode(t, string(got), &have)
	if !strings.HasPrefix(strings.Join(strings.Fields(string(got)), ""), `{"z":1,"a":12345678901234567890,"s":`) {
		t.Errorf("payload %s, want the keys and digits of %s", got, raw)
	}
	if !equal(want, have) {
		t.Errorf("payload %s, want %s", got, raw)
	}
}
