package room

import (
	"context"
	"encoding/json"
	"strconv"

	"bellman.sh/desktop/internal/bellman"
)

// PublicFront is what anybody may know of a public room.
type PublicFront struct {
	ID     string                       `json:"id"`
	Status string                       `json:"status"`
	Closed *string                      `json:"closed_at"`
	Mode   string                       `json:"mode"`
	Text   bellman.Envelope[PublicText] `json:"text"`
}

// PublicText is the prose of a public room's creator.
type PublicText struct {
	Room    string  `json:"room"`
	Purpose *string `json:"purpose"`
}

// lookPublic runs f on a room that is public; any other is not found.
func (h *House) lookPublic(ctx context.Context, id string, f func(s *state) error) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	r.look(func(s *state, _ int64) {
		if err = errNotFound(); s.public {
			err = f(s)
		}
	})
	return err
}

// PublicFront describes a public room.
func (h *House) PublicFront(ctx context.Context, id string) (PublicFront, error) {
	var front PublicFront
	err := h.lookPublic(ctx, id, func(s *state) error {
		front = PublicFront{
			ID: id, Status: s.status, Closed: s.closedTime(), Mode: s.manifest().Mode,
			Text: bellman.Untrusted(s.creator().ID, s.alias(s.creator().ID), PublicText{s.manifest().Room, s.manifest().Purpose}),
		}
		return nil
	})
	return front, err
}

// PublicBoard is the surface of a public room.
func (h *House) PublicBoard(ctx context.Context, id string) (Surface, error) {
	var board Surface
	err := h.lookPublic(ctx, id, func(s *state) error {
		board = s.wholeSurface(0)
		for i := range board.Items {
			board.Items[i].Origin.Label = s.alias(board.Items[i].Origin.MemberID)
		}
		return nil
	})
	return board, err
}

// PublicEvents is the log of a public room as strangers may read it: no
// briefs, and nobody's name.
func (h *House) PublicEvents(ctx context.Context, id string, after int64) (Page, error) {
	p := Page{Events: []bellman.Envelope[bellman.Event]{}, Cursor: max(after, 0)}
	err := h.lookPublic(ctx, id, func(s *state) error {
		for _, e := range s.page(after, s.last()) {
			p.Cursor = e.Cursor
			shown, ok, err := s.publicEvent(e)
			if err != nil {
				return err
			}
			if ok {
				p.Events = append(p.Events, bellman.Untrusted(shown.From.MemberID, shown.From.Label, shown))
			}
		}
		return nil
	})
	return p, err
}

// alias is what strangers see in place of a member's label.
func (s *state) alias(handle string) string {
	for i, m := range s.members {
		if m.ID == handle {
			return "member " + strconv.Itoa(i+1)
		}
	}
	return "bellman"
}

// publicEvent is an event without names and briefs, and whether it is shown
// at all. What the service wrote about a member names it by its handle.
func (s *state) publicEvent(e bellman.Event) (bellman.Event, bool, error) {
	e.From.Label = s.alias(e.From.MemberID)
	var payload any
	switch e.Type {
	case TypeBriefUpdate:
		return e, false, nil
	case typeJoined:
		m := s.member(e.From.MemberID)
		payload = map[string]any{"member": map[string]any{"member_id": m.ID, "label": e.From.Label, "room_role": m.Role}}
	case typeLeft:
		payload = map[string]any{"label": e.From.Label}
	case bellman.TypeMemberEvicted, bellman.TypeMemberTimedOut:
		var about struct {
			MemberID string `json:"member_id"`
		}
		if err := json.Unmarshal(e.Payload, &about); err != nil {
			return e, false, nil //nolint:nilerr // What cannot be read cannot be made nameless.
		}
		payload = map[string]any{"member_id": about.MemberID, "label": s.alias(about.MemberID)}
	case typeHeartbeat:
		payload = map[string]any{}
	default:
		return e, true, nil
	}
	body, err := encode(payload)
	e.Payload = body
	return e, err == nil, err
}

// PublicBlob is a file of a public room that its surface shows.
func (h *House) PublicBlob(ctx context.Context, id, blobID string) (Blob, error) {
	var b Blob
	err := h.lookPublic(ctx, id, func(s *state) error {
		for _, i := range s.surface {
			if i.Blob != nil && i.Blob.ID == blobID {
				b = s.blobs[blobID]
				return nil
			}
		}
		return errNotFound()
	})
	return b, err
}
