package hubtest

import (
	"maps"
	"testing"

	"bellman.sh/desktop/internal/bellman"
)

// Args are the arguments of a call.
type Args map[string]any

// With returns the arguments with more of them.
func (a Args) With(more Args) Args {
	sum := Args{}
	for _, args := range []Args{a, more} {
		maps.Copy(sum, args)
	}
	return sum
}

// Brief is a whole brief with this goal.
func Brief(goal string) Args {
	return Args{
		"goal": goal, "state": "under way",
		"agent": Args{"provider": "example", "model": "m-1", "client": "hubtest"},
	}
}

// Seat is a member of a room, and how to act as it.
type Seat struct {
	*Client
	Room, Member string
	Code         string // the first join code, for who opened the room
	Cursor       int64  // of its joining
}

// Ref names the seat in the arguments of a call.
func (s *Seat) Ref() Args { return Args{"session_id": s.Room, "member_id": s.Member} }

// Open starts a room with a manifest, by default a pair.
func (c *Client) Open(tb testing.TB, manifest Args, more ...Args) *Seat {
	tb.Helper()
	if manifest == nil {
		manifest = Args{"room": "workbench", "preset": "pair"}
	}
	args := Args{"manifest": manifest, "brief": Brief("open")}
	for _, m := range more {
		args = args.With(m)
	}
	var r struct {
		SessionID string `json:"session_id"`
		MemberID  string `json:"member_id"`
		Code      string `json:"join_code"`
	}
	c.OK(tb, bellman.ToolStart, args, &r)
	return &Seat{Client: c, Room: r.SessionID, Member: r.MemberID, Code: r.Code}
}

// Join takes a seat with a code.
func (c *Client) Join(tb testing.TB, code string, more ...Args) *Seat {
	tb.Helper()
	var p struct {
		Token string `json:"connect_token"`
	}
	c.OK(tb, bellman.ToolConnect, Args{"join_code": code}, &p)
	return c.Confirm(tb, p.Token, more...)
}

// Confirm takes a seat with a connect token.
func (c *Client) Confirm(tb testing.TB, token string, more ...Args) *Seat {
	tb.Helper()
	args := Args{"connect_token": token, "brief": Brief("join")}
	for _, m := range more {
		args = args.With(m)
	}
	var r struct {
		SessionID string `json:"session_id"`
		MemberID  string `json:"member_id"`
		Cursor    int64  `json:"cursor"`
	}
	c.OK(tb, bellman.ToolConfirm, args, &r)
	return &Seat{Client: c, Room: r.SessionID, Member: r.MemberID, Cursor: r.Cursor}
}

// Invite issues a code for a role, for the default one when it is empty.
func (s *Seat) Invite(tb testing.TB, role string) string {
	tb.Helper()
	var r struct {
		Code string `json:"join_code"`
	}
	args := s.Ref()
	if role != "" {
		args["role"] = role
	}
	s.OK(tb, bellman.ToolInvite, args, &r)
	return r.Code
}

// Send sends something and returns its cursor.
func (s *Seat) Send(tb testing.TB, kind string, payload Args, more ...Args) int64 {
	tb.Helper()
	args := s.Ref().With(Args{"type": kind, "payload": payload})
	for _, m := range more {
		args = args.With(m)
	}
	var r struct {
		Cursor int64 `json:"cursor"`
	}
	s.OK(tb, bellman.ToolSend, args, &r)
	return r.Cursor
}

// Say sends a message.
func (s *Seat) Say(tb testing.TB, text string) int64 {
	tb.Helper()
	return s.Send(tb, "message", Args{"text": text})
}

// Outstanding is one entry of the list of requests that wait.
type Outstanding struct {
	Cursor     int64  `json:"cursor"`
	From       string `json:"from_member_id"`
	Mine       bool   `json:"mine"`
	AgeSeconds int    `json:"age_seconds"`
	ExpiresAt  string `json:"expires_at"`
}

// Synced is the answer to a sync.
type Synced struct {
	bellman.SyncResult
	SurfaceCursor *int64 `json:"surface_cursor"`
	Surface       *struct {
		Cursor int64 `json:"cursor"`
		Items  []struct {
			Data map[string]any `json:"data"`
		} `json:"items"`
	} `json:"surface"`
	Outstanding []Outstanding `json:"outstanding"`
}

// Types lists the types of the events, in order.
func (s Synced) Types() []string {
	types := make([]string, len(s.Events))
	for i, e := range s.Events {
		types[i] = e.Data.Type
	}
	return types
}

// Sync fetches what happened after a cursor.
func (s *Seat) Sync(tb testing.TB, since int64, more ...Args) Synced {
	tb.Helper()
	args := s.Ref().With(Args{"since_cursor": since})
	for _, m := range more {
		args = args.With(m)
	}
	var r Synced
	s.OK(tb, bellman.ToolSync, args, &r)
	return r
}
