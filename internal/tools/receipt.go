package tools

import (
	"context"
	"sync"
	"time"
)

// Receipt is told what becomes of a reply: Leaving right before the first byte
// goes out, which must not block; then Written, or Lost (left is true when part
// of it may have gone out); after Written perhaps Recalled, when the host turned
// out not to have read it. An error is for the log: what could not be noted is
// noted later, or events come again.
type Receipt struct {
	Leaving  func()
	Written  func(ctx context.Context) error
	Lost     func(ctx context.Context, left bool) error
	Recalled func(ctx context.Context) error
}

// noting counts the replies that have left and are yet to be noted in the
// queue. A host may answer one with its next call sooner than that is done, and
// must not be told that what it has just read still waits.
type noting struct {
	mu   sync.Mutex
	open int
	none chan struct{} // closed when open is 0 again
}

func (n *noting) begin() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open++; n.open == 1 {
		n.none = make(chan struct{})
	}
}

func (n *noting) end() {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.open--; n.open == 0 {
		close(n.none)
	}
}

// wait waits until nothing is on its way, ctx ends or noteTime has passed.
func (n *noting) wait(ctx context.Context) {
	n.mu.Lock()
	open, none := n.open, n.none
	n.mu.Unlock()
	if open == 0 {
		return
	}
	t := time.NewTimer(noteTime)
	defer t.Stop()
	select {
	case <-none:
	case <-t.C:
	case <-ctx.Done():
	}
}

// over returns r, counted from Leaving to its Written or Lost.
func (n *noting) over(r Receipt) Receipt {
	leaving, written, lost := r.Leaving, r.Written, r.Lost
	left := false
	r.Leaving = func() {
		n.begin()
		left = true
		if leaving != nil {
			leaving()
		}
	}
	end := func() {
		if left {
			left = false
			n.end()
		}
	}
	r.Written = func(ctx context.Context) error {
		defer end()
		return written(ctx)
	}
	r.Lost = func(ctx context.Context, part bool) error {
		defer end()
		return lost(ctx, part)
	}
	return r
}
