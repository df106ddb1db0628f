package queue

import (
	"context"
	"fmt"
)

// Lease is the right to watch one room for one identity. It is lost when its
// owner is taken for dead; Put then returns ErrStale.
type Lease struct {
	Identity Identity
	Room     string
	Epoch    int64 // grows with every lease of the room

	room  int64
	owner int64
}

// Lease takes the room's lease for this process. It returns ErrHeld when a
// living owner has it, this process included; Changed signals when it may be
// free.
func (q *Queue) Lease(ctx context.Context, id Identity, room string) (Lease, error) {
	l := Lease{Identity: id, Room: room}
	err := q.own(ctx, func(ctx context.Context, c *conn, self int64) error {
		var err error
		if l.room, _, err = ensureRoom(ctx, c, id, room); err != nil {
			return err
		}
		l.owner = self
		ok, err := c.get(ctx, `update room set owner = ?, epoch = epoch + 1, state = '' where id = ?
			and owner is null returning epoch`, []any{self, l.room}, &l.Epoch)
		if err != nil {
			return err
		}
		if !ok {
			return ErrHeld
		}
		return revise(ctx, c)
	})
	if err != nil {
		return Lease{}, fmt.Errorf("lease room %s: %w", room, err)
	}
	return l, nil
}

// Unlease gives the lease up. One that is stale is left alone.
func (q *Queue) Unlease(ctx context.Context, l Lease) error {
	err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
		n, err := c.exec(ctx, "update room set owner = null where id = ? and owner = ? and epoch = ?", l.room, l.owner, l.Epoch)
		if err != nil || n == 0 {
			return err
		}
		return revise(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("give up room %s: %w", l.Room, err)
	}
	q.announce()
	return nil
}
