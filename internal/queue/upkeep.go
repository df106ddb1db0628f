package queue

import (
	"context"
	"errors"
	"os"
	"time"
)

const (
	// pruneEvery is how often ended memberships are looked through.
	pruneEvery = time.Hour
	// walEvery is how often the size of the write-ahead log is looked at.
	walEvery = 500 * time.Millisecond
	// A log beyond walQuiet bytes is copied into the file, off the path of
	// those who write; beyond walLoud readers and writers have to wait for it.
	walQuiet = 4 << 20
	walLoud  = 64 << 20
)

// watch notices what other processes write, keeps this owner alive, lets dead
// ones lapse and does what is due.
func (q *Queue) watch(ctx context.Context, others *observer) {
	beat := time.NewTicker(q.set.beat)
	defer beat.Stop()
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	look := time.NewTimer(0)
	defer look.Stop()
	var seen view
	q.tell(q.prune(ctx), "ended memberships were not pruned")
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			q.tell(q.live(ctx, others), "queue upkeep failed")
			continue
		case <-prune.C:
			q.tell(q.prune(ctx), "ended memberships were not pruned")
			continue
		case <-q.nudge:
		case <-look.C:
		}
		q.tell(q.look(ctx, &seen), "queue could not be looked at")
		every := q.set.idlePoll
		if q.waiting() {
			every = q.set.poll
		}
		look.Reset(every)
	}
}

// tell logs what went wrong in the background: nobody else would.
func (q *Queue) tell(err error, what string) {
	if err != nil && !errors.Is(err, ErrClosed) && !errors.Is(err, context.Canceled) {
		q.log.Warn("background work of the queue", "what", what, "error", err)
	}
}

// view is what one look saw of the file.
type view struct{ data, revision int64 }

// look finds out whether anything was written since the last look.
func (q *Queue) look(ctx context.Context, seen *view) error {
	var now view
	err := q.store.peek(ctx, func(ctx context.Context, c *conn) error {
		if err := c.c.QueryRowContext(ctx, "pragma data_version").Scan(&now.data); err != nil || now.data == seen.data {
			now.revision = seen.revision
			return err
		}
		_, err := c.get(ctx, "select revision from total", nil, &now.revision)
		return err
	})
	if err != nil {
		return err
	}
	if now.data != seen.data {
		signal(q.stir)
	}
	if now.revision != seen.revision {
		q.announce()
	}
	*seen = now
	return nil
}

// live beats, looks after the other owners, pays what is owed and drops what
// was kept long enough.
func (q *Queue) live(ctx context.Context, others *observer) error {
	err := q.own(ctx, func(ctx context.Context, c *conn, self int64) error {
		_, err := c.exec(ctx, "update owner set beat = beat + 1 where id = ? and exists (select 1 from owner where id <> ?)", self, self)
		return err
	})
	q.payDebts(ctx)
	return errors.Join(err, q.reap(ctx, others), q.drop(ctx))
}

// drop forgets acknowledged claims that can no longer be recalled.
func (q *Queue) drop(ctx context.Context) error {
	q.mu.Lock()
	n := 0
	for n < len(q.acked) && time.Since(q.acked[n].at) >= q.set.keep {
		n++
	}
	old := append([]ackedClaim(nil), q.acked[:n]...)
	q.acked = append(q.acked[:0], q.acked[n:]...)
	q.mu.Unlock()
	if len(old) == 0 {
		return nil
	}
	return q.store.write(ctx, false, func(ctx context.Context, c *conn) error {
		for _, cl := range old {
			if _, err := c.exec(ctx, "delete from body where id in (select body from kept where claim = ?)", cl.id); err != nil {
				return err
			}
			if _, err := c.exec(ctx, "delete from kept where claim = ?", cl.id); err != nil {
				return err
			}
		}
		return nil
	})
}

// prune forgets memberships that ended long ago, with what was never taken.
func (q *Queue) prune(ctx context.Context) error {
	before := q.set.now().Add(-q.set.retain).UnixMilli()
	return q.store.write(ctx, false, func(ctx context.Context, c *conn) error {
		var old []int64
		err := c.each(ctx, "select id from member where ended <> '' and ended_at < ? and id not in (select member from hold)", []any{before},
			func(scan func(...any) error) error {
				var id int64
				err := scan(&id)
				old = append(old, id)
				return err
			})
		if err != nil || len(old) == 0 {
			return err
		}
		for _, id := range old {
			if err := forget(ctx, c, id); err != nil {
				return err
			}
		}
		if _, err := q.resumeDrained(ctx, c); err != nil {
			return err
		}
		return revise(ctx, c)
	})
}

// forget removes a member and everything of it; the room goes with its last.
func forget(ctx context.Context, c *conn, member int64) error {
	for _, query := range []string{
		"update total set (events, bytes) = (select total.events - m.events, total.bytes - m.bytes from member m where m.id = ?1)",
		"delete from body where id in (select body from event where member = ?1 union all select body from kept where member = ?1)",
		"delete from event where member = ?1",
		"delete from kept where member = ?1",
		"delete from handed where member = ?1",
		"delete from member where id = ?1",
	} {
		if _, err := c.exec(ctx, query, member); err != nil {
			return err
		}
	}
	_, err := c.exec(ctx, "delete from room where owner is null and id not in (select room from member)")
	return err
}

// checkpoint copies the write-ahead log into the file when it has grown, so
// that no Put has to.
func (q *Queue) checkpoint(ctx context.Context) {
	tick := time.NewTicker(walEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		info, err := os.Stat(q.path + "-wal")
		if err != nil || info.Size() < walQuiet {
			continue
		}
		mode := "passive"
		if info.Size() >= walLoud {
			mode = "truncate"
		}
		q.tell(q.store.read(ctx, func(ctx context.Context, c *conn) error {
			return c.pragma(ctx, "wal_checkpoint("+mode+")")
		}), "write-ahead log was not copied")
	}
}
