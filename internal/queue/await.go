package queue

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
)

// waiter is a call of Await that has nothing yet.
type waiter struct {
	id    Identity
	f     Filter
	lim   Limit
	order uint64
	gone  bool         // nobody waits any more; it was being served when that was found
	ready chan outcome // of one
}

type outcome struct {
	batch Batch
	err   error
}

// Await is Claim that waits until there is something. When ctx's deadline
// passes first, the batch is empty and the error nil; when ctx is cancelled,
// that is the error and nothing is claimed. Of several waiters each event goes
// to one, and in one process a waiter with a filter comes before one without.
// Events of this process wake it directly, those of others within 100 ms.
func (q *Queue) Await(ctx context.Context, id Identity, f Filter, lim Limit) (Batch, error) {
	if ctx.Err() != nil { // a look without a wait
		return q.lastLook(ctx, id, f, lim)
	}
	w := &waiter{id: id, f: f, lim: lim, ready: make(chan outcome, 1)}
	if !q.enqueue(w) {
		return Batch{}, fmt.Errorf("wait for events: %w", ErrClosed)
	}
	signal(q.stir)
	signal(q.nudge)
	select {
	case got := <-w.ready:
		return q.served(got)
	case <-ctx.Done():
	}
	if !q.leave(w) { // it is being served at this moment
		got := <-w.ready
		switch {
		case got.err != nil, got.batch.Token != "" && !errors.Is(ctx.Err(), context.Canceled):
			return q.served(got)
		case got.batch.Token != "":
			return Batch{}, q.giveUp(ctx, got.batch)
		}
	}
	// A wait shorter than the time it takes to be served looks once all the same.
	return q.lastLook(ctx, id, f, lim)
}

// lastLook is the end of an Await: nothing more is waited for. After a deadline
// it looks once, after a cancellation it does not.
func (q *Queue) lastLook(ctx context.Context, id Identity, f Filter, lim Limit) (Batch, error) {
	if errors.Is(ctx.Err(), context.Canceled) {
		return Batch{}, fmt.Errorf("wait for events: %w", ctx.Err())
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detached)
	defer cancel()
	return q.Claim(ctx, id, f, lim)
}

func (q *Queue) served(got outcome) (Batch, error) {
	if got.err != nil {
		return Batch{}, fmt.Errorf("wait for events: %w", got.err)
	}
	return got.batch, nil
}

// giveUp puts back what came for a waiter that was cancelled meanwhile.
func (q *Queue) giveUp(ctx context.Context, b Batch) error {
	detachedCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), detached)
	defer cancel()
	err := q.Release(detachedCtx, b.Token, false)
	return fmt.Errorf("wait for events: %w", errors.Join(ctx.Err(), err))
}

func (q *Queue) enqueue(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	if q.closed {
		return false
	}
	q.order++
	w.order = q.order
	q.waiters = append(q.waiters, w)
	return true
}

// take takes w off the list and reports whether it was there.
func (q *Queue) take(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.takeLocked(w)
}

func (q *Queue) takeLocked(w *waiter) bool {
	i := slices.Index(q.waiters, w)
	if i < 0 {
		return false
	}
	q.waiters = slices.Delete(q.waiters, i, i+1)
	return true
}

// leave is take for the waiter itself: when it is not there, it is being
// served, and an outcome will come at once.
func (q *Queue) leave(w *waiter) bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	w.gone = !q.takeLocked(w)
	return !w.gone
}

// inTurn returns the waiters in the order they are served.
func (q *Queue) inTurn() []*waiter {
	q.mu.Lock()
	defer q.mu.Unlock()
	list := slices.Clone(q.waiters)
	slices.SortFunc(list, func(a, b *waiter) int {
		if open := a.f == (Filter{}); open != (b.f == (Filter{})) {
			if open {
				return 1
			}
			return -1
		}
		return cmp.Compare(a.order, b.order)
	})
	return list
}

// letOthersFirst serves who waits for something that a look with f would take
// away from them: a look comes after everybody who was there before it, except
// that those without a filter come last.
func (q *Queue) letOthersFirst(ctx context.Context, f Filter) {
	ctx = context.WithoutCancel(ctx) // whose end is not the waiters'
	for _, w := range q.inTurn() {
		if f == (Filter{}) || w.f != (Filter{}) {
			q.serve(ctx, w)
		}
	}
}

func (q *Queue) waiting() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.waiters) > 0
}

// dispatch serves waiters whenever something may have come for them.
func (q *Queue) dispatch(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-q.stir:
		}
		empty := make(map[look]bool) // what this round has found to have nothing
		for _, w := range q.inTurn() {
			if l := (look{w.id, w.f}); !empty[l] {
				empty[l] = !q.serve(ctx, w)
			}
		}
	}
}

// look is what a waiter looks for.
type look struct {
	id Identity
	f  Filter
}

// serve claims for one waiter and reports whether there may be more to claim.
// The waiter is taken off the list before the claim, so that it either gets the
// batch or was never served.
func (q *Queue) serve(ctx context.Context, w *waiter) bool {
	var some bool
	err := q.read(ctx, func(ctx context.Context, c *conn) (err error) {
		some, err = ready(ctx, c, w.id, w.f)
		return err
	})
	if ctx.Err() != nil {
		return false // dismiss ends the wait
	}
	if err == nil && !some {
		return false
	}
	if !q.take(w) {
		return true
	}
	var b Batch
	if err == nil {
		b, err = q.claim(ctx, w.id, w.f, w.lim)
	}
	switch {
	case ctx.Err() != nil && b.Token == "":
		err = ErrClosed
	case err == nil && b.Token == "": // another process was faster
		q.restore(w)
		return false
	}
	w.ready <- outcome{b, err}
	return true
}

// restore puts a waiter back in its old place.
func (q *Queue) restore(w *waiter) {
	q.mu.Lock()
	defer q.mu.Unlock()
	switch {
	case q.closed:
		w.ready <- outcome{err: ErrClosed}
	case w.gone:
		w.ready <- outcome{}
	default:
		q.waiters = append(q.waiters, w)
	}
}

// dismiss ends every wait.
func (q *Queue) dismiss() {
	q.mu.Lock()
	defer q.mu.Unlock()
	for _, w := range q.waiters {
		w.ready <- outcome{err: ErrClosed}
	}
	q.waiters = nil
}
