package queue

import (
	"context"
	"fmt"
)

// nextLimit bounds how many members a batch speaks of.
const nextLimit = 100

// sinceCursor is the since_cursor of member m: below its first undelivered
// event, else all that was fetched or handed over without a gap.
const sinceCursor = ` coalesce(m.first - 1, (select high from handed h where h.member = m.id and h.low <= m.fetched and h.high > m.fetched), m.fetched)`

// Next returns the since_cursor to pass to m's next sync: the highest cursor
// below which nothing is still queued. It returns ErrUnknown for a member that
// Touch has not seen.
func (q *Queue) Next(ctx context.Context, id Identity, m Member) (int64, error) {
	var cursor int64
	err := q.read(ctx, func(ctx context.Context, c *conn) error {
		ok, err := c.get(ctx, "select"+sinceCursor+findMember, []any{id.Server, id.User, m.Room, m.ID}, &cursor)
		if err == nil && !ok {
			return ErrUnknown
		}
		return err
	})
	if err != nil {
		return 0, fmt.Errorf("next cursor of room %s: %w", m.Room, err)
	}
	return cursor, nil
}

// nextList is Batch.Next for the members of f that have not ended.
func nextList(ctx context.Context, c *conn, id Identity, f Filter) ([]Next, error) {
	where, args := f.where(id)
	var list []Next
	err := c.each(ctx, "select r.name, m.name,"+sinceCursor+fromMembers+where+" and m.ended = '' order by m.touched desc, m.id limit ?",
		append(args, nextLimit), func(scan func(...any) error) error {
			var n Next
			err := scan(&n.Member.Room, &n.Member.ID, &n.SinceCursor)
			list = append(list, n)
			return err
		})
	return list, err
}

// nextAfter is nextList once the rows taken from the members in from are gone.
func nextAfter(ctx context.Context, c *conn, id Identity, f Filter, from []*supply) ([]Next, error) {
	list, err := nextList(ctx, c, id, f)
	if err != nil {
		return nil, err
	}
	at := make(map[Member]int, len(list))
	for i, n := range list {
		at[n.Member] = i
	}
	for _, s := range from {
		n := Next{Member: s.member}
		_, err := c.get(ctx, `select coalesce((select min(cursor) - 1 from event where member = m.id and cursor > ?),
			(select high from handed h where h.member = m.id and h.low <= m.fetched and h.high > m.fetched), m.fetched)
			from member m where m.id = ?`, []any{s.taken[len(s.taken)-1].cursor, s.id}, &n.SinceCursor)
		if err != nil {
			return nil, err
		}
		if i, ok := at[s.member]; ok {
			list[i] = n
		} else {
			list = append(list, n)
		}
	}
	return list, nil
}

// remaining counts the events of f that no claim holds.
func remaining(ctx context.Context, c *conn, id Identity, f Filter) (int, error) {
	where, args := f.where(id)
	var n int
	_, err := c.get(ctx, `select coalesce(sum(m.events - (select coalesce(sum(h.events), 0) from hold h where h.member = m.id)), 0)`+
		fromMembers+where+" and m.events > 0", args, &n)
	return n, err
}

// Pending counts what waits to be handed out to members of f. What a claim
// holds does not wait.
func (q *Queue) Pending(ctx context.Context, id Identity, f Filter) (Pending, error) {
	var p Pending
	err := q.read(ctx, func(ctx context.Context, c *conn) (err error) {
		p, err = pending(ctx, c, id, f)
		return err
	})
	if err != nil {
		return Pending{}, fmt.Errorf("count pending events: %w", err)
	}
	return p, nil
}

func pending(ctx context.Context, c *conn, id Identity, f Filter) (Pending, error) {
	var p Pending
	where, args := f.where(id)
	// Mostly there is nothing, and that is asked after every call.
	some, err := c.get(ctx, "select 1"+fromMembers+where+" and m.events > 0 limit 1", args, new(int))
	if err != nil || !some {
		return p, err
	}
	_, err = c.get(ctx, `select coalesce(sum(events), 0), coalesce(sum(urgent), 0), count(distinct case when urgent > 0 then room end) from (
		select m.room, m.events - (select coalesce(sum(h.events), 0) from hold h where h.member = m.id) events,
		m.urgent - (select coalesce(sum(h.urgent), 0) from hold h where h.member = m.id) urgent`+
		fromMembers+where+" and m.events > 0)", args, &p.Events, &p.Interrupting, &p.Rooms)
	return p, err
}
