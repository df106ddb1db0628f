package queue

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
)

// fate is what has become of a file while it was open.
type fate int

const (
	intact    fate = iota
	removed        // it, its log or the index of that; this process still has all of them
	replaced       // another file is in its place
	estranged      // it is there, and somebody else has begun another log for it
)

// fate finds out what has become of the file at path and of its log.
func (s *store) fate(path string) (fate, error) {
	is, err := since(path, s.file)
	if err != nil || is != intact {
		return is, err
	}
	for i, suffix := range logSuffixes {
		if s.log[i] == nil {
			continue // there is no log
		}
		switch now, err := since(path+suffix, s.log[i]); {
		case err != nil:
			return intact, err
		case now == replaced:
			return estranged, nil
		case now == removed:
			is = removed
		}
	}
	return is, nil
}

// since finds out what has become of one file since it was opened.
func since(path string, opened fs.FileInfo) (fate, error) {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return removed, nil
	case err != nil:
		return intact, err
	case !os.SameFile(info, opened):
		return replaced, nil
	}
	return intact, nil
}

// mend opens the file again when it is not what it was: removed or replaced
// under this process, bereft of its log, or found damaged. What was removed is
// written anew from the descriptors this process still has; another process's
// new file is taken as it is; a damaged one is set aside. In a file that this
// process did not write, its leases are stale and its claims come again, as
// after a lapse.
func (q *Queue) mend(ctx context.Context) error {
	old := q.store.Load()
	is, err := old.fate(q.path)
	if err != nil {
		return err
	}
	o := opening{path: q.path, log: q.log, now: q.set.now, check: true}
	switch {
	case is == estranged || old.damaged.Load():
		return q.reopen(ctx, old, o)
	case is == intact:
		return nil
	}
	w, err := borrow(ctx, old.writer) // nothing is written to the old file from here on
	if err != nil {
		return err
	}
	ours := false // the new file is all that the old one was
	o.rescue = func(ctx context.Context) error {
		if is, err := old.fate(q.path); err != nil || is != removed {
			return err // another process was faster
		}
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

// reopen closes the old store first: Windows moves no file that is open, and in
// one process a file has one index of its log. Until the next store is there,
// calls say why they cannot be served.
func (q *Queue) reopen(ctx context.Context, old *store, o opening) error {
	if !old.retired.Swap(true) {
		if err := old.close(); err != nil {
			q.log.Debug("queue file was not closed in order", "error", err)
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

// copyTo writes the whole content behind c to a new file at path, without the
// log of the one before, which would be taken for its own.
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
	for _, suffix := range append([]string{"-journal"}, logSuffixes...) {
		if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return os.Rename(part, path)
}
