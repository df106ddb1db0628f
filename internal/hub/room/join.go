package room

import (
	"context"
	"slices"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// Visit is a room seen through a join code. SessionID and Role are what the
// caller must remember to take the seat; the visitor is not shown the first.
type Visit struct {
	SessionID, Role string
	Session         VisitSession
	Room            Preview
	CreatorBrief    bellman.Envelope[Brief]
	Surface         SurfaceIndex
}

// VisitSession is how full a room is, and who may come.
type VisitSession struct {
	Mode          string `json:"mode"`
	ActiveMembers int    `json:"active_members"`
	MaxMembers    int    `json:"max_members"`
	OrgOnly       bool   `json:"org_only"`
}

// SurfaceIndex lists what is on a surface without any of its prose.
type SurfaceIndex struct {
	Cursor int64       `json:"cursor"`
	Items  []IndexItem `json:"items"`
}

// IndexItem is one line of a SurfaceIndex.
type IndexItem struct {
	Key    string         `json:"key"`
	Kind   string         `json:"kind"`
	Chars  int            `json:"chars"`
	Cursor int64          `json:"cursor"`
	At     string         `json:"at"`
	By     bellman.Sender `json:"by"`
}

// Visit previews the room a code opens. Nothing about the visitor reaches the
// room, and the code stays good. See protocol.md 1.2.
func (h *House) Visit(ctx context.Context, who account.Identity, code string) (Visit, error) {
	r, leave, role, err := h.resolve(ctx, code)
	if err != nil {
		return Visit{}, err
	}
	defer leave()
	var v Visit
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		if s.charter.OrgOnly && who.Org() != s.charter.Org {
			return nil, refuse(Forbidden, "this session admits only people of the organization that created it")
		}
		seats := s.manifest().Seats()
		if r.presentCount(s, now) >= seats {
			return nil, refuse(Conflict, "this session is full (%d members)", seats)
		}
		creator := s.creator()
		v = Visit{
			SessionID: r.id, Role: role,
			Session: VisitSession{
				Mode: s.manifest().Mode, ActiveMembers: len(s.seated()), MaxMembers: seats, OrgOnly: s.charter.OrgOnly,
			},
			Room:         s.preview(role),
			CreatorBrief: untrusted(creator, creator.Brief),
			Surface:      s.surfaceIndex(),
		}
		rec := &record{At: now}
		rec.note(s, who, "connect_previewed", struct{}{})
		return rec, nil
	})
	return v, err
}

// Joined is what somebody who takes a seat is told.
type Joined struct {
	SessionID string                    `json:"session_id"`
	MemberID  string                    `json:"member_id"`
	Cursor    int64                     `json:"cursor"`
	Members   []PublicMember            `json:"members"`
	Room      Preview                   `json:"room"`
	Briefs    []bellman.Envelope[Brief] `json:"briefs"`
	Surface   Surface                   `json:"surface"`
}

// Join seats the caller in a role previewed before, reclaiming one stale seat
// when no other is free. See protocol.md 1.3.
func (h *House) Join(ctx context.Context, who account.Identity, id, role string, brief Brief, capabilities []string) (Joined, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return Joined{}, err
	}
	defer leave()
	var seat string
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		switch s.status {
		case StatusClosed:
			return nil, errClosed()
		case StatusFrozen:
			return nil, errFrozen()
		}
		m := &member{
			ID: newHandle(s), User: who.UserID, Label: who.Label, Org: who.OrgID, Role: role, Capabilities: capabilities, Brief: brief,
		}
		seat = m.ID
		return r.seat(s, who, m, now)
	})
	if err != nil {
		return Joined{}, err
	}
	var j Joined
	r.look(func(s *state, now int64) { j = r.welcome(s, seat, now) })
	return j, nil
}

// seat records m taking a seat, and everything that follows from it.
func (r *room) seat(s *state, who account.Identity, m *member, now int64) (*record, error) {
	rec := &record{At: now, Seat: m}
	taken, seats := len(s.seated()), s.manifest().Seats()
	var out *member
	if taken >= seats {
		if out = r.reclaimable(s, now); out == nil {
			return nil, refuse(Conflict, "the session filled while you were confirming: it is full (%d members)", seats)
		}
		rec.Depart = []departure{{Member: out.ID, How: byTimeout}}
		taken--
		if _, err := rec.say(s, bellman.TypeMemberTimedOut, system(out.Label), map[string]any{
			"member_id": out.ID, "label": out.Label, "room_role": out.Role, "last_seen_at": wireTime(out.seen),
		}, nil); err != nil {
			return nil, err
		}
		rec.note(s, who, "member_timed_out", map[string]any{
			"member_id": out.ID, "user_id": out.User, "room_role": out.Role, "last_seen_at": wireTime(out.seen), "seat_taken_by": m.ID,
		}, out)
	}
	if taken+1 >= seats && !r.leavesRoom(s, out, now) {
		for _, c := range s.liveCodes(now) {
			rec.Retire = append(rec.Retire, c.Role)
		}
	}
	if _, err := rec.say(s, typeJoined, m.sender(), map[string]any{"member": m.stored(), "brief": m.Brief}, nil); err != nil {
		return nil, err
	}
	rec.note(s, who, "brief_exchanged", map[string]any{"joiner": m.Label, "agent": m.Brief.Agent})
	return rec, nil
}

// leavesRoom reports whether a full room would still have a seat to reclaim,
// besides the one that is being reclaimed.
func (r *room) leavesRoom(s *state, out *member, now int64) bool {
	for _, m := range s.seated() {
		if m != out && r.presence(m, now) == Stale {
			return true
		}
	}
	return false
}

func (r *room) welcome(s *state, seat string, now int64) Joined {
	m := s.member(seat)
	j := Joined{
		SessionID: r.id, MemberID: seat, Cursor: s.joinedCursor(seat), Members: r.roster(s.members, now),
		Room: s.preview(m.Role), Briefs: []bellman.Envelope[Brief]{}, Surface: s.wholeSurface(0),
	}
	for _, other := range s.members {
		if other.ID != seat {
			j.Briefs = append(j.Briefs, untrusted(other, other.Brief))
		}
	}
	return j
}

// joinedCursor is the cursor of a member's own joining, looked for from the
// end because it has just happened.
func (s *state) joinedCursor(seat string) int64 {
	for _, e := range slices.Backward(s.events) {
		if e.Type == typeJoined && e.From.MemberID == seat {
			return e.Cursor
		}
	}
	return 0
}
