package room

import (
	"context"
	"errors"
	"fmt"
	"time"

	"bellman.sh/desktop/internal/hub/account"
)

// abandonedAfter is how long nobody may have been seen in a room that is
// still open.
const abandonedAfter = 90 * 24 * time.Hour

// Sweep closes abandoned rooms, removes the blobs that closed rooms no longer
// show, and deletes the records whose time has passed. A room that fails keeps
// no other waiting; its error is among those returned. See protocol.md 4.6.
func (h *House) Sweep(ctx context.Context) error {
	return errors.Join(h.sweepEach(ctx, markOpen, h.sweepOpen), h.sweepEach(ctx, markClosed, h.sweepClosed))
}

// sweepEach sweeps every room that has a mark.
func (h *House) sweepEach(ctx context.Context, space string, sweep func(ctx context.Context, id string) error) error {
	marks, err := h.log.Find(ctx, space, "", 0)
	if err != nil {
		return err
	}
	var errs []error
	for _, m := range marks {
		// What is refused was purged since it was found.
		if err := sweep(ctx, m.Room); err != nil && asRefusal(err) == nil {
			errs = append(errs, err)
		}
		if ctx.Err() != nil {
			break
		}
	}
	return errors.Join(errs...)
}

func (h *House) sweepOpen(ctx context.Context, id string) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return r.change(ctx, func(s *state, now int64) (*record, error) {
		rec := &record{At: now}
		if s.status != StatusActive || len(r.sockets) > 0 {
			return rec, nil
		}
		last := s.openedAt
		for _, m := range s.seated() {
			last = max(last, m.seen)
		}
		if now-last <= abandonedAfter.Milliseconds() {
			return rec, nil
		}
		return rec, s.expire(rec, last)
	})
}

func (h *House) sweepClosed(ctx context.Context, id string) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	due := false
	r.look(func(s *state, now int64) {
		due = s.charter.Keep > 0 && s.closedAt > 0 && now >= s.closedAt+s.charter.Keep
	})
	if due {
		return r.purge(ctx, account.Identity{Label: "bellman"}, "room_purged")
	}
	return r.dropBlobs(ctx)
}

// dropBlobs removes the files no item of a closed room names. They are
// forgotten first: a file without a record is only lost space.
func (r *room) dropBlobs(ctx context.Context) error {
	var dropped []string
	err := r.change(ctx, func(s *state, now int64) (*record, error) {
		dropped = nil
		shown := map[string]bool{}
		for _, i := range s.surface {
			if i.Blob != nil {
				shown[i.Blob.ID] = true
			}
		}
		for id := range s.blobs {
			if !shown[id] {
				dropped = append(dropped, id)
			}
		}
		return &record{At: now, Drop: dropped}, nil
	})
	if err != nil {
		return err
	}
	return r.discard(dropped)
}

func (r *room) discard(blobs []string) error {
	for _, id := range blobs {
		if err := r.house.discard(id); err != nil {
			return fmt.Errorf("discard blob: %w", err)
		}
	}
	return nil
}

// purge deletes a closed room's record and files. Its audit rows stay.
func (r *room) purge(ctx context.Context, who account.Identity, action string) error {
	var blobs []string
	err := r.change(ctx, func(s *state, now int64) (*record, error) {
		blobs = nil
		for id := range s.blobs {
			blobs = append(blobs, id)
		}
		rec := &record{At: now}
		rec.note(s, who, action, struct{}{})
		return rec, nil
	})
	if err != nil {
		return err
	}
	if err := r.house.log.Forget(ctx, r.id, markAudit); err != nil {
		return err
	}
	r.house.evict(r)
	return r.discard(blobs)
}

// evict takes a purged room out of the house, so that whoever comes next
// finds nothing.
func (h *House) evict(r *room) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.rooms[r.id] == r {
		h.dropLocked(r)
		close(r.gone)
	}
}

// Delete purges a closed room at once, for its creator or an administrator of
// its organization. See protocol.md 5.3.
func (h *House) Delete(ctx context.Context, who account.Identity, id string) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	r.look(func(s *state, _ int64) {
		switch {
		case s.charter.Creator == who.UserID || s.closed() && s.administers(who):
			if !s.closed() {
				err = refuse(Conflict, "the room is not closed: everybody must have left it first")
			}
		case len(s.handles(who.UserID)) > 0:
			err = refuse(Forbidden, "only the person who created this room can delete it")
		default:
			err = errNotFound()
		}
	})
	if err != nil {
		return err
	}
	return r.purge(ctx, who, "room_deleted")
}

// Unpublish makes a public room private for good; for its creator.
func (h *House) Unpublish(ctx context.Context, who account.Identity, id string) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return r.change(ctx, func(s *state, now int64) (*record, error) {
		switch {
		case len(s.handles(who.UserID)) == 0:
			return nil, errNotFound()
		case s.charter.Creator != who.UserID:
			return nil, refuse(Forbidden, "only the person who created this room can unpublish it")
		case !s.public:
			return nil, nil
		}
		private := false
		return &record{At: now, Public: &private}, nil
	})
}

// Verify folds every room from its log and shows each of its blobs to blob.
// It returns how many rooms there are, and the first thing that is wrong.
func (h *House) Verify(ctx context.Context, blob func(b Blob) error) (int, error) {
	rooms := 0
	for _, space := range []string{markOpen, markClosed} {
		marks, err := h.log.Find(ctx, space, "", 0)
		if err != nil {
			return rooms, err
		}
		for _, m := range marks {
			if err := h.verifyRoom(ctx, m.Room, blob); err != nil {
				return rooms, err
			}
			rooms++
		}
	}
	return rooms, nil
}

func (h *House) verifyRoom(ctx context.Context, id string, blob func(b Blob) error) error {
	r, leave, err := h.enter(ctx, id)
	if asRefusal(err) != nil {
		return fmt.Errorf("room %s has no log", id)
	}
	if err != nil {
		return err
	}
	defer leave()
	var blobs []Blob
	r.look(func(s *state, _ int64) {
		for i, e := range s.events {
			if e.Cursor != int64(i)+1 {
				err = fmt.Errorf("room %s: event %d has cursor %d", id, i+1, e.Cursor)
				return
			}
		}
		for _, b := range s.blobs {
			blobs = append(blobs, b)
		}
	})
	if err != nil {
		return err
	}
	for _, b := range blobs {
		if err := blob(b); err != nil {
			return fmt.Errorf("room %s: %w", id, err)
		}
	}
	return nil
}
