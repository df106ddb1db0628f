package queue

import (
	"context"
	"errors"
	"fmt"
	"sync"
)

// Sync is a sync of one member that is in flight: while it is, no claim of any
// process takes that member's events. It ends with Done or Cancel, or when its
// process dies.
type Sync struct {
	q     *Queue
	id    Identity
	m     Member
	owner int64
	hold  int64 // 0 when the member was not known
	once  sync.Once
}

// BeginSync notes that the agent itself is reading m's room. A member that
// Touch has not seen is not held; Done hands over to it once it is known. When
// the queue cannot be written to, that is the error, and the Sync returned with
// it holds nothing but can hand over all the same.
func (q *Queue) BeginSync(ctx context.Context, id Identity, m Member) (*Sync, error) {
	s := &Sync{q: q, id: id, m: m}
	err := q.own(ctx, func(ctx context.Context, c *conn, self int64) error {
		s.owner, s.hold = self, 0
		var member int64
		ok, err := c.get(ctx, "select m.id "+findMember, []any{id.Server, id.User, m.Room, m.ID}, &member)
		if err != nil || !ok {
			return err
		}
		s.hold, err = c.insert(ctx, "insert into hold (member, owner) values (?, ?)", member, self)
		return err
	})
	if err != nil {
		s.hold = 0
		return s, fmt.Errorf("begin sync of room %s: %w", m.Room, err)
	}
	return s, nil
}

// Done says that the agent was handed the events above from and up to to:
// those still queued go, those the watch has yet to read are never queued, and
// what is at or below from stays. It is on disk when Done returns. A sync that
// has lapsed hands over all the same: the reply was written, and what the agent
// has must not come again. When the write fails, Done says so and it is tried
// again in the background. Only the first Done or Cancel counts.
func (s *Sync) Done(ctx context.Context, from, to int64) error {
	var err error
	s.once.Do(func() {
		err = s.finish(ctx, from, to)
		if err != nil && !errors.Is(err, ErrClosed) {
			s.q.owe(func(ctx context.Context) error { return s.finish(ctx, from, to) })
		}
	})
	if err != nil {
		return fmt.Errorf("hand over events of room %s: %w", s.m.Room, err)
	}
	return nil
}

// Cancel ends the sync; nothing was handed over. It may be called any number
// of times, after Done too.
func (s *Sync) Cancel() {
	s.once.Do(func() {
		ctx, cancel := s.q.detach()
		defer cancel()
		if err := s.finish(ctx, 0, 0); err != nil && !errors.Is(err, ErrClosed) {
			s.q.owe(func(ctx context.Context) error { return s.finish(ctx, 0, 0) })
		}
	})
}

func (s *Sync) finish(ctx context.Context, from, to int64) error {
	resumed := false
	err := s.q.write(ctx, from < to, func(ctx context.Context, c *conn) error {
		if s.hold != 0 {
			_, err := c.exec(ctx, "delete from hold where id = ? and owner = ? and claim is null", s.hold, s.owner)
			if err != nil {
				return err
			}
		}
		if from >= to {
			return nil
		}
		var member, fetched int64
		ok, err := c.get(ctx, "select m.id, m.fetched "+findMember, []any{s.id.Server, s.id.User, s.m.Room, s.m.ID}, &member, &fetched)
		if err != nil || !ok {
			return err
		}
		if err := handOver(ctx, c, member, fetched, span{from, to}); err != nil {
			return err
		}
		resumed, err = s.q.resumeDrained(ctx, c)
		return err
	})
	if err != nil {
		return err
	}
	if resumed {
		s.q.announce()
	}
	signal(s.q.stir)
	return nil
}

// handOver removes the member's rows in the range, those of a claim included
// and those kept for a recall: the agent has them now. It remembers what of the
// range the watch has still to pass.
func handOver(ctx context.Context, c *conn, member, fetched int64, r span) error {
	args := []any{member, r.low, r.high}
	const match = "cursor > ?2 and cursor <= ?3"
	for _, query := range []string{
		"delete from body where id in (select body from event where member = ?1 and " + match + ")",
		"delete from body where id in (select body from kept where member = ?1 and " + match + ")",
		"delete from kept where member = ?1 and " + match,
	} {
		if _, err := c.exec(ctx, query, args...); err != nil {
			return err
		}
	}
	if err := remove(ctx, c, member, match, args); err != nil {
		return err
	}
	_, err := c.exec(ctx, `update hold set (events, urgent) = (select count(*), coalesce(sum(1 - e.ambient), 0)
		from event e where e.member = hold.member and e.claim = hold.claim) where member = ? and claim is not null`, member)
	if err != nil || r.high <= fetched {
		return err
	}
	return remember(ctx, c, member, r)
}

// remember adds a range to those handed over, joined with what it touches.
func remember(ctx context.Context, c *conn, member int64, r span) error {
	err := c.each(ctx, "select low, high from handed where member = ? and low <= ? and high >= ?", []any{member, r.high, r.low},
		func(scan func(...any) error) error {
			var h span
			err := scan(&h.low, &h.high)
			r.low, r.high = min(r.low, h.low), max(r.high, h.high)
			return err
		})
	if err != nil {
		return err
	}
	if _, err := c.exec(ctx, "delete from handed where member = ? and low >= ? and high <= ?", member, r.low, r.high); err != nil {
		return err
	}
	_, err = c.exec(ctx, "insert into handed (member, low, high) values (?, ?, ?)", member, r.low, r.high)
	return err
}
