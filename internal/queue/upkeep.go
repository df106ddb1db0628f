package queue

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"slices"
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
	// dropChunk is how many claims are forgotten in one transaction.
	dropChunk = 20
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
	t := teller{log: q.log, down: make(map[string]bool)}
	var seen view
	var slow time.Time
	t.tell(ctx, q.prune(ctx), "pruning ended memberships")
	for {
		select {
		case <-ctx.Done():
			return
		case <-beat.C:
			t.tell(ctx, q.beat(ctx), "showing that this process lives")
			continue
		case <-prune.C:
			t.tell(ctx, q.prune(ctx), "pruning ended memberships")
			continue
		case <-q.nudge:
		case <-look.C:
		}
		t.tell(ctx, q.look(ctx, &seen), "looking for what others wrote")
		if now := time.Now(); now.Sub(slow) >= q.set.idlePoll {
			slow = now
			t.tell(ctx, q.mend(ctx), "mending the file")
			t.tell(ctx, q.keepLock(ctx), "keeping this process's lock")
			t.tell(ctx, q.reap(ctx, others), "freeing what dead processes held")
			t.tell(ctx, q.drop(ctx), "forgetting acknowledged events")
			q.payDebts(ctx)
		}
		every := q.set.idlePoll
		if q.waiting() {
			every = q.set.poll
		}
		look.Reset(every)
	}
}

// teller logs what goes wrong in the background, where nobody else would:
// loudly once, until it goes well again. It belongs to one goroutine.
type teller struct {
	log  *slog.Logger
	down map[string]bool
}

func (t teller) tell(ctx context.Context, err error, doing string) {
	if errors.Is(err, ErrClosed) || errors.Is(err, context.Canceled) {
		return
	}
	if err != nil {
		level := slog.LevelWarn
		if t.down[doing] {
			level = slog.LevelDebug
		}
		t.log.Log(ctx, level, "background work of the queue fails and is tried again", "doing", doing, "error", err)
	}
	t.down[doing] = err != nil
}

// view is what one look saw of the file.
type view struct{ data, revision int64 }

// look finds out whether anything was written since the last look.
func (q *Queue) look(ctx context.Context, seen *view) error {
	var now view
	err := q.store.Load().peek(ctx, func(ctx context.Context, c *conn) error {
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

// beat shows the others that this process runs. Alone, it changes nothing.
func (q *Queue) beat(ctx context.Context) error {
	return q.own(ctx, func(ctx context.Context, c *conn, self int64) error {
		_, err := c.exec(ctx, "update owner set beat = beat + 1 where id = ? and exists (select 1 from owner where id <> ?)", self, self)
		return err
	})
}

// drop forgets acknowledged claims that can no longer be recalled.
func (q *Queue) drop(ctx context.Context) error {
	q.mu.Lock()
	n := 0
	for n < len(q.acked) && time.Since(q.acked[n].at) >= q.set.keep {
		n++
	}
	old := slices.Clone(q.acked[:n])
	q.mu.Unlock()
	for len(old) > 0 {
		some := old[:min(len(old), dropChunk)]
		err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
			for _, cl := range some {
				if _, err := c.exec(ctx, "delete from body where id in (select body from kept where claim = ?)", cl.id); err != nil {
					return err
				}
				if _, err := c.exec(ctx, "delete from kept where claim = ?", cl.id); err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		q.mu.Lock()
		q.acked = q.acked[len(some):]
		q.mu.Unlock()
		old = old[len(some):]
	}
	return nil
}

// prune forgets memberships that ended long ago, with what was never taken,
// each in a transaction of its own so that writers wait for one and not for all.
func (q *Queue) prune(ctx context.Context) error {
	before := q.set.now().Add(-q.set.retain).UnixMilli()
	const old = " from member where ended <> '' and ended_at < ? and id not in (select member from hold)"
	var ids []int64
	err := q.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, "select id"+old, []any{before}, func(scan func(...any) error) error {
			var id int64
			err := scan(&id)
			ids = append(ids, id)
			return err
		})
	})
	for _, id := range ids {
		if err != nil {
			break
		}
		err = q.write(ctx, false, func(ctx context.Context, c *conn) error {
			var still int64
			ok, err := c.get(ctx, "select id"+old+" and id = ?", []any{before, id}, &still)
			if err != nil || !ok {
				return err
			}
			if err := forget(ctx, c, id); err != nil {
				return err
			}
			if _, err := q.resumeDrained(ctx, c); err != nil {
				return err
			}
			return revise(ctx, c)
		})
	}
	return err
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
	t := teller{log: q.log, down: make(map[string]bool)}
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
		t.tell(ctx, q.read(ctx, func(ctx context.Context, c *conn) error {
			return c.pragma(ctx, "wal_checkpoint("+mode+")")
		}), "copying the write-ahead log")
	}
}
