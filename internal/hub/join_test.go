package hub_test

import (
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

var swarm = args{"room": "many", "preset": "swarm"}

// preview returns the token of a preview.
func preview(t *testing.T, c *hubtest.Client, code string) string {
	t.Helper()
	var p struct {
		Token string `json:"connect_token"`
	}
	c.OK(t, bellman.ToolConnect, args{"join_code": code}, &p)
	return p.Token
}

func confirming(token string) args {
	return args{"connect_token": token, "brief": hubtest.Brief("join")}
}

// Case 49: a token is good once, for its own user, and burns on first use.
func TestJoinTokenBurns(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, swarm)
	peer, outsider := s.As(hubtest.Peer), s.As(hubtest.Outsider)
	stolen := preview(t, peer, a.Code)
	outsider.Refused(t, bellman.ToolConfirm, confirming(stolen), "invalid or expired")
	peer.Refused(t, bellman.ToolConfirm, confirming(stolen), "invalid or expired")
	token := preview(t, peer, a.Code)
	peer.OK(t, bellman.ToolConfirm, confirming(token), nil)
	peer.Refused(t, bellman.ToolConfirm, confirming(token), "invalid or expired")
	old := preview(t, outsider, a.Code)
	s.Clock.Advance(10*time.Minute + time.Second)
	outsider.Refused(t, bellman.ToolConfirm, confirming(old), "invalid or expired")
}

// Case 49: codes die after fifteen minutes; how they are typed does not
// matter, but what they say does.
func TestJoinCodes(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, swarm)
	peer := s.As(hubtest.Peer)
	for _, typed := range []string{strings.ToLower(a.Code), " " + strings.ReplaceAll(a.Code, "-", " - ") + "\t", strings.ReplaceAll(a.Code, "-", "_")} {
		peer.OK(t, bellman.ToolConnect, args{"join_code": typed}, nil)
	}
	for _, wrong := range []string{strings.TrimSuffix(a.Code, "HELPER") + "LEAD", a.Code + "S", "BELL-AAAA-AA-HELPER", "nonsense"} {
		peer.Refused(t, bellman.ToolConnect, args{"join_code": wrong}, "not found or expired")
	}
	s.Clock.Advance(15*time.Minute + time.Second)
	peer.Refused(t, bellman.ToolConnect, args{"join_code": a.Code}, "not found or expired")
}

// Case 49: a pair's code dies when the room fills; a swarm's seats several.
func TestJoinUsesUpACode(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	s.As(hubtest.Peer).Join(t, a.Code)
	s.As(hubtest.Outsider).Refused(t, bellman.ToolConnect, args{"join_code": a.Code}, "not found or expired")
	many := s.As(hubtest.Jesse).Open(t, swarm)
	s.As(hubtest.Peer).Join(t, many.Code)
	s.As(hubtest.Outsider).Join(t, many.Code)
}

// Two people may hold a preview of the last seat; the slower one hears that
// the room filled.
func TestJoinRace(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	peer, outsider := s.As(hubtest.Peer), s.As(hubtest.Outsider)
	first, second := preview(t, peer, a.Code), preview(t, outsider, a.Code)
	peer.Confirm(t, first)
	outsider.Refused(t, bellman.ToolConfirm, confirming(second), "session filled while you were confirming", "full")
}

// Case 49: what a plan does not include cannot be created, but joining is
// free.
func TestPlans(t *testing.T) {
	s := hubtest.Start(t)
	peer := s.As(hubtest.Peer)
	start := func(manifest args) args { return args{"manifest": manifest, "brief": hubtest.Brief("x")} }
	peer.Refused(t, bellman.ToolStart, start(swarm), "swarm")
	peer.Refused(t, bellman.ToolStart, start(args{"room": "r", "preset": "pair", "public": true}), "public")
	peer.Refused(t, bellman.ToolStart, start(args{"room": "r", "preset": "pair"}).With(args{"org_only": true}), "team")
	s.As(hubtest.Jesse).Refused(t, bellman.ToolStart, start(args{"room": "r", "preset": "social"}), "hosted seats")
	for range 20 {
		peer.Open(t, nil)
	}
	peer.Refused(t, bellman.ToolStart, start(args{"room": "r", "preset": "pair"}), "monthly session limit")
	peer.Join(t, s.As(hubtest.Jesse).Open(t, nil).Code)
	s.Clock.Advance(31 * 24 * time.Hour)
	peer.Open(t, nil)
}

// A room for an organization admits nobody else.
func TestOrgOnly(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil, args{"org_only": true})
	s.As(hubtest.Outsider).Refused(t, bellman.ToolConnect, args{"join_code": a.Code}, "organization")
	s.As(hubtest.Peer).Join(t, a.Code)
}

// Case 48: one code a role, replaced by the next; revoking says what it
// killed and is silent when there was nothing.
func TestInvite(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	if !regexp.MustCompile(`^BELL-[A-Z2-9]{4}-[A-Z2-9]{2}-PEER-B$`).MatchString(a.Code) {
		t.Errorf("code %q", a.Code)
	}
	var inv struct {
		Code     string `json:"join_code"`
		URL      string `json:"join_url"`
		Replaced bool   `json:"replaced_previous"`
		Role     string `json:"role"`
	}
	a.OK(t, bellman.ToolInvite, a.Ref(), &inv)
	if !inv.Replaced || inv.Role != "peer_b" || inv.URL != "https://bellman.sh/j/"+inv.Code || inv.Code == a.Code {
		t.Errorf("reissued: %+v", inv)
	}
	peer := s.As(hubtest.Peer)
	peer.Refused(t, bellman.ToolConnect, args{"join_code": a.Code}, "not found or expired")
	other := a.Invite(t, "peer_a")
	var rev struct {
		Revoked bool            `json:"revoked"`
		Roles   []string        `json:"roles"`
		Code    json.RawMessage `json:"join_code"`
	}
	a.OK(t, bellman.ToolInvite, a.Ref().With(args{"role": "peer_a", "revoke": true}), &rev)
	if !rev.Revoked || !slices.Equal(rev.Roles, []string{"peer_a"}) || string(rev.Code) != "null" {
		t.Errorf("revoked: %+v", rev)
	}
	peer.Refused(t, bellman.ToolConnect, args{"join_code": other}, "not found")
	before := a.Sync(t, 0).Cursor
	a.OK(t, bellman.ToolInvite, a.Ref().With(args{"role": "peer_a", "revoke": true}), &rev)
	if len(rev.Roles) != 0 || a.Sync(t, 0).Cursor != before {
		t.Errorf("repeat: roles %v, cursor %d, want none and %d", rev.Roles, a.Sync(t, 0).Cursor, before)
	}
	a.OK(t, bellman.ToolInvite, a.Ref().With(args{"revoke": true}), &rev)
	if !slices.Equal(rev.Roles, []string{"peer_b"}) {
		t.Errorf("revoked all: %v, want peer_b", rev.Roles)
	}
	a.Refused(t, bellman.ToolInvite, a.Ref().With(args{"role": "boss"}), "peer_a, peer_b")
	b := peer.Join(t, a.Invite(t, ""))
	a.Refused(t, bellman.ToolInvite, a.Ref(), "full")
	b.Refused(t, bellman.ToolInvite, b.Ref(), `does not hold the verb "invite"`)
	// The code itself never reaches the log.
	if got := b.OK(t, bellman.ToolSync, b.Ref(), nil); strings.Contains(got.Text, "BELL-") {
		t.Error("the log holds a join code")
	}
}

// Who asks for a code is present by asking, however quiet they were: a room
// that is full with them has no seat to invite to (protocol.md 4.5).
func TestAQuietInviterCountsAsPresent(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	s.Clock.Advance(9 * time.Minute)
	b.Say(t, "still here")
	s.Clock.Advance(2 * time.Minute)
	a.Refused(t, bellman.ToolInvite, a.Ref(), "full")
	s.Clock.Advance(9 * time.Minute) // the refused call was a sign of life, and the peer is quiet now
	s.As(hubtest.Outsider).Join(t, a.Invite(t, ""))
}

// Replacing a live code takes revoke as well as invite; an expired one is not
// live.
func TestInviteReplaces(t *testing.T) {
	s := hubtest.Start(t)
	manifest := args{
		"room": "r", "mode": "swarm", "default_role": "guest", "creator_role": "boss",
		"roles": args{"boss": args{"can": []string{"invite", "revoke"}}, "guest": args{"can": []string{"invite"}}},
	}
	a := s.As(hubtest.Jesse).Open(t, manifest)
	b := s.As(hubtest.Peer).Join(t, a.Code)
	b.Refused(t, bellman.ToolInvite, b.Ref(), "live code", "revoke")
	s.Clock.Advance(15*time.Minute + time.Second)
	var inv struct {
		Replaced bool `json:"replaced_previous"`
	}
	b.OK(t, bellman.ToolInvite, b.Ref(), &inv)
	if inv.Replaced {
		t.Error("an expired code was called replaced")
	}
}

// Cases 42 and 43: removal says what happened to the role's code, and only a
// room's creator may remove.
func TestEvict(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	b.Refused(t, bellman.ToolEvict, args{"session_id": a.Room, "member_id": a.Member}, "created this room")
	a.Refused(t, bellman.ToolEvict, a.Ref(), "leave the room")
	a.Refused(t, bellman.ToolEvict, args{"session_id": a.Room, "member_id": "m_00000000"}, "no such member")
	got := a.OK(t, bellman.ToolEvict, b.Ref(), nil)
	if string(got.Structured) != `{"evicted":true,"code_retired":null,"session_status":"active"}` {
		t.Errorf("evict: %s", got.Structured)
	}
	// A code minted since is retired by a repeat, once.
	code := a.Invite(t, "")
	for i, want := range []string{`"peer_b"`, `null`} {
		got = a.OK(t, bellman.ToolEvict, b.Ref(), nil)
		if !strings.Contains(string(got.Structured), `"code_retired":`+want) {
			t.Errorf("repeat %d: %s, want %s", i, got.Structured, want)
		}
	}
	s.As(hubtest.Peer).Refused(t, bellman.ToolConnect, args{"join_code": code}, "not found")
	c := s.As(hubtest.Peer).Join(t, a.Invite(t, ""))
	a.OK(t, bellman.ToolLeave, a.Ref(), nil)
	got = a.OK(t, bellman.ToolEvict, c.Ref(), nil)
	if !strings.Contains(string(got.Structured), `"session_status":"closed"`) {
		t.Errorf("removing the last one: %s, want closed", got.Structured)
	}
}

// A removed member reads up to its removal and no further, never waits, and
// is told; case 45: nobody is told where the cut is.
func TestEvictedReadsToTheCut(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	a.Say(t, "before")
	a.OK(t, bellman.ToolEvict, b.Ref(), nil)
	c := s.As(hubtest.Peer).Join(t, a.Invite(t, ""))
	a.Say(t, "after")
	start := time.Now()
	got := b.Sync(t, b.Cursor, args{"wait_seconds": 25})
	if !got.Removed || !slices.Equal(got.Types(), []string{"message", "member_evicted"}) {
		t.Errorf("removed %t, events %v", got.Removed, got.Types())
	}
	past := b.Sync(t, got.Cursor, args{"wait_seconds": 25})
	if !past.Removed || len(past.Events) != 0 || past.Cursor != got.Cursor {
		t.Errorf("past the cut: %+v", past)
	}
	if time.Since(start) > 20*time.Second {
		t.Error("a removed member's poll waited")
	}
	if fresh := c.Sync(t, c.Cursor); fresh.Removed || len(fresh.Events) != 1 {
		t.Errorf("the new seat: %+v, want the one message", fresh)
	}
	if roster := a.OK(t, bellman.ToolRooms, args{}, nil); strings.Contains(roster.Text, "cut") {
		t.Error("the roster speaks of a cut")
	}
}

// Case 46: leaving is told to the others, is harmless twice, and the last one
// closes the room.
func TestLeave(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	for range 2 {
		if got := b.OK(t, bellman.ToolLeave, b.Ref(), nil); string(got.Structured) != `{"left":true,"session_status":"active"}` {
			t.Errorf("leave: %s", got.Structured)
		}
	}
	if got := a.Sync(t, b.Cursor); !slices.Equal(got.Types(), []string{"member_left"}) {
		t.Errorf("events %v, want one member_left", got.Types())
	}
	if got := a.OK(t, bellman.ToolLeave, a.Ref(), nil); !strings.Contains(string(got.Structured), "closed") {
		t.Errorf("the last one's leave: %s, want closed", got.Structured)
	}
	if got := b.Sync(t, 0); got.SessionStatus != "closed" || got.Removed || len(got.Events) == 0 {
		t.Errorf("reading on: %+v, want the history, closed", got)
	}
	a.Refused(t, bellman.ToolSend, sending(a, "message", args{"text": "x"}), "closed")
	s.As(hubtest.Outsider).Refused(t, bellman.ToolConnect, args{"join_code": a.Code}, "not found")
}

// A stale seat is kept until somebody needs it; then the longest quiet one
// goes, and is told.
func TestStaleSeatIsReclaimed(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	s.Clock.Advance(9 * time.Minute)
	a.Sync(t, 0)
	s.Clock.Advance(2 * time.Minute)
	// B was heard from 11 minutes ago, A two.
	code := a.Invite(t, "")
	c := s.As(hubtest.Outsider).Join(t, code)
	got := a.Sync(t, b.Cursor)
	if !slices.Equal(got.Types(), []string{"member_timed_out", "member_joined"}) {
		t.Fatalf("events %v", got.Types())
	}
	if e := got.Events[0].Data; !e.Removes(b.Member) || e.From.MemberID != "system" || e.From.Label != "peer@codenerd" {
		t.Errorf("timed out: %+v", e)
	}
	// Timed out is not removed: the history goes on.
	if read := b.Sync(t, 0); read.Removed || len(read.Events) == 0 {
		t.Errorf("the reclaimed member reads %+v", read)
	}
	b.Refused(t, bellman.ToolSend, sending(b, "message", args{"text": "x"}), "has left")
	c.Say(t, "here")
}

// Case 47: a person's rooms are listed from their own seats.
func TestRooms(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	type list struct {
		Rooms []struct {
			ID        string           `json:"session_id"`
			Member    string           `json:"your_member_id"`
			Codes     []map[string]any `json:"join_codes"`
			LastEvent *struct{ Type string }
		} `json:"rooms"`
	}
	rooms := func(c *hubtest.Client) list {
		t.Helper()
		var l list
		c.OK(t, bellman.ToolRooms, args{}, &l)
		return l
	}
	own := s.As(hubtest.Peer).Open(t, nil)
	got := rooms(s.As(hubtest.Peer)).Rooms
	if len(got) != 2 || got[0].ID != own.Room || got[1].ID != b.Room || got[1].Member != b.Member {
		t.Errorf("rooms of the peer: %+v, want its own first", got)
	}
	if got[0].Codes[0]["code"] != own.Code {
		t.Errorf("codes for an inviting seat: %v, want %s", got[0].Codes, own.Code)
	}
	a.OK(t, bellman.ToolEvict, b.Ref(), nil)
	a.Invite(t, "")
	c := s.As(hubtest.Peer).Join(t, rooms(a.Client).Rooms[0].Codes[0]["code"].(string))
	if got := rooms(s.As(hubtest.Peer)).Rooms; len(got) != 2 || got[1].Member != c.Member {
		t.Errorf("after joining again: %+v, want seat %s", got, c.Member)
	}
	c.OK(t, bellman.ToolLeave, c.Ref(), nil)
	own.OK(t, bellman.ToolLeave, own.Ref(), nil)
	if got := rooms(s.As(hubtest.Peer)).Rooms; len(got) != 0 {
		t.Errorf("after leaving everything: %+v", got)
	}
}

// A beat shows the latest note, wrapped as what a peer wrote.
func TestRoomsShowProgress(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	b.Send(t, "progress", args{"note": "first"})
	b.Send(t, "progress", args{"note": "second", "step": "2/3"})
	var l struct {
		Rooms []struct {
			Members []struct {
				ID   string `json:"member_id"`
				Beat struct {
					Note *bellman.Envelope[struct{ Note string }] `json:"note"`
				} `json:"beat"`
			} `json:"members"`
		} `json:"rooms"`
	}
	a.OK(t, bellman.ToolRooms, args{}, &l)
	for _, m := range l.Rooms[0].Members {
		note := m.Beat.Note
		switch {
		case m.ID == a.Member && note != nil:
			t.Errorf("a silent member has the note %+v", note)
		case m.ID == b.Member && (note == nil || note.Data.Note != "second" || note.Origin.MemberID != b.Member):
			t.Errorf("note %+v, want the second", note)
		}
	}
}

// The audit log is for administrators of a team, and holds no content.
func TestAudit(t *testing.T) {
	s := hubtest.Start(t)
	a, _ := pair(t, s)
	a.Say(t, "a secret word")
	var log struct {
		Org     string `json:"org_id"`
		Count   int    `json:"count"`
		Entries []struct{ Action, Actor string }
	}
	got := a.OK(t, bellman.ToolAudit, args{}, &log)
	actions := make([]string, len(log.Entries))
	for i, e := range log.Entries {
		actions[i] = e.Action
	}
	want := []string{"session_created", "connect_previewed", "brief_exchanged", "sent_message"}
	if log.Org != "org_codenerd" || log.Count != 4 || !slices.Equal(actions, want) {
		t.Errorf("audit: %s %d %v, want %v", log.Org, log.Count, actions, want)
	}
	if strings.Contains(got.Text, "secret word") {
		t.Error("the audit log holds what was said")
	}
	a.OK(t, bellman.ToolAudit, args{"limit": 1}, &log)
	if log.Count != 1 || log.Entries[0].Action != "sent_message" {
		t.Errorf("limit 1: %+v", log)
	}
	s.As(hubtest.Peer).Refused(t, bellman.ToolAudit, args{}, "team")
}
