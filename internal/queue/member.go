package queue

import (
	"context"
	"fmt"
	"time"
)

// touchEvery is how stale a membership's last touch may get before it is
// written again: the file need not be written at every tool call.
const touchEvery = time.Minute

// findMember is the start of every look for one member of an identity.
const findMember = `from member m join room r on r.id = m.room join identity i on i.id = r.identity
	where i.server = ? and i.user = ? and r.name = ? and m.name = ?`

// Touch notes that a tool call named m. A member that is not known yet is
// added, as read up to from, and added is true; a known one keeps its cursor
// and is watched again if it was idle. One that has ended stays so.
func (q *Queue) Touch(ctx context.Context, id Identity, m Member, from int64) (added bool, err error) {
	now := q.set.now().UnixMilli()
	fresh := false
	err = q.read(ctx, func(ctx context.Context, c *conn) error {
		var touched int64
		ok, err := c.get(ctx, "select m.touched "+findMember, []any{id.Server, id.User, m.Room, m.ID}, &touched)
		fresh = ok && max(now-touched, touched-now) < touchEvery.Milliseconds()
		return err
	})
	if err == nil && !fresh {
		err = q.write(ctx, false, func(ctx context.Context, c *conn) error {
			added, err = touch(ctx, c, id, m, from, now)
			return err
		})
	}
	if err != nil {
		return false, fmt.Errorf("touch member of room %s: %w", m.Room, err)
	}
	if !fresh {
		q.announce()
	}
	return added, nil
}

func touch(ctx context.Context, c *conn, id Identity, m Member, from, now int64) (bool, error) {
	room, identity, err := ensureRoom(ctx, c, id, m.Room)
	if err != nil {
		return false, err
	}
	n, err := c.exec(ctx, "insert into member (identity, room, name, fetched, touched) values (?, ?, ?, ?, ?) on conflict do nothing",
		identity, room, m.ID, from, now)
	if err != nil {
		return false, err
	}
	if n == 0 {
		if _, err := c.exec(ctx, "update member set touched = ? where room = ? and name = ?", now, room, m.ID); err != nil {
			return false, err
		}
	}
	return n > 0, revise(ctx, c)
}

// ensureRoom returns the numbers of a room and its identity, adding both as
// needed.
func ensureRoom(ctx context.Context, c *conn, id Identity, name string) (room, identity int64, err error) {
	ok, err := c.get(ctx, "select r.id, i.id from room r join identity i on i.id = r.identity where i.server = ? and i.user = ? and r.name = ?",
		[]any{id.Server, id.User, name}, &room, &identity)
	if err != nil || ok {
		return room, identity, err
	}
	if _, err = c.exec(ctx, "insert into identity (server, user) values (?, ?) on conflict do nothing", id.Server, id.User); err != nil {
		return 0, 0, err
	}
	if _, err = c.get(ctx, "select id from identity where server = ? and user = ?", []any{id.Server, id.User}, &identity); err != nil {
		return 0, 0, err
	}
	room, err = c.insert(ctx, "insert into room (identity, name) values (?, ?)", identity, name)
	return room, identity, err
}

// End notes why a membership is over. It is not watched any more, and what was
// not delivered stays to be taken for 30 days. The first reason stands; an
// unknown member is left alone.
func (q *Queue) End(ctx context.Context, id Identity, m Member, reason string) error {
	err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
		n, err := c.exec(ctx, "update member set ended = ?, ended_at = ? where ended = '' and id = (select m.id "+findMember+")",
			reason, q.set.now().UnixMilli(), id.Server, id.User, m.Room, m.ID)
		if err != nil || n == 0 {
			return err
		}
		return revise(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("end membership of room %s: %w", m.Room, err)
	}
	q.announce()
	return nil
}

// Resume lifts an end that turned out to be wrong, such as a room that only
// looked gone because the credential was not that identity's. The watch goes on
// from where it had read.
func (q *Queue) Resume(ctx context.Context, id Identity, m Member) error {
	err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
		n, err := c.exec(ctx, "update member set ended = '', ended_at = 0, touched = ? where ended <> '' and id = (select m.id "+findMember+")",
			q.set.now().UnixMilli(), id.Server, id.User, m.Room, m.ID)
		if err != nil || n == 0 {
			return err
		}
		return revise(ctx, c)
	})
	if err != nil {
		return fmt.Errorf("resume membership of room %s: %w", m.Room, err)
	}
	q.announce()
	return nil
}

// fromMemberships are an identity's members in the order of Memberships.
const fromMemberships = ` from identity i join member m on m.identity = i.id join room r on r.id = m.room
	where i.server = ? and i.user = ? order by m.ended <> '', m.touched desc, m.id`

// Memberships lists every membership of id: those to be watched first, then
// idle ones, then those that have ended, each by the latest touch.
func (q *Queue) Memberships(ctx context.Context, id Identity) ([]Membership, error) {
	var list []Membership
	err := q.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, "select r.name, m.name, m.fetched, m.touched, m.ended, r.paused_events is not null"+fromMemberships, []any{id.Server, id.User},
			func(scan func(...any) error) error {
				var m Membership
				var touched int64
				err := scan(&m.Room, &m.ID, &m.Fetched, &touched, &m.Ended, &m.Full)
				m.Touched = time.UnixMilli(touched)
				list = append(list, m)
				return err
			})
	})
	if err != nil {
		return nil, fmt.Errorf("list memberships: %w", err)
	}
	return list, nil
}
