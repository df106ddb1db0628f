package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"
)

// span is a range of cursors (low, high].
type span struct{ low, high int64 }

// seat is a member's row as Put needs it.
type seat struct {
	id, fetched, lastKey int64
	handed               []span // beyond fetched
	load                 load   // of its room and of the file
}

// Put stores what the watch of member has received and moves its cursor, in
// one transaction. Only events above the cursor that no sync has handed over
// are stored, so a repeat adds nothing; the cursor never goes back.
//
// It returns ErrStale when the lease is lost and ErrFull when a bound is
// reached; in both cases nothing is stored and the cursor stays. A room that
// is empty takes any batch, so that one larger than the bound does not stop it
// for ever.
func (q *Queue) Put(ctx context.Context, l Lease, member string, events []Event, cursor int64) (added int, err error) {
	full := false
	err = q.write(ctx, false, func(ctx context.Context, c *conn) error {
		s, err := q.seat(ctx, c, l, member)
		if err != nil {
			return err
		}
		fresh := s.fresh(events)
		full, err = q.pauseIfFull(ctx, c, l.room, s.load, fresh)
		if err != nil || full {
			return err
		}
		added = len(fresh)
		return s.store(ctx, c, fresh, cursor, q.set.now())
	})
	if why := err; why == nil || resultCode(why) > 0 {
		q.unstored.Store(&why)
	}
	switch {
	case err != nil:
		return 0, fmt.Errorf("put events of room %s: %w", l.Room, err)
	case full:
		q.announce()
		return 0, fmt.Errorf("put events of room %s: %w", l.Room, ErrFull)
	case added > 0:
		signal(q.stir)
	}
	return added, nil
}

// Unstored returns why the last Put of this process could not be written, as
// on a full disk; nil once one could be.
func (q *Queue) Unstored() error {
	if why := q.unstored.Load(); why != nil {
		return *why
	}
	return nil
}

// seatQuery looks at a room, at one of its members and at what it holds at
// once: a Put of one event is mostly the cost of its statements. Without the
// plus, SQLite would prepare it again for every room, to see whether a partial
// index serves that one better.
const seatQuery = `select r.owner is ?1 and r.epoch = ?2 and exists (select 1 from owner o where o.id = r.owner),
	coalesce(max(m.id) filter (where m.name = ?3), 0),
	coalesce(max(m.fetched) filter (where m.name = ?3), 0),
	coalesce(max(m.last_key) filter (where m.name = ?3), 0),
	exists (select 1 from handed h join member n on n.id = h.member where n.room = r.id),
	coalesce(sum(m.events), 0), coalesce(sum(m.bytes), 0), t.events, t.bytes
	from room r join total t on t.id = 1 left join member m on m.room = r.id where r.id = +?4 group by r.id`

// seat finds the member and refuses a stale lease.
func (q *Queue) seat(ctx context.Context, c *conn, l Lease, member string) (seat, error) {
	var s seat
	var held, handed bool
	ok, err := c.get(ctx, seatQuery, []any{l.owner, l.Epoch, member, l.room}, &held, &s.id, &s.fetched, &s.lastKey, &handed,
		&s.load.events, &s.load.bytes, &s.load.totalEvents, &s.load.totalBytes)
	switch {
	case err != nil:
		return seat{}, err
	case !ok || !held:
		return seat{}, ErrStale
	case s.id == 0:
		return seat{}, ErrUnknown
	case !handed:
		return s, nil
	}
	err = c.each(ctx, "select low, high from handed where member = ?", []any{s.id}, func(scan func(...any) error) error {
		var h span
		err := scan(&h.low, &h.high)
		s.handed = append(s.handed, h)
		return err
	})
	return s, err
}

// fresh returns the events that are to be stored, by cursor and each once.
func (s *seat) fresh(events []Event) []Event {
	var fresh []Event
	for _, e := range events {
		handed := slices.ContainsFunc(s.handed, func(h span) bool { return e.Cursor > h.low && e.Cursor <= h.high })
		if e.Cursor > s.fetched && !handed {
			fresh = append(fresh, e)
		}
	}
	slices.SortStableFunc(fresh, func(a, b Event) int { return cmp.Compare(a.Cursor, b.Cursor) })
	return slices.CompactFunc(fresh, func(a, b Event) bool { return a.Cursor == b.Cursor })
}

// store inserts fresh, which arrived at now, and moves the cursor past it and
// to cursor.
func (s *seat) store(ctx context.Context, c *conn, fresh []Event, cursor int64, now time.Time) error {
	var size, urgent int64
	key, first, head := s.lastKey, int64(0), int64(0)
	for i, e := range fresh {
		at := e.At.UnixMicro()
		key = max(key, at)
		if i == 0 {
			first, head = e.Cursor, key
		}
		data := []byte(e.Body)
		if data == nil {
			data = []byte{}
		}
		body, err := c.insert(ctx, "insert into body (type, at, data) values (?, ?, ?)", e.Type, at, data)
		if err != nil {
			return err
		}
		_, err = c.exec(ctx, "insert into event (member, cursor, sort_key, size, ambient, body) values (?, ?, ?, ?, ?, ?)",
			s.id, e.Cursor, key, len(data), e.Ambient, body)
		if err != nil {
			return err
		}
		size += int64(len(data))
		if !e.Ambient {
			urgent++
		}
	}
	fetched := max(s.fetched, cursor)
	if n := len(fresh); n > 0 {
		fetched = max(fetched, fresh[n-1].Cursor)
		_, err := c.exec(ctx, `update member set fetched = ?, last_key = ?, events = events + ?, bytes = bytes + ?, urgent = urgent + ?,
			head = coalesce(head, ?), first = coalesce(first, ?), arrived = ? where id = ?`,
			fetched, key, n, size, urgent, head, first, now.UnixMilli(), s.id)
		if err != nil {
			return err
		}
		if _, err := c.exec(ctx, "update total set events = events + ?, bytes = bytes + ?", n, size); err != nil {
			return err
		}
	} else if fetched > s.fetched {
		if _, err := c.exec(ctx, "update member set fetched = ? where id = ?", fetched, s.id); err != nil {
			return err
		}
	}
	if len(s.handed) == 0 {
		return nil
	}
	_, err := c.exec(ctx, "delete from handed where member = ? and high <= ?", s.id, fetched)
	return err
}
