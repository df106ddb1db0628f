package queue

import (
	"context"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

// owner is one open Queue as the others see it.
type owner struct {
	id   int64
	lock *flock.Flock
}

// errLapsed reports that this process was taken for dead and its row is gone.
var errLapsed = errors.New("queue: owner lapsed")

// newID returns a random positive number. Numbers of owners and claims are
// never used twice, so what a dead process still holds fits nothing.
func newID() int64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return int64(binary.LittleEndian.Uint64(b[:]) >> 1)
}

// register makes this process an owner under a new number. The lock is taken
// before the row appears, so nobody sees a row whose lock is free. Several
// callers may find that old lapsed; the first registers for all.
func (q *Queue) register(ctx context.Context, old owner) error {
	select {
	case q.enrol <- struct{}{}:
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.enrol }()
	if q.owner() != old {
		return nil
	}
	self, err := newOwner(filepath.Dir(q.path))
	if err != nil {
		return err
	}
	err = q.write(ctx, false, func(ctx context.Context, c *conn) error {
		_, err := c.exec(ctx, "insert into owner (id, lock, pid, since) values (?, ?, ?, ?)",
			self.id, filepath.Base(self.lock.Path()), os.Getpid(), q.set.now().UnixMilli())
		return err
	})
	if err != nil {
		return errors.Join(err, self.release())
	}
	q.mu.Lock()
	q.self = self
	q.mu.Unlock()
	if old.lock != nil {
		q.log.Warn("this process lost its place in the queue, having been stopped or its file replaced, and goes on under a new one")
		return old.release()
	}
	return nil
}

// newOwner creates and locks a lock file in dir.
func newOwner(dir string) (owner, error) {
	for range 10 {
		id := newID()
		l, err := takeLock(filepath.Join(dir, fmt.Sprintf("owner-%016x.lock", id)))
		if l != nil || err != nil {
			return owner{id: id, lock: l}, err
		}
	}
	return owner{}, errors.New("no owner lock to be had")
}

// takeLock locks the file at path, made as needed; nil when somebody holds it.
func takeLock(path string) (*flock.Flock, error) {
	l := flock.New(path, flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return nil, fmt.Errorf("lock %s: %w", path, err)
	}
	if !ok {
		return nil, nil //nolint:nilnil // Nothing went wrong, and there is no lock.
	}
	return l, nil
}

// keepLock makes this process's lock file again where somebody has removed or
// replaced it: whoever has no lock to show is taken for dead.
func (q *Queue) keepLock(ctx context.Context) error {
	if !free(q.owner().lock.Path()) {
		return nil
	}
	select {
	case q.enrol <- struct{}{}: // no other registers meanwhile
	case <-ctx.Done():
		return ctx.Err()
	}
	defer func() { <-q.enrol }()
	old := q.owner()
	l, err := takeLock(old.lock.Path())
	if l == nil || err != nil {
		return err
	}
	q.mu.Lock()
	q.self.lock = l
	q.mu.Unlock()
	return old.lock.Unlock()
}

// release unlocks the lock file and removes it, in the order Windows wants.
func (o owner) release() error {
	return errors.Join(o.lock.Unlock(), removeLock(o.lock.Path()))
}

func removeLock(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// owner returns who this process is at the moment.
func (q *Queue) owner() owner {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.self
}

// own runs what in a write transaction as a living owner. When this process
// has lapsed meanwhile it registers again and runs what once more.
func (q *Queue) own(ctx context.Context, what func(ctx context.Context, c *conn, self int64) error) error {
	for {
		self := q.owner()
		err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
			var one int
			ok, err := c.get(ctx, "select 1 from owner where id = ?", []any{self.id}, &one)
			if err != nil {
				return err
			}
			if !ok {
				return errLapsed
			}
			return what(ctx, c, self.id)
		})
		if !errors.Is(err, errLapsed) {
			return err
		}
		if err := q.register(ctx, self); err != nil {
			return fmt.Errorf("register again: %w", err)
		}
	}
}

// resign gives back everything this process holds and its row. Only claims
// marked sent come back flagged.
func (q *Queue) resign(ctx context.Context) error {
	self := q.owner()
	q.mu.Lock()
	var unsent []int64
	for _, c := range q.claims {
		if !c.sent {
			unsent = append(unsent, c.id)
		}
	}
	q.mu.Unlock()
	err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
		for _, id := range unsent {
			if _, err := putBack(ctx, c, id, self.id, false); err != nil {
				return err
			}
		}
		return lapse(ctx, c, self.id)
	})
	return errors.Join(err, self.release())
}

// lapse frees everything an owner held and forgets it. Its claims come back
// flagged: whether their replies left, nobody can say.
func lapse(ctx context.Context, c *conn, id int64) error {
	var claims []int64
	err := c.each(ctx, "select distinct claim from hold where owner = ? and claim is not null", []any{id},
		func(scan func(...any) error) error {
			var n int64
			err := scan(&n)
			claims = append(claims, n)
			return err
		})
	if err != nil {
		return err
	}
	for _, n := range claims {
		if _, err := putBack(ctx, c, n, id, true); err != nil {
			return err
		}
	}
	for _, query := range []string{
		"delete from hold where owner = ?",
		"delete from body where id in (select body from kept where owner = ?)",
		"delete from kept where owner = ?",
		"update room set owner = null where owner = ?",
		"delete from owner where id = ?",
	} {
		if _, err := c.exec(ctx, query, id); err != nil {
			return err
		}
	}
	return revise(ctx, c)
}

// observer judges other owners by what one process has seen of them.
type observer struct {
	lease time.Duration
	step  time.Duration // the most that one look adds to a silence
	last  time.Time
	seen  map[int64]sighting
}

type sighting struct {
	beat   int64
	silent time.Duration
}

func newObserver(lease, beat time.Duration) *observer {
	return &observer{lease: lease, step: beat, seen: make(map[int64]sighting)}
}

// dead reports which of the beating owners have been silent for the lease
// time. A look adds at most one step to a silence: a laptop that slept, or an
// observer that was itself stopped, has not been watching meanwhile.
func (o *observer) dead(beats map[int64]int64) []int64 {
	now := time.Now() // the monotonic reading
	passed := now.Sub(o.last)
	if o.last.IsZero() {
		passed = 0
	}
	o.last = now
	var dead []int64
	seen := make(map[int64]sighting, len(beats))
	for id, beat := range beats {
		s, known := o.seen[id]
		if !known || s.beat != beat {
			s = sighting{beat: beat}
		} else {
			s.silent += min(passed, o.step)
		}
		seen[id] = s
		if s.silent >= o.lease {
			dead = append(dead, id)
		}
	}
	o.seen = seen
	return dead
}

// reap frees what dead owners held. It writes only when there is one.
func (q *Queue) reap(ctx context.Context, watch *observer) error {
	self := q.owner()
	beats := make(map[int64]int64)
	locks := make(map[int64]string)
	err := q.read(ctx, func(ctx context.Context, c *conn) error {
		return c.each(ctx, "select id, lock, beat from owner where id <> ?", []any{self.id},
			func(scan func(...any) error) error {
				var id, beat int64
				var lock string
				err := scan(&id, &lock, &beat)
				beats[id], locks[id] = beat, lock
				return err
			})
	})
	if err != nil {
		return err
	}
	gone := watch.dead(beats)
	dir := filepath.Dir(q.path)
	for id, lock := range locks {
		if free(filepath.Join(dir, filepath.Base(lock))) {
			gone = append(gone, id)
		}
	}
	for _, id := range gone {
		if err := q.bury(ctx, id, beats[id]); err != nil {
			return err
		}
		if err := removeLock(filepath.Join(dir, filepath.Base(locks[id]))); err != nil {
			q.log.Debug("lock file of a dead owner stays", "error", err)
		}
	}
	if len(gone) > 0 {
		q.announce()
		signal(q.stir)
	}
	return nil
}

// bury lets everything of a dead owner lapse, unless it has moved since it was
// seen at beat.
func (q *Queue) bury(ctx context.Context, id, beat int64) error {
	return q.own(ctx, func(ctx context.Context, c *conn, _ int64) error {
		var now int64
		ok, err := c.get(ctx, "select beat from owner where id = ?", []any{id}, &now)
		if err != nil || !ok || now != beat {
			return err
		}
		q.log.Info("queue frees what a dead process held", "owner", id)
		return lapse(ctx, c, id)
	})
}

// free reports whether nobody holds the lock file at path.
func free(path string) bool {
	l := flock.New(path, flock.SetFlag(os.O_RDWR), flock.SetPermissions(0o600))
	ok, err := l.TryLock()
	if err != nil {
		return errors.Is(err, fs.ErrNotExist)
	}
	if ok {
		_ = l.Unlock()
	}
	return ok
}
