package room

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/journal"
	"bellman.sh/desktop/internal/hub/manifest"
)

// maxRooms is how many rooms a list holds.
const maxRooms = 50

// notesFrom is how many of the newest events are looked at for progress notes.
const notesFrom = 100

// Listed is a room in which the caller holds a seat. See protocol.md 1.7.
type Listed struct {
	SessionID string         `json:"session_id"`
	Status    string         `json:"status"`
	Max       int            `json:"max_members"`
	Active    int            `json:"active_members"`
	MemberID  string         `json:"your_member_id"`
	Room      Preview        `json:"room"`
	Members   []ListedMember `json:"members"`
	Codes     []ListedCode   `json:"join_codes"`
	LastEvent *LastEvent     `json:"last_event"`
}

// ListedMember is a member and how it has been reporting.
type ListedMember struct {
	PublicMember
	Beat Beat `json:"beat"`
}

// Beat is a member's progress reports.
type Beat struct {
	Asked        bool                               `json:"asked"`
	LastReportAt *string                            `json:"last_report_at"`
	SilentFor    int64                              `json:"silent_for_seconds"`
	Silent       bool                               `json:"silent"`
	Note         *bellman.Envelope[json.RawMessage] `json:"note"`
}

// ListedCode is a live join code; the code itself is for seats that invite.
type ListedCode struct {
	Role      string `json:"role"`
	ExpiresAt string `json:"expires_at"`
	Code      string `json:"code,omitempty"`
	URL       string `json:"join_url,omitempty"`
}

// LastEvent is a room's newest event.
type LastEvent struct {
	Cursor int64  `json:"cursor"`
	Type   string `json:"type"`
	At     string `json:"at"`
}

// Rooms lists the open and frozen rooms in which the caller holds a seat,
// created ones first, then newest first. Looking counts as nothing.
func (h *House) Rooms(ctx context.Context, who account.Identity) ([]Listed, error) {
	marks, err := h.log.Find(ctx, markSeat, who.UserID, 0)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(marks, func(a, b journal.Mark) int { return bytes.Compare(b.Body, a.Body) })
	rooms := []Listed{}
	for _, m := range marks {
		if len(rooms) == maxRooms {
			break
		}
		r, leave, err := h.enter(ctx, m.Room)
		if asRefusal(err) != nil {
			continue // Purged since it was found.
		}
		if err != nil {
			return nil, err
		}
		r.look(func(s *state, now int64) {
			if l, ok := r.listed(s, who, now); ok {
				rooms = append(rooms, l)
			}
		})
		leave()
	}
	return rooms, nil
}

func (r *room) listed(s *state, who account.Identity, now int64) (Listed, bool) {
	var me *member
	for _, m := range s.handles(who.UserID) {
		if m.left == 0 {
			me = m // The newest seat speaks.
		}
	}
	if me == nil || s.closed() {
		return Listed{}, false
	}
	seated := s.seated()
	l := Listed{
		SessionID: r.id, Status: s.status, Max: s.manifest().Seats(), Active: len(seated), MemberID: me.ID,
		Room: s.preview(me.Role), Members: make([]ListedMember, len(seated)), Codes: []ListedCode{},
	}
	for i, m := range r.roster(seated, now) {
		l.Members[i] = ListedMember{PublicMember: m, Beat: s.beat(seated[i], now)}
	}
	for _, c := range s.liveCodes(now) {
		shown := ListedCode{Role: c.Role, ExpiresAt: wireTime(c.Expires)}
		if s.manifest().Can(me.Role, manifest.Invite) {
			shown.Code, shown.URL = c.Code, JoinURL(c.Code)
		}
		l.Codes = append(l.Codes, shown)
	}
	if n := len(s.events); n > 0 {
		e := s.events[n-1]
		l.LastEvent = &LastEvent{Cursor: e.Cursor, Type: e.Type, At: e.At}
	}
	return l, true
}

// beat says how a member has been reporting: since its last progress, or
// since it came.
func (s *state) beat(m *member, now int64) Beat {
	b := Beat{Asked: s.manifest().Reports(m.Role), SilentFor: max(0, now-m.reported) / 1000}
	b.Silent = b.Asked && now-m.reported >= 2*s.manifest().Heartbeat.Milliseconds()
	if m.reported > m.joined {
		at := wireTime(m.reported)
		b.LastReportAt = &at
	}
	for _, e := range slices.Backward(s.events[max(0, len(s.events)-notesFrom):]) {
		if e.Type == TypeProgress && e.From.MemberID == m.ID {
			note := untrusted(m, e.Payload)
			b.Note = &note
			break
		}
	}
	return b
}
