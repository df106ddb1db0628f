package room

import (
	"context"
	"errors"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// ErrRemoved reports that a creator removed every seat of the person who
// attends.
var ErrRemoved = errors.New("room: every seat was removed")

// stampAfter is how stale a member may be before a closing socket is worth a
// record.
const stampAfter = time.Minute

// Attendance is somebody listening to a room on a socket. While it is open it
// vouches for the presence of their seats.
type Attendance struct {
	house *House
	room  *room
	leave func()
	user  string
}

// Attend begins to listen. The refusals are those of a socket's handshake:
// NotFound, Forbidden or Closed. The caller must call Close. See protocol.md 6.1.
func (h *House) Attend(ctx context.Context, who account.Identity, id string) (*Attendance, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return nil, err
	}
	if err := r.seatSocket(who.UserID); err != nil {
		leave()
		return nil, err
	}
	return &Attendance{house: h, room: r, leave: leave, user: who.UserID}, nil
}

// seatSocket counts a socket of the user, or says why there may be none.
func (r *room) seatSocket(user string) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	mine := r.state.handles(user)
	uncut := len(mine) > 0 && cutOf(mine) == 0
	switch {
	case !uncut && r.state.closed():
		return errNotFound()
	case !uncut:
		return refuse(Forbidden, "you hold no seat in this session")
	case r.state.closed():
		return errClosed()
	}
	r.sockets[user]++
	return nil
}

// Next blocks until there are events after a cursor and returns them, the
// listener's own among them. It returns ErrRemoved after the last event a
// removed listener may see, and ctx's error when that ends.
func (a *Attendance) Next(ctx context.Context, since int64) ([]bellman.Event, error) {
	for {
		var events []bellman.Event
		var position int64
		removed := false
		a.room.look(func(s *state, _ int64) {
			position = s.position
			end := s.last()
			if cut := cutOf(s.handles(a.user)); cut > 0 {
				end, removed = min(end, cut), true
			}
			if since < end {
				events = s.events[since:end:end]
			}
		})
		switch {
		case len(events) > 0:
			return events, nil
		case removed:
			return nil, ErrRemoved
		}
		position, err := a.house.log.Watch(ctx, a.room.id, position)
		if err != nil {
			return nil, err
		}
		if err := a.room.reachTo(ctx, position); err != nil {
			return nil, err
		}
	}
}

// Gone is closed when the room's record was deleted.
func (a *Attendance) Gone() <-chan struct{} { return a.room.gone }

// Close ends the attendance. The seats it vouched for count as heard from
// now.
func (a *Attendance) Close(ctx context.Context) error {
	defer a.leave()
	a.room.mu.Lock()
	if a.room.sockets[a.user]--; a.room.sockets[a.user] == 0 {
		delete(a.room.sockets, a.user)
	}
	a.room.mu.Unlock()
	if a.room.purged() {
		return nil
	}
	return a.room.change(ctx, func(s *state, now int64) (*record, error) {
		rec := &record{At: now}
		if s.status != StatusActive {
			return rec, nil
		}
		for _, m := range s.handles(a.user) {
			if m.left == 0 && now-m.seen >= stampAfter.Milliseconds() {
				rec.Seen = append(rec.Seen, m.ID)
			}
		}
		return rec, nil
	})
}
