package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// mend opens the file again when it is not what it was: removed or replaced
// under this process, or found damaged. What was removed is written anew from
// the descriptors this process still has; another process's new file is taken
// as it is; a damaged one is set aside. In a file that this process did not
// write, its leases are stale and its claims come again, as after a lapse.
func (q *Queue) mend(ctx context.Context) error {
	old := q.store.Load()
	info, err := os.Stat(q.path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case os.SameFile(info, old.file) && !old.damaged.Load():
		return nil
	}
	o := opening{path: q.path, log: q.log, now: q.set.now, check: true}
	if old.damaged.Load() {
		return q.replaceDamaged(ctx, old, o)
	}
	w, err := borrow(ctx, old.writer) // nothing is written to the old file from here on
	if err != nil {
		return err
	}
	ours := false // the new file is all that the old one was
	o.rescue = func(ctx context.Context) error {
		err := w.copyTo(ctx, q.path)
		ours = err == nil
		return err
	}
	st, err := o.open(ctx)
	if err == nil && !ours {
		err = q.standDown(ctx, st)
	}
	if err != nil {
		old.writer <- w
		return fmt.Errorf("open queue %s again: %w", q.path, err)
	}
	q.store.Store(st)
	old.retired.Store(true) // who waits for w goes to the new one
	old.writer <- w
	return errors.Join(old.close(), q.settleIn(ctx))
}

// replaceDamaged closes the old store first: Windows moves no file that is
// open. Until the next one is there, calls say why they cannot be served.
func (q *Queue) replaceDamaged(ctx context.Context, old *store, o opening) error {
	if !old.retired.Swap(true) {
		if err := old.close(); err != nil {
			q.log.Debug("damaged file was not closed in order", "error", err)
		}
	}
	st, err := o.open(ctx)
	if err == nil {
		err = q.standDown(ctx, st)
	}
	if err != nil {
		return fmt.Errorf("open queue %s again: %w", q.path, err)
	}
	q.store.Store(st)
	return q.settleIn(ctx)
}

// standDown has this process lapse in a file that somebody else made, before
// anything uses it. What was written to the old file meanwhile is not in the
// new one: a lease that still held would move the cursor past events that are
// gone, and a claim settled in the old file would be held for ever.
func (q *Queue) standDown(ctx context.Context, st *store) error {
	self := q.owner().id
	err := st.write(ctx, false, func(ctx context.Context, c *conn) error { return lapse(ctx, c, self) })
	if err != nil {
		return errors.Join(err, st.close())
	}
	return nil
}

// settleIn tells everybody about the new store.
func (q *Queue) settleIn(ctx context.Context) error {
	q.log.Warn("queue file was removed, replaced or damaged, and has been opened again", "file", q.path)
	q.announce()
	signal(q.stir)
	return q.beat(ctx) // a beat registers where the row is gone
}

// copyTo writes the whole content behind c to a new file at path.
func (c *conn) copyTo(ctx context.Context, path string) error {
	part := path + ".part"
	f, err := os.OpenFile(part, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }()
	if _, err := c.c.ExecContext(ctx, "vacuum into ?", part); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	return os.Rename(part, path)
}
