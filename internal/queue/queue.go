package queue

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// settings are the numbers of a queue. Programs use defaults; tests and
// benchmarks move bounds and times.
type settings struct {
	roomEvents, roomBytes   int64
	totalEvents, totalBytes int64
	lease                   time.Duration // a silent owner is taken for dead
	beat                    time.Duration // between two heartbeats
	poll, idlePoll          time.Duration // between two looks for other processes' writes, with and without waiters
	keep                    time.Duration // acknowledged rows can be recalled
	retain                  time.Duration // undelivered events of ended memberships
	now                     func() time.Time
}

func defaults() settings {
	return settings{
		roomEvents: 10_000, roomBytes: 16 << 20,
		totalEvents: 100_000, totalBytes: 256 << 20,
		lease: 10 * time.Second, beat: 2 * time.Second,
		poll: 40 * time.Millisecond, idlePoll: 250 * time.Millisecond,
		keep: 2 * time.Minute, retain: 30 * 24 * time.Hour,
		now: time.Now,
	}
}

// Queue is an open queue file. Its methods may be called at the same time; they
// block for as long as other writers are busy, 5 s at most for other
// processes, and return ErrClosed after Close.
type Queue struct {
	path  string
	log   *slog.Logger
	set   settings
	store atomic.Pointer[store] // replaced when the file under it is; see mend

	stop   context.CancelFunc
	wg     sync.WaitGroup
	detach func() (context.Context, context.CancelFunc) // for what must be written although its caller has gone
	stir   chan struct{}                                // wakes the dispatcher
	nudge  chan struct{}                                // wakes the watcher
	enrol  chan struct{}                                // held while a new owner registers

	unstored atomic.Pointer[error] // what SQLite said of the last Put

	mu      sync.Mutex
	self    owner
	claims  map[string]*claim // not settled yet, by token
	acked   []ackedClaim      // kept rows of ours, oldest first
	debts   []debt            // writes that failed and are owed
	waiters []*waiter
	order   uint64 // of waiters
	changed chan struct{}
	closed  bool
}

// detached bounds what is written after its caller has gone.
const detached = 10 * time.Second

// Open opens the queue file at path, making it and its directory when they do
// not exist, and starts the goroutines that keep it; Close ends them. ctx
// bounds the opening only.
//
// It refuses a file of another program or of a newer version (ErrForeign) and a
// network file system (ErrNetwork), naming the path. A corrupt file is set
// aside beside it with its memberships carried over, which is logged.
func Open(ctx context.Context, path string, log *slog.Logger) (*Queue, error) {
	return open(ctx, path, log, defaults())
}

func open(ctx context.Context, path string, log *slog.Logger, set settings) (*Queue, error) {
	st, err := opening{path: path, log: log, now: set.now}.open(ctx)
	if err != nil {
		return nil, fmt.Errorf("open queue %s: %w", path, err)
	}
	q := &Queue{
		path: path, log: log, set: set,
		stir: make(chan struct{}, 1), nudge: make(chan struct{}, 1), enrol: make(chan struct{}, 1),
		claims: make(map[string]*claim), changed: make(chan struct{}),
	}
	q.store.Store(st)
	base := context.WithoutCancel(ctx)
	q.detach = func() (context.Context, context.CancelFunc) { return context.WithTimeout(base, detached) }
	if err := q.register(ctx, owner{}); err != nil {
		return nil, errors.Join(fmt.Errorf("open queue %s: register: %w", path, err), st.close())
	}
	watch := newObserver(q.set.lease, q.set.beat)
	if err := q.reap(ctx, watch); err != nil {
		return nil, errors.Join(fmt.Errorf("open queue %s: free dead claims: %w", path, err), q.resign(ctx), st.close())
	}
	run, stop := context.WithCancel(base)
	q.stop = stop
	q.wg.Go(func() { q.watch(run, watch) })
	q.wg.Go(func() { q.dispatch(run) })
	q.wg.Go(func() { q.checkpoint(run) })
	return q, nil
}

// Close puts back what was claimed and not acknowledged, flagged where Sent
// was called, gives up leases and syncs, and closes the file. Waiters return
// ErrClosed. It waits for the queue's goroutines. A second Close does nothing.
func (q *Queue) Close() error {
	q.mu.Lock()
	if q.closed {
		q.mu.Unlock()
		return nil
	}
	q.closed = true
	q.mu.Unlock()
	q.stop()
	q.wg.Wait()
	q.dismiss()
	ctx, cancel := q.detach()
	defer cancel()
	q.payDebts(ctx)
	err := errors.Join(q.resign(ctx), q.store.Load().close())
	if err != nil {
		return fmt.Errorf("close queue %s: %w", q.path, err)
	}
	return nil
}

// Changed returns a channel that is closed when memberships, leases or bounds
// may have changed, in this or another process. Take the channel first and
// then look, and no change is missed; signals are not counted and may be
// spurious.
func (q *Queue) Changed() <-chan struct{} {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.changed
}

// using runs do on the store, and once more when the store was replaced before
// do could begin.
func (q *Queue) using(do func(*store) error) error {
	for {
		st := q.store.Load()
		if err := do(st); !errors.Is(err, errRetired) || st == q.store.Load() {
			return err
		}
	}
}

func (q *Queue) write(ctx context.Context, durable bool, what func(context.Context, *conn) error) error {
	return q.using(func(s *store) error { return s.write(ctx, durable, what) })
}

func (q *Queue) read(ctx context.Context, what func(context.Context, *conn) error) error {
	return q.using(func(s *store) error { return s.read(ctx, what) })
}

// announce closes the channel that Changed gave out.
func (q *Queue) announce() {
	q.mu.Lock()
	defer q.mu.Unlock()
	close(q.changed)
	q.changed = make(chan struct{})
}

// signal makes one value pending in c.
func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// revise notes in the file that memberships, leases or bounds changed, for the
// watchers of other processes.
func revise(ctx context.Context, c *conn) error {
	_, err := c.exec(ctx, "update total set revision = revision + 1")
	return err
}

// debt is a write that is owed: the world has moved on, the file has not.
type debt func(context.Context) error

// owe has a failed write tried again in the background.
func (q *Queue) owe(d debt) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.debts = append(q.debts, d)
}

// payDebts tries every write that is owed, in order, and keeps those that fail
// again.
func (q *Queue) payDebts(ctx context.Context) {
	q.mu.Lock()
	owed := q.debts
	q.debts = nil
	q.mu.Unlock()
	for i, d := range owed {
		if err := d(ctx); err != nil {
			q.mu.Lock()
			q.debts = append(owed[i:len(owed):len(owed)], q.debts...)
			q.mu.Unlock()
			return
		}
	}
}
