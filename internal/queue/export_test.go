package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"
)

// Settings are the numbers tests move; a zero keeps the default.
type Settings struct {
	RoomEvents, RoomBytes   int64
	TotalEvents, TotalBytes int64
	Lease, Beat, Keep       time.Duration
	Now                     func() time.Time
}

// OpenWith is Open with other numbers.
func OpenWith(ctx context.Context, path string, log *slog.Logger, s Settings) (*Queue, error) {
	set := defaults()
	for _, n := range []struct{ to, from *int64 }{
		{&set.roomEvents, &s.RoomEvents},
		{&set.roomBytes, &s.RoomBytes},
		{&set.totalEvents, &s.TotalEvents},
		{&set.totalBytes, &s.TotalBytes},
	} {
		if *n.from != 0 {
			*n.to = *n.from
		}
	}
	for _, d := range []struct{ to, from *time.Duration }{{&set.lease, &s.Lease}, {&set.beat, &s.Beat}, {&set.keep, &s.Keep}} {
		if *d.from != 0 {
			*d.to = *d.from
		}
	}
	if s.Now != nil {
		set.now = s.Now
	}
	return open(ctx, path, log, set)
}

// Crash ends q as SIGKILL would: its goroutines stop, its descriptors and its
// lock go, and the file is not told.
func (q *Queue) Crash() error {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.stop()
	q.wg.Wait()
	q.dismiss()
	return errors.Join(q.store.Load().close(), q.owner().lock.Unlock())
}

// Observer judges others as a Queue does.
type Observer struct{ o *observer }

// NewObserver returns one with these times.
func NewObserver(lease, beat time.Duration) Observer { return Observer{newObserver(lease, beat)} }

// Dead looks once, and reports who of them is dead.
func (o Observer) Dead(beats map[int64]int64) []int64 { return o.o.dead(beats) }

// Reap frees what processes with a free lock held, now.
func (q *Queue) Reap(ctx context.Context) error {
	return q.reap(ctx, newObserver(time.Hour, time.Hour))
}

// Still ends the goroutines of q: it looks after nothing any more by itself.
func (q *Queue) Still() {
	q.stop()
	q.wg.Wait()
}

// Mend opens the file again when it is not what it was, now.
func (q *Queue) Mend(ctx context.Context) error { return q.mend(ctx) }

// Path is where the file is.
func (q *Queue) Path() string { return q.path }

// Prune is the hourly pruning, now.
func (q *Queue) Prune(ctx context.Context) error { return q.prune(ctx) }

// Expire drops acknowledged rows that are past their time, now.
func (q *Queue) Expire(ctx context.Context) error { return q.drop(ctx) }

// Audit checks what must be true of every file at every moment: counts, heads
// and bodies agree with the rows they are about.
func (q *Queue) Audit(ctx context.Context) error {
	var wrong []error
	err := q.read(ctx, func(ctx context.Context, c *conn) error {
		for _, a := range []struct{ what, query string }{
			{"members whose counts or head are wrong", `select count(*) from member m where
				m.events <> (select count(*) from event where member = m.id) or
				m.bytes <> (select coalesce(sum(size), 0) from event where member = m.id) or
				m.urgent <> (select coalesce(sum(1 - ambient), 0) from event where member = m.id) or
				m.first is not (select min(cursor) from event where member = m.id) or
				m.head is not (select sort_key from event where member = m.id order by cursor limit 1)`},
			{"totals that are wrong", `select count(*) from total t where
				t.events <> (select count(*) from event) or t.bytes <> (select coalesce(sum(size), 0) from event)`},
			{"events beyond fetched", "select count(*) from event e join member m on m.id = e.member where e.cursor > m.fetched"},
			{"events of a claim nobody holds", `select count(*) from event e where claim is not null and not exists
				(select 1 from hold h where h.claim = e.claim and h.member = e.member and e.cursor between h.low and h.high)`},
			{"holds whose counts are wrong", `select count(*) from hold h where claim is not null and
				(h.events <> (select count(*) from event e where e.claim = h.claim and e.member = h.member) or
				h.urgent <> (select coalesce(sum(1 - ambient), 0) from event e where e.claim = h.claim and e.member = h.member))`},
			{"holds of no owner", "select count(*) from hold where owner not in (select id from owner)"},
			{"kept rows of no owner", "select count(*) from kept where owner not in (select id from owner)"},
			{"bodies nobody refers to", "select count(*) from body where id not in (select body from event union all select body from kept)"},
			{"events without a body", "select count(*) from event where body not in (select id from body)"},
			{"kept rows without a body", "select count(*) from kept where body not in (select id from body)"},
			{"events out of order", `select count(*) from event a join event b on a.member = b.member and a.cursor < b.cursor
				and a.sort_key > b.sort_key`},
			{"rows of another identity's room", "select count(*) from member m join room r on r.id = m.room where r.identity <> m.identity"},
			{"handed ranges the watch has passed", "select count(*) from handed h join member m on m.id = h.member where h.high <= m.fetched or h.low >= h.high"},
		} {
			var n int
			if err := c.c.QueryRowContext(ctx, a.query).Scan(&n); err != nil {
				return fmt.Errorf("%s: %w", a.what, err)
			}
			if n != 0 {
				wrong = append(wrong, fmt.Errorf("%d %s", n, a.what))
			}
		}
		return nil
	})
	return errors.Join(append(wrong, err)...)
}

// Pragmas returns what a pragma reads as on every connection of q.
func (q *Queue) Pragmas(ctx context.Context, name string) ([]string, error) {
	var values []string
	ask := func(ctx context.Context, c *conn) error {
		var v string
		err := c.c.QueryRowContext(ctx, "pragma "+name).Scan(&v)
		values = append(values, v)
		return err
	}
	var held []*conn
	defer func() {
		for _, c := range held {
			q.store.Load().readers <- c
		}
	}()
	for range readerCount {
		c, err := borrow(ctx, q.store.Load().readers)
		if err != nil {
			return nil, err
		}
		held = append(held, c)
		if err := ask(ctx, c); err != nil {
			return nil, err
		}
	}
	if err := q.store.Load().peek(ctx, ask); err != nil {
		return nil, err
	}
	c, err := borrow(ctx, q.store.Load().writer)
	if err != nil {
		return nil, err
	}
	defer func() { q.store.Load().writer <- c }()
	return values, ask(ctx, c)
}

// DriverName and SchemaVersion name the files of testdata.
const (
	DriverName    = driverName
	SchemaVersion = schemaVersion
)
