package hub_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

type args = hubtest.Args

// pair opens a pair room with both seats taken.
func pair(t *testing.T, s *hubtest.Server, more ...args) (a, b *hubtest.Seat) {
	t.Helper()
	a = s.As(hubtest.Jesse).Open(t, nil, more...)
	return a, s.As(hubtest.Peer).Join(t, a.Code, more...)
}

// Case 1: a fresh room has no events, and a preview leaves no trace of the
// visitor in it.
func TestSyncFreshRoomIsEmpty(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	if got := a.Sync(t, 0); len(got.Events) != 0 || got.Cursor != 0 || got.SessionStatus != "active" {
		t.Errorf("fresh room: %+v, want no events, cursor 0, active", got)
	}
	s.As(hubtest.Peer).OK(t, bellman.ToolConnect, args{"join_code": a.Code}, nil)
	if got := a.Sync(t, 0); len(got.Events) != 0 {
		t.Errorf("after a preview: events %v, want none", got.Types())
	}
	view := a.OK(t, bellman.ToolRooms, args{}, nil)
	if strings.Contains(view.Text, "peer@codenerd") {
		t.Error("the roster names a visitor who has not confirmed")
	}
}

// Case 2: joining is an event with the joiner's brief.
func TestSyncShowsWhoJoined(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	b := s.As(hubtest.Peer).Join(t, a.Code, args{"brief": hubtest.Brief("mend the bell")})
	got := a.Sync(t, 0)
	if len(got.Events) != 1 || got.Events[0].Data.Type != "member_joined" {
		t.Fatalf("events %v, want one member_joined", got.Types())
	}
	var p struct {
		Member struct {
			ID     string `json:"member_id"`
			Active bool   `json:"active"`
		} `json:"member"`
		Brief struct {
			Goal        string    `json:"goal"`
			Constraints *[]string `json:"constraints"`
		} `json:"brief"`
	}
	e := got.Events[0]
	if err := json.Unmarshal(e.Data.Payload, &p); err != nil {
		t.Fatal(err)
	}
	if p.Brief.Goal != "mend the bell" || p.Brief.Constraints == nil || p.Member.ID != b.Member || !p.Member.Active {
		t.Errorf("payload %s", e.Data.Payload)
	}
	if e.Trust != "untrusted" || e.Origin.MemberID != b.Member || e.Data.Cursor != b.Cursor {
		t.Errorf("envelope %+v", e)
	}
}

// Case 4: a member's own events are left out, yet move its cursor.
func TestSyncLeavesOutOwnEvents(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	own := a.Say(t, "mine")
	if got := a.Sync(t, b.Cursor); len(got.Events) != 0 || got.Cursor != own {
		t.Errorf("own event: %v at %d, want none at %d", got.Types(), got.Cursor, own)
	}
	if got := b.Sync(t, b.Cursor); len(got.Events) != 1 || got.Cursor != own {
		t.Errorf("peer: %v at %d, want one at %d", got.Types(), got.Cursor, own)
	}
	if got := a.Sync(t, 99); len(got.Events) != 0 || got.Cursor != 99 {
		t.Errorf("past the end: %v at %d, want none at 99", got.Types(), got.Cursor)
	}
}

// The preamble stands before events and nowhere else.
func TestSyncWarnsOnlyOfContent(t *testing.T) {
	s := hubtest.Start(t)
	a, _ := pair(t, s)
	const mark = "UNTRUSTED PEER CONTENT"
	full := a.OK(t, bellman.ToolSync, a.Ref(), nil)
	if !strings.HasPrefix(full.Text, mark) || !strings.Contains(full.Text, "\n\n{\n  \"events\"") {
		t.Errorf("with events the text begins %.80q", full.Text)
	}
	empty := a.OK(t, bellman.ToolSync, a.Ref().With(args{"since_cursor": 1}), nil)
	if strings.Contains(empty.Text, mark) || !strings.HasPrefix(empty.Text, "{\n  \"events\": []") {
		t.Errorf("without events the text begins %.80q", empty.Text)
	}
}

// Case 5: a poll at the end of the log waits for what a peer sends.
func TestSyncWaits(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	type answer struct {
		result hubtest.Result
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := a.Call(context.WithoutCancel(t.Context()), bellman.ToolSync, a.Ref().With(args{"since_cursor": b.Cursor, "wait_seconds": 20}))
		answers <- answer{r, err}
	}()
	select {
	case got := <-answers:
		t.Fatalf("poll returned at once: %+v", got)
	case <-time.After(150 * time.Millisecond):
	}
	b.Say(t, "ring")
	got := <-answers
	if got.err != nil || got.result.IsError || !strings.Contains(got.result.Text, "ring") {
		t.Errorf("poll: %+v, want the message", got)
	}
}

// A poll that nothing wakes returns when its time has passed, with the cursor
// it came with.
func TestSyncWaitEnds(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	if got := a.Sync(t, b.Cursor, args{"wait_seconds": 1}); len(got.Events) != 0 || got.Cursor != b.Cursor {
		t.Errorf("got %v at %d, want none at %d", got.Types(), got.Cursor, b.Cursor)
	}
}

// Case 7: the bounds of a wait are enforced and published.
func TestSyncWaitBounds(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	a.Refused(t, bellman.ToolSync, a.Ref().With(args{"wait_seconds": 26}), "wait_seconds", "25")
	a.Refused(t, bellman.ToolSync, a.Ref().With(args{"wait_seconds": -1}), "wait_seconds", "0")
	a.Refused(t, bellman.ToolSync, a.Ref().With(args{"wait_seconds": 1.5}), "wait_seconds", "whole number")
	a.Refused(t, bellman.ToolSync, a.Ref().With(args{"since_cursor": "0"}), "since_cursor")
}

// Case 8: unknown rooms and other people's handles are refused, and a room's
// events stay in it.
func TestSyncIsForMembers(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	a.Say(t, "secret of this room")
	unknown := args{"session_id": "qs_00000000-0000-4000-8000-000000000000", "member_id": a.Member}
	a.Refused(t, bellman.ToolSync, unknown, "not found")
	a.Refused(t, bellman.ToolLeave, unknown, "not found")
	a.Refused(t, bellman.ToolSync, args{"session_id": a.Room, "member_id": b.Member}, "member_id")
	other := s.As(hubtest.Outsider).Open(t, nil)
	other.Refused(t, bellman.ToolSync, args{"session_id": a.Room, "member_id": other.Member}, "member_id")
	other.Refused(t, bellman.ToolSync, args{"session_id": a.Room, "member_id": a.Member}, "member_id")
	if got := other.Sync(t, 0); len(got.Events) != 0 {
		t.Errorf("another room shows %v", got.Types())
	}
}

// Case 11: room_id works alone everywhere, session_id wins, and with neither
// the refusal names both.
func TestRoomReference(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, args{"room": "many", "preset": "swarm"})
	b := s.As(hubtest.Peer).Join(t, a.Code)
	calls := []struct {
		tool string
		args args
	}{
		{bellman.ToolSync, args{"member_id": a.Member}},
		{bellman.ToolSurface, args{}},
		{bellman.ToolSend, args{"member_id": a.Member, "type": "message", "payload": args{"text": "x"}}},
		{bellman.ToolInvite, args{"member_id": a.Member}},
		{bellman.ToolEvict, args{"member_id": b.Member}},
		{bellman.ToolLeave, args{"member_id": a.Member}},
	}
	for _, c := range calls {
		a.Refused(t, c.tool, c.args, "session_id", "room_id")
		a.Refused(t, c.tool, c.args.With(args{"session_id": "qs_wrong", "room_id": a.Room}))
		a.OK(t, c.tool, c.args.With(args{"session_id": a.Room, "room_id": "qs_wrong"}), nil)
		if c.tool != bellman.ToolEvict {
			a.OK(t, c.tool, c.args.With(args{"room_id": a.Room}), nil)
			if c.tool == bellman.ToolSend {
				b = s.As(hubtest.Peer).Join(t, a.Invite(t, "observer"))
				calls[4].args["member_id"] = b.Member
			}
		}
	}
}

// Case 22 to 25: a request is outstanding for thirty minutes or until the
// first answer, and shows from each side whose it is.
func TestOutstanding(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s, args{"capabilities": []string{"receive_messages", "request_actions"}})
	ask := a.Send(t, "action_request", args{"ask": "may I deploy?"})
	s.Clock.Advance(90 * time.Second)
	mine, theirs := a.Sync(t, 0).Outstanding, b.Sync(t, 0).Outstanding
	if len(mine) != 1 || len(theirs) != 1 || !mine[0].Mine || theirs[0].Mine {
		t.Fatalf("outstanding: %+v and %+v, want one each, mine and not", mine, theirs)
	}
	if mine[0].Cursor != ask || mine[0].AgeSeconds != 90 || mine[0].From != a.Member {
		t.Errorf("entry %+v, want cursor %d, 90 seconds, from %s", mine[0], ask, a.Member)
	}
	s.Clock.Advance(28 * time.Minute)
	if got := b.Sync(t, 0).Outstanding; len(got) != 1 {
		t.Errorf("after 29.5 minutes: %+v, want one", got)
	}
	s.Clock.Advance(time.Minute)
	if got := b.Sync(t, 0).Outstanding; len(got) != 0 {
		t.Errorf("after 30.5 minutes: %+v, want none", got)
	}
	late := a.Send(t, "action_request", args{"ask": "again?"})
	b.Send(t, "action_response", args{"approved": false, "result": "no"}, args{"ref_id": itoa(late)})
	if got := a.Sync(t, 0).Outstanding; len(got) != 0 {
		t.Errorf("after an answer: %+v, want none", got)
	}
	// An expired request can still be answered, once.
	b.Send(t, "action_response", args{"approved": true}, args{"ref_id": itoa(ask)})
	b.Refused(t, bellman.ToolSend, b.Ref().With(args{
		"type": "action_response", "payload": args{"approved": true}, "ref_id": itoa(ask),
	}), "already answered", "peer@codenerd")
}
