package room

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

const (
	// tick is how often the Watcher looks again without being told: a room
	// whose holder died is taken over within it.
	tick = 2 * time.Second

	// asleep is how far the wall clock must run ahead of the monotonic one
	// for the machine to have slept.
	asleep = 10 * time.Second

	// After a wake a thousand rooms must not connect in one second.
	connectsPerSecond = 50
	connectBurst      = 50
)

// Config is what a Watcher works with. Identity tells whose rooms to watch; ok
// is false while nobody is signed in.
type Config struct {
	Queue    *queue.Queue
	Remote   *remote.Client
	Identity func() (id queue.Identity, ok bool)
	Log      *slog.Logger
}

// Watcher watches rooms. Make it with New, run it with Run.
type Watcher struct {
	cfg     Config
	limit   *rate.Limiter
	kick    chan struct{}
	watches map[string]*watch // by room; of Run's goroutine alone
	id      queue.Identity    // whose watches they are

	mu    sync.Mutex
	again chan struct{} // closed to cut every back-off short
}

// New returns a Watcher that does nothing before Run.
func New(cfg Config) *Watcher {
	return &Watcher{
		cfg:     cfg,
		limit:   rate.NewLimiter(connectsPerSecond, connectBurst),
		kick:    make(chan struct{}, 1),
		watches: map[string]*watch{},
		again:   make(chan struct{}),
	}
}

// Kick says that a credential or the network may have changed: every watch
// tries again now. It does not block.
func (w *Watcher) Kick() {
	w.mu.Lock()
	close(w.again)
	w.again = make(chan struct{})
	w.mu.Unlock()
	select {
	case w.kick <- struct{}{}:
	default:
	}
}

// retry returns a channel that is closed when waiting has become pointless.
func (w *Watcher) retry() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.again
}

// Run watches until ctx ends, gives the leases back and returns when every
// goroutine of it has.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer w.stopAll()
	t := time.NewTicker(tick)
	defer t.Stop()
	last := time.Now()
	for ctx.Err() == nil {
		changed := w.cfg.Queue.Changed()
		w.reconcile(ctx, &running)
		select {
		case <-ctx.Done():
		case <-changed:
		case <-w.kick:
		case <-t.C:
		}
		now := time.Now()
		if slept(last, now) {
			w.cfg.Log.Info("the machine slept; every room is checked")
			w.wake()
		}
		last = now
	}
}

// slept compares the two clocks: only the wall clock goes on during a sleep.
func slept(last, now time.Time) bool {
	return now.Round(0).Sub(last.Round(0))-now.Sub(last) > asleep
}

func (w *Watcher) wake() {
	for _, k := range w.watches {
		k.proveSocket()
	}
	w.Kick()
}

func (w *Watcher) stopAll() {
	for _, k := range w.watches {
		k.cancel()
	}
}

// reconcile starts what should be watched and is not, and stops what is and
// should not be. A watch that ended by itself is started again here, by the
// next tick at the earliest when the queue says nothing of a change.
func (w *Watcher) reconcile(ctx context.Context, running *sync.WaitGroup) {
	wanted, err := w.wanted(ctx)
	if err != nil {
		if ctx.Err() == nil {
			w.cfg.Log.Warn("the memberships could not be read", "error", err)
		}
		return
	}
	for room, k := range w.watches {
		if k.done() {
			delete(w.watches, room)
			continue
		}
		if !k.serves(wanted[room]) {
			k.cancel() // removed once it has returned
		}
	}
	for _, room := range slices.Sorted(maps.Keys(wanted)) {
		if _, exists := w.watches[room]; exists {
			continue
		}
		k := newWatch(w, w.id, room, wanted[room])
		var watchCtx context.Context
		watchCtx, k.cancel = context.WithCancel(ctx)
		w.watches[room] = k
		running.Go(func() {
			defer close(k.ended)
			k.run(watchCtx)
		})
	}
}

// wanted returns the memberships to watch by room. A change of identity stops
// every watch of the one before.
func (w *Watcher) wanted(ctx context.Context) (map[string][]queue.Membership, error) {
	id, ok := w.cfg.Identity()
	if !ok {
		return nil, nil
	}
	if id != w.id {
		w.stopAll()
		w.id = id
	}
	all, err := w.cfg.Queue.Memberships(ctx, id)
	if err != nil {
		return nil, err
	}
	wanted := map[string][]queue.Membership{}
	now := time.Now()
	for _, m := range all {
		if m.Watchable(now) && !m.Full {
			wanted[m.Room] = append(wanted[m.Room], m)
		}
	}
	return wanted, nil
}
