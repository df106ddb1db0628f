package room

import (
	"context"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// Leave gives up a seat and returns the room's status after it. It works in
// any room, and again on a seat already left. See protocol.md 1.9.
func (h *House) Leave(ctx context.Context, who account.Identity, id, handle string) (string, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return "", err
	}
	defer leave()
	status := ""
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		m, err := s.own(who.UserID, handle)
		if err != nil {
			return nil, err
		}
		status = s.status
		if m.left != 0 {
			return nil, nil
		}
		rec := &record{At: now, Depart: []departure{{Member: m.ID, How: byLeaving}}}
		if _, err := rec.say(s, typeLeft, m.sender(), map[string]any{"label": m.Label}, nil); err != nil {
			return nil, err
		}
		// A frozen room stays frozen: it thaws or is purged, but its end is
		// not decided while nobody can come back.
		if status == StatusActive {
			endIfEmpty(s, rec)
			if rec.Status != "" {
				status = rec.Status
			}
		}
		rec.note(s, who, "member_left", struct{}{})
		return rec, nil
	})
	return status, err
}

// Eviction is what an eviction did.
type Eviction struct {
	Evicted     bool    `json:"evicted"`
	CodeRetired *string `json:"code_retired"`
	Status      string  `json:"session_status"`
}

// Evict removes somebody else's seat from a room the caller created, in one
// step with the role's live code. See protocol.md 1.10.
func (h *House) Evict(ctx context.Context, who account.Identity, id, target string) (Eviction, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return Eviction{}, err
	}
	defer leave()
	ev := Eviction{Evicted: true}
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		m, err := s.evictable(who, target)
		if err != nil {
			return nil, err
		}
		ev.Status, ev.CodeRetired = s.status, nil
		rec := &record{At: now}
		label := s.creator().Label
		if m.left == 0 {
			cut, err := rec.say(s, bellman.TypeMemberEvicted, system(label), map[string]any{
				"member_id": m.ID, "label": m.Label, "room_role": m.Role,
			}, nil)
			if err != nil {
				return nil, err
			}
			rec.Depart = []departure{{Member: m.ID, How: byEviction, Cut: cut}}
			rec.note(s, who, "member_evicted", map[string]any{"member_id": m.ID, "user_id": m.User, "room_role": m.Role}, m)
			endIfEmpty(s, rec)
			if rec.Status != "" {
				ev.Status = rec.Status
			}
		}
		if c, ok := s.codes[m.Role]; ok && now < c.Expires {
			ev.CodeRetired = &c.Role
			rec.Retire = []string{c.Role}
			if _, err := rec.say(s, typeRevoked, system(label), map[string]any{"roles": rec.Retire}, nil); err != nil {
				return nil, err
			}
			rec.note(s, who, "invite_revoked", map[string]any{"roles": rec.Retire})
		}
		return rec, nil
	})
	return ev, err
}

// evictable returns the member to remove, or why the caller may not.
func (s *state) evictable(who account.Identity, target string) (*member, error) {
	if who.UserID != s.charter.Creator {
		return nil, refuse(Forbidden, "only the person who created this room can remove a member")
	}
	m := s.member(target)
	switch {
	case m == nil:
		return nil, refuse(NotFound, "no such member %q in this room", target)
	case m.User == who.UserID:
		return nil, refuse(Invalid, "that is yourself: leave the room instead")
	case s.status == StatusClosed:
		return nil, errClosed()
	case s.status == StatusFrozen:
		return nil, errFrozen()
	}
	return m, nil
}
