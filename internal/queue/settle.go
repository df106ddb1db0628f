package queue

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// Sent says that a reply holding the batch is about to be written: from now on
// a release of the claim flags its events. It never blocks. The mark is in
// memory; a claim that a dead process leaves counts as sent.
func (q *Queue) Sent(token string) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if c := q.claims[token]; c != nil {
		c.sent = true
	}
}

// settle takes the claim of token off the list and returns it, nil when it is
// not ours or settled already.
func (q *Queue) settle(token string) *claim {
	q.mu.Lock()
	defer q.mu.Unlock()
	c := q.claims[token]
	delete(q.claims, token)
	return c
}

// Ack says that the reply was written: the batch is done, on disk when Ack
// returns. For two minutes Recall can put it back. Acknowledging a claim that
// has lapsed or is settled does nothing. When the write fails, Ack says so and
// it is tried again in the background; the events are not handed out meanwhile.
func (q *Queue) Ack(ctx context.Context, token string) error {
	cl := q.settle(token)
	if cl == nil {
		return nil
	}
	if err := q.ack(ctx, cl); err != nil {
		if !errors.Is(err, ErrClosed) {
			q.owe(func(ctx context.Context) error { return q.ack(ctx, cl) })
		}
		return fmt.Errorf("acknowledge events: %w", err)
	}
	return nil
}

func (q *Queue) ack(ctx context.Context, cl *claim) error {
	done, resumed := false, false
	err := q.write(ctx, true, func(ctx context.Context, c *conn) error {
		parts, err := dropHolds(ctx, c, cl.id, cl.owner)
		if err != nil || len(parts) == 0 {
			return err // it has lapsed
		}
		done = true
		for _, p := range parts {
			args := []any{p.member, p.low, p.high, cl.id}
			_, err := c.exec(ctx, `insert into kept (claim, member, cursor, sort_key, size, ambient, body, owner)
				select claim, member, cursor, sort_key, size, ambient, body, ?5 from event
				where member = ?1 and cursor between ?2 and ?3 and claim = ?4`, append(args, cl.owner)...)
			if err != nil {
				return err
			}
			if err := remove(ctx, c, p.member, "cursor between ?2 and ?3 and claim = ?4", args); err != nil {
				return err
			}
		}
		resumed, err = q.resumeDrained(ctx, c)
		return err
	})
	if err != nil || !done {
		return err
	}
	q.mu.Lock()
	q.acked = append(q.acked, ackedClaim{id: cl.id, at: time.Now()})
	q.mu.Unlock()
	if resumed {
		q.announce()
	}
	signal(q.stir)
	return nil
}

// part is what a claim holds of one member.
type part struct{ member, low, high int64 }

// dropHolds removes the claim's holds and returns them; none when the claim has
// lapsed.
func dropHolds(ctx context.Context, c *conn, number, owner int64) ([]part, error) {
	var parts []part
	err := c.each(ctx, "select member, low, high from hold where claim = ? and owner = ?", []any{number, owner},
		func(scan func(...any) error) error {
			var p part
			err := scan(&p.member, &p.low, &p.high)
			parts = append(parts, p)
			return err
		})
	if err != nil || len(parts) == 0 {
		return nil, err
	}
	_, err = c.exec(ctx, "delete from hold where claim = ? and owner = ?", number, owner)
	return parts, err
}

// remove deletes the rows of a member that match, keeping its counts. The first
// of args is the member.
func remove(ctx context.Context, c *conn, member int64, match string, args []any) error {
	var events, bytes, urgent int64
	_, err := c.get(ctx, "select count(*), coalesce(sum(size), 0), coalesce(sum(1 - ambient), 0) from event where member = ?1 and "+match,
		args, &events, &bytes, &urgent)
	if err != nil || events == 0 {
		return err
	}
	if _, err := c.exec(ctx, "delete from event where member = ?1 and "+match, args...); err != nil {
		return err
	}
	return adjust(ctx, c, member, -events, -bytes, -urgent)
}

// adjust adds to the counts of a member whose rows have changed, and finds its
// head again.
func adjust(ctx context.Context, c *conn, member, events, bytes, urgent int64) error {
	_, err := c.exec(ctx, `update member set events = events + ?, bytes = bytes + ?, urgent = urgent + ?,
		head = (select sort_key from event where event.member = member.id order by cursor limit 1),
		first = (select min(cursor) from event where event.member = member.id) where id = ?`, events, bytes, urgent, member)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, "update total set events = events + ?, bytes = bytes + ?", events, bytes)
	return err
}

// Release puts the batch back: its reply will not be written, or was not. Its
// events are flagged when flagged is set or Sent was called. A claim that has
// lapsed or is settled is left alone. When the write fails, Release says so and
// it is tried again in the background.
func (q *Queue) Release(ctx context.Context, token string, flagged bool) error {
	cl := q.settle(token)
	if cl == nil {
		return nil
	}
	flagged = flagged || cl.sent
	if err := q.release(ctx, cl, flagged); err != nil {
		if !errors.Is(err, ErrClosed) {
			q.owe(func(ctx context.Context) error { return q.release(ctx, cl, flagged) })
		}
		return fmt.Errorf("release events: %w", err)
	}
	return nil
}

func (q *Queue) release(ctx context.Context, cl *claim, flagged bool) error {
	err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
		_, err := putBack(ctx, c, cl.id, cl.owner, flagged)
		return err
	})
	if err == nil {
		signal(q.stir)
	}
	return err
}

// putBack frees the rows of a claim and reports whether there were any.
func putBack(ctx context.Context, c *conn, number, owner int64, flagged bool) (bool, error) {
	parts, err := dropHolds(ctx, c, number, owner)
	if err != nil {
		return false, err
	}
	for _, p := range parts {
		_, err := c.exec(ctx, `update event set claim = null, redelivered = max(redelivered, ?)
			where member = ? and cursor between ? and ? and claim = ?`, flagged, p.member, p.low, p.high, number)
		if err != nil {
			return false, err
		}
	}
	return len(parts) > 0, nil
}

// Recall puts an acknowledged batch back, flagged: the host gave up while its
// reply crossed the cancellation. It does nothing when the two minutes are
// over, or when a sync has handed the events over since.
func (q *Queue) Recall(ctx context.Context, token string) error {
	owner, number, ok := parseToken(token)
	if !ok {
		return nil
	}
	if cl := q.settle(token); cl != nil {
		return q.releaseLate(ctx, cl)
	}
	err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
		// An acknowledgement that is still owed is taken back with it.
		if back, err := putBack(ctx, c, number, owner, true); err != nil || back {
			return err
		}
		return recall(ctx, c, number, owner)
	})
	if err != nil {
		return fmt.Errorf("recall events: %w", err)
	}
	signal(q.stir)
	return nil
}

func (q *Queue) releaseLate(ctx context.Context, cl *claim) error {
	if err := q.release(ctx, cl, true); err != nil {
		return fmt.Errorf("recall events: %w", err)
	}
	return nil
}

// recall moves the kept rows of a claim back among the undelivered.
func recall(ctx context.Context, c *conn, number, owner int64) error {
	type sum struct{ member, events, bytes, urgent int64 }
	var sums []sum
	err := c.each(ctx, "select member, count(*), sum(size), sum(1 - ambient) from kept where claim = ? and owner = ? group by member",
		[]any{number, owner}, func(scan func(...any) error) error {
			var s sum
			err := scan(&s.member, &s.events, &s.bytes, &s.urgent)
			sums = append(sums, s)
			return err
		})
	if err != nil || len(sums) == 0 {
		return err
	}
	_, err = c.exec(ctx, `insert into event (member, cursor, sort_key, size, ambient, redelivered, body)
		select member, cursor, sort_key, size, ambient, 1, body from kept where claim = ? and owner = ?`, number, owner)
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, "delete from kept where claim = ? and owner = ?", number, owner); err != nil {
		return err
	}
	for _, s := range sums {
		if err := adjust(ctx, c, s.member, s.events, s.bytes, s.urgent); err != nil {
			return err
		}
	}
	return nil
}
