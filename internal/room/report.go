package room

import (
	"context"
	"errors"
	"sync"
	"time"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// reportEvery is how often at most what watches say of themselves is written.
const reportEvery = time.Second

// news is what watches have said of themselves and is still to be written: for
// each room the latest.
type news struct {
	mu      sync.Mutex
	pending map[string]queue.Report
	some    chan struct{} // signalled when there is any
}

func newNews() *news {
	return &news{pending: map[string]queue.Report{}, some: make(chan struct{}, 1)}
}

func (n *news) add(r queue.Report) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pending[r.Lease.Room] = r
	signal(n.some)
}

func (n *news) take() []queue.Report {
	n.mu.Lock()
	defer n.mu.Unlock()
	list := make([]queue.Report, 0, len(n.pending))
	for _, r := range n.pending {
		list = append(list, r)
	}
	clear(n.pending)
	return list
}

// giveBack keeps what could not be written, as far as nothing newer has come.
func (n *news) giveBack(list []queue.Report) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, r := range list {
		if _, newer := n.pending[r.Lease.Room]; !newer {
			n.pending[r.Lease.Room] = r
		}
	}
	signal(n.some)
}

// publish writes the news for `bellman-bridge status` until ctx ends. What is
// written after that would be of leases that are given back.
func (w *Watcher) publish(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.news.some:
		}
		pause, list := reportEvery, w.news.take()
		if err := w.cfg.Queue.Report(ctx, list); err != nil && ctx.Err() == nil {
			w.news.giveBack(list)
			pause = storageCheck
			w.cfg.Log.Debug("what the watches do could not be noted", "error", err)
		}
		sleep(ctx, pause, nil)
	}
}

// say notes how the watch does. An empty state or problem leaves the last one
// standing; what has been said already is not said again.
func (k *watch) say(state queue.State, problem string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	said, now := k.said, time.Now()
	if state != "" && state != said.State {
		said.State, said.Since = state, now
	}
	if problem != "" && (problem != said.Problem || said.State != k.said.State) {
		said.Problem, said.ProblemAt = problem, now
	}
	if said == k.said {
		return
	}
	said.Lease = k.lease
	k.said = said
	k.w.news.add(said)
}

// words say what went wrong, for the person: nothing of them is a secret or
// was written by somebody else.
func words(err error) string {
	if _, ok := errors.AsType[storageError](err); ok {
		return "events cannot be stored: " + err.Error()
	}
	if e, ok := errors.AsType[*remote.Error](err); ok {
		return e.Plain()
	}
	switch {
	case errors.Is(err, remote.ErrSignInNeeded):
		return "nobody is signed in, or the service refuses the sign-in"
	case errors.Is(err, remote.ErrRemoved):
		return "the service has closed the room socket"
	}
	for _, own := range []error{errNoAnswer, errUnsettled, errRoomOver} {
		if errors.Is(err, own) {
			return own.Error()
		}
	}
	return "the service refused a poll"
}
