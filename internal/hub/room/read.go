package room

import (
	"context"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// maxPage is how many events a page of the log holds.
const maxPage = 200

// Page is a piece of a room's log.
type Page struct {
	Events []bellman.Envelope[bellman.Event] `json:"events"`
	Cursor int64                             `json:"cursor"`
}

// Events returns the newest events, or with after at least 0 the ones that
// follow it, own ones included. Reading counts as nothing. See protocol.md 5.3.
func (h *House) Events(ctx context.Context, who account.Identity, id string, after int64) (Page, error) {
	p := Page{Events: []bellman.Envelope[bellman.Event]{}, Cursor: max(after, 0)}
	err := h.lookAs(ctx, who, id, func(s *state, mine []*member, _ *room, _ int64) error {
		end := s.last()
		if cut := cutOf(mine); cut > 0 {
			end = min(end, cut)
		}
		for _, e := range s.page(after, end) {
			p.Events = append(p.Events, bellman.Untrusted(e.From.MemberID, e.From.Label, e))
			p.Cursor = e.Cursor
		}
		return nil
	})
	return p, err
}

// page is the newest events up to end or, with after at least 0, those that
// follow it.
func (s *state) page(after, end int64) []bellman.Event {
	if after < 0 {
		after = max(0, end-maxPage)
	}
	return s.events[min(after, end):min(after+maxPage, end)]
}

// lookAs runs f for somebody who holds or held a seat in the room, or who
// administers the organization of a closed one; mine may be empty then.
// Strangers and unknown rooms get one answer.
func (h *House) lookAs(ctx context.Context, who account.Identity, id string, f func(s *state, mine []*member, r *room, now int64) error) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	r.look(func(s *state, now int64) {
		mine := s.handles(who.UserID)
		if len(mine) == 0 && (!s.closed() || !s.administers(who)) {
			err = errNotFound()
			return
		}
		err = f(s, mine, r, now)
	})
	return err
}

// Board returns the surface as one HTTP answer holds it.
func (h *House) Board(ctx context.Context, who account.Identity, id string) (Surface, error) {
	var board Surface
	err := h.lookAs(ctx, who, id, func(s *state, mine []*member, _ *room, _ int64) error {
		board = s.wholeSurface(cutOf(mine))
		return nil
	})
	return board, err
}

// Handle is one seat of the reader.
type Handle struct {
	MemberID string   `json:"member_id"`
	Role     string   `json:"room_role"`
	Verbs    []string `json:"verbs"`
	Active   bool     `json:"active"`
	Removed  bool     `json:"removed"`
}

// View is a room as its page shows it.
type View struct {
	ID      string         `json:"id"`
	Status  string         `json:"session_status"`
	Viewer  string         `json:"viewer"`
	Mine    bool           `json:"mine"`
	Closed  *string        `json:"closed_at"`
	Purge   *string        `json:"purge_at"`
	Preview Preview        `json:"preview"`
	Members []PublicMember `json:"members"`
	Handles []Handle       `json:"my_handles"`
}

// View describes a room to somebody who holds or held a seat in it.
func (h *House) View(ctx context.Context, who account.Identity, id string) (View, error) {
	var v View
	err := h.lookAs(ctx, who, id, func(s *state, mine []*member, r *room, now int64) error {
		v = View{
			ID: id, Status: s.status, Viewer: "member", Mine: s.charter.Creator == who.UserID,
			Closed: s.closedTime(), Purge: s.purgeTime(),
			Members: r.roster(s.members, now), Handles: []Handle{},
		}
		role := s.manifest().CreatorRole
		if len(mine) == 0 {
			v.Viewer = "admin"
		} else {
			role = speaking(mine).Role
		}
		v.Preview = s.preview(role)
		for _, m := range mine {
			held, _ := s.manifest().Role(m.Role)
			v.Handles = append(v.Handles, Handle{MemberID: m.ID, Role: m.Role, Verbs: held.Can, Active: m.left == 0, Removed: m.cut > 0})
		}
		return nil
	})
	return v, err
}

func (s *state) closedTime() *string {
	if s.closedAt == 0 {
		return nil
	}
	at := wireTime(s.closedAt)
	return &at
}

// purgeTime is when a closed room's record will be deleted, nil for never.
func (s *state) purgeTime() *string {
	if s.closedAt == 0 || s.charter.Keep == 0 {
		return nil
	}
	at := wireTime(s.closedAt + s.charter.Keep)
	return &at
}

// Line is one room of a list.
type Line struct {
	ID      string `json:"id"`
	Room    string `json:"room"`
	Mode    string `json:"mode"`
	Status  string `json:"status"`
	Members int    `json:"members"`
	Mine    bool   `json:"mine"`
}

// Lines lists the rooms the caller ever held a seat in, newest first, and
// whether there are more. With admin it is the closed rooms of the caller's
// organization, which the caller must administer.
func (h *House) Lines(ctx context.Context, who account.Identity, admin bool) (lines []Line, more bool, err error) {
	space, key := markEver, who.UserID
	if admin {
		space, key = markOrg, who.Org()
	}
	marks, err := h.log.Find(ctx, space, key, maxRooms+1)
	if err != nil {
		return nil, false, err
	}
	lines, more = []Line{}, len(marks) > maxRooms
	for _, m := range marks[:min(len(marks), maxRooms)] {
		r, leave, err := h.enter(ctx, m.Room)
		if asRefusal(err) != nil {
			continue // Purged since it was found.
		}
		if err != nil {
			return nil, false, err
		}
		r.look(func(s *state, _ int64) {
			lines = append(lines, Line{
				ID: r.id, Room: s.manifest().Room, Mode: s.manifest().Mode, Status: s.status,
				Members: len(s.seated()), Mine: s.charter.Creator == who.UserID,
			})
		})
		leave()
	}
	return lines, more, nil
}
