package queue

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// claim is a batch that is handed out and not settled.
type claim struct {
	id    int64
	owner int64
	sent  bool
}

// ackedClaim is a settled claim whose rows are still kept.
type ackedClaim struct {
	id int64
	at time.Time // monotonic
}

// where narrows a query over m (member), r (room) and i (identity).
func (f Filter) where(id Identity) (string, []any) {
	var b strings.Builder
	args := []any{id.Server, id.User}
	b.WriteString(" i.server = ? and i.user = ?")
	if f.Room != "" {
		b.WriteString(" and r.name = ?")
		args = append(args, f.Room)
	}
	if f.Member != "" {
		b.WriteString(" and m.name = ?")
		args = append(args, f.Member)
	}
	return b.String(), args
}

const fromMembers = ` from identity i join member m on m.identity = i.id join room r on r.id = m.room where`

// unheld are the members with something to give.
const unheld = ` and m.events > 0 and m.id not in (select member from hold)`

// ready reports whether there is anything to claim.
func ready(ctx context.Context, c *conn, id Identity, f Filter) (bool, error) {
	where, args := f.where(id)
	var one int
	return c.get(ctx, "select 1"+fromMembers+where+unheld+" limit 1", args, &one)
}

// row is one undelivered event, without its body.
type row struct{ cursor, key, size, ambient int64 }

// supply is the queue of one member during a claim.
type supply struct {
	id     int64
	member Member
	head   int64
	buf    []row // read ahead
	chunk  int   // of the next read
	last   int64 // cursor of the last row read
	taken  []row
}

// bySupply orders members by the key of their next row.
func bySupply(a, b *supply) int {
	return cmp.Or(cmp.Compare(a.head, b.head), cmp.Compare(a.id, b.id))
}

// next returns the member's next row, reading ahead in growing steps.
func (s *supply) next(ctx context.Context, c *conn) (row, bool, error) {
	if len(s.buf) == 0 {
		s.chunk = max(4, s.chunk*2)
		err := c.each(ctx, "select cursor, sort_key, size, ambient from event where member = ? and cursor > ? order by cursor limit ?",
			[]any{s.id, s.last, s.chunk}, func(scan func(...any) error) error {
				var r row
				err := scan(&r.cursor, &r.key, &r.size, &r.ambient)
				s.buf = append(s.buf, r)
				s.last = r.cursor
				return err
			})
		if err != nil || len(s.buf) == 0 {
			return row{}, false, err
		}
	}
	return s.buf[0], true, nil
}

// pick chooses the rows of a batch: a merge of the members' queues by key. It
// returns the members it took from and, for each row, whose it is.
func pick(ctx context.Context, c *conn, id Identity, f Filter, lim Limit) (from, order []*supply, err error) {
	where, args := f.where(id)
	n := lim.Events
	if n <= 0 {
		n = -1 // SQLite's no limit
	}
	var line []*supply // in the order of bySupply
	// No more members can take part than the batch has places.
	err = c.each(ctx, "select m.id, r.name, m.name, m.head"+fromMembers+where+unheld+" order by m.head, m.id limit ?",
		append(args, n), func(scan func(...any) error) error {
			s := &supply{last: -1}
			err := scan(&s.id, &s.member.Room, &s.member.ID, &s.head)
			line = append(line, s)
			return err
		})
	if err != nil {
		return nil, nil, err
	}
	var bytes int64
	for len(line) > 0 && (lim.Events <= 0 || len(order) < lim.Events) {
		s := line[0]
		r, ok, err := s.next(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		if !ok {
			line = line[1:]
			continue
		}
		if s.head < r.key { // its turn comes later
			s.head = r.key
			at, _ := slices.BinarySearchFunc(line[1:], s, bySupply)
			copy(line, line[1:at+1])
			line[at] = s
			continue
		}
		bytes += r.size
		if lim.Bytes > 0 && len(order) > 0 && bytes > int64(lim.Bytes) {
			break
		}
		if len(s.taken) == 0 {
			from = append(from, s)
		}
		s.taken = append(s.taken, r)
		s.buf = s.buf[1:]
		order = append(order, s)
	}
	return from, order, nil
}

// claimBatch claims a batch for owner self, in a write transaction.
func claimBatch(ctx context.Context, c *conn, self int64, id Identity, f Filter, lim Limit) (Batch, int64, error) {
	from, order, err := pick(ctx, c, id, f, lim)
	if err != nil || len(order) == 0 {
		return Batch{}, 0, err
	}
	number := newID()
	given := make(map[*supply][]Delivery, len(from))
	for _, s := range from {
		if err := s.hold(ctx, c, self, number); err != nil {
			return Batch{}, 0, err
		}
		if given[s], err = s.deliveries(ctx, c, number); err != nil {
			return Batch{}, 0, err
		}
	}
	b := Batch{Token: token(self, number)}
	for _, s := range order {
		if len(given[s]) == 0 {
			return Batch{}, 0, fmt.Errorf("event of room %s has no body", s.member.Room)
		}
		b.Deliveries = append(b.Deliveries, given[s][0])
		given[s] = given[s][1:]
	}
	if b.Remaining, err = remaining(ctx, c, id, f); err != nil {
		return Batch{}, 0, err
	}
	b.Next, err = nextAfter(ctx, c, id, f, from)
	return b, number, err
}

// hold marks the taken rows as part of the claim and holds their member.
func (s *supply) hold(ctx context.Context, c *conn, self, number int64) error {
	low, high := s.taken[0].cursor, s.taken[len(s.taken)-1].cursor
	var urgent int64
	for _, r := range s.taken {
		urgent += 1 - r.ambient
	}
	_, err := c.exec(ctx, "update event set claim = ? where member = ? and cursor between ? and ?", number, s.id, low, high)
	if err != nil {
		return err
	}
	_, err = c.exec(ctx, "insert into hold (member, owner, claim, low, high, events, urgent) values (?, ?, ?, ?, ?, ?, ?)",
		s.id, self, number, low, high, len(s.taken), urgent)
	return err
}

// deliveries reads the taken rows with their bodies.
func (s *supply) deliveries(ctx context.Context, c *conn, number int64) ([]Delivery, error) {
	var list []Delivery
	err := c.each(ctx, `select e.cursor, e.ambient, e.redelivered, b.type, b.at, b.data from event e join body b on b.id = e.body
		where e.member = ? and e.cursor between ? and ? and e.claim = ? order by e.cursor`,
		[]any{s.id, s.taken[0].cursor, s.taken[len(s.taken)-1].cursor, number},
		func(scan func(...any) error) error {
			d := Delivery{Member: s.member}
			var at int64
			var data []byte
			err := scan(&d.Event.Cursor, &d.Event.Ambient, &d.Redelivered, &d.Event.Type, &at, &data)
			d.Event.At = time.UnixMicro(at).UTC()
			d.Event.Body = data
			list = append(list, d)
			return err
		})
	return list, err
}

// token names a claim to its caller.
func token(owner, number int64) string {
	return strconv.FormatInt(owner, 36) + "." + strconv.FormatInt(number, 36)
}

// parseToken reads what token wrote.
func parseToken(s string) (owner, number int64, ok bool) {
	a, b, found := strings.Cut(s, ".")
	owner, errOwner := strconv.ParseInt(a, 36, 64)
	number, errNumber := strconv.ParseInt(b, 36, 64)
	return owner, number, found && errOwner == nil && errNumber == nil
}

// Claim hands out the oldest events of f that nobody holds and nobody in this
// process has waited for longer, at once. With nothing to hand out the batch
// has no Token; Next is filled in either case.
func (q *Queue) Claim(ctx context.Context, id Identity, f Filter, lim Limit) (Batch, error) {
	q.letOthersFirst(ctx, f)
	b, err := q.claim(ctx, id, f, lim)
	if err == nil && b.Token == "" {
		b, err = q.nothing(ctx, id, f)
	}
	if err != nil {
		return Batch{}, fmt.Errorf("claim events: %w", err)
	}
	return b, nil
}

func (q *Queue) claim(ctx context.Context, id Identity, f Filter, lim Limit) (Batch, error) {
	var some bool
	err := q.read(ctx, func(ctx context.Context, c *conn) (err error) {
		some, err = ready(ctx, c, id, f)
		return err
	})
	if err != nil || !some {
		return Batch{}, err
	}
	var b Batch
	var cl claim
	err = q.own(ctx, func(ctx context.Context, c *conn, self int64) (err error) {
		b, cl.id, err = claimBatch(ctx, c, self, id, f, lim)
		cl.owner = self
		return err
	})
	if err != nil || b.Token == "" {
		return Batch{}, err
	}
	q.mu.Lock()
	q.claims[b.Token] = &cl
	q.mu.Unlock()
	return b, nil
}

// nothing is the batch of somebody who waited in vain.
func (q *Queue) nothing(ctx context.Context, id Identity, f Filter) (Batch, error) {
	var b Batch
	err := q.read(ctx, func(ctx context.Context, c *conn) (err error) {
		if b.Remaining, err = remaining(ctx, c, id, f); err != nil {
			return err
		}
		b.Next, err = nextList(ctx, c, id, f)
		return err
	})
	return b, err
}
