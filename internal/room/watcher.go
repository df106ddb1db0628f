package room

import (
	"context"
	"errors"
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

	// stopped is how long the Watcher must not have run for its leases to be
	// in doubt. It is less than the time after which the queue takes a silent
	// process for dead.
	stopped = 6 * time.Second

	// After a wake a thousand rooms must not connect in one second.
	connectsPerSecond = 100
	connectBurst      = 50

	// A watch that ended by itself is not started again at once, whatever
	// ended it. A room that somebody else holds is tried when leases changed,
	// and seldom without that.
	restartAfter = time.Second
	heldAgain    = time.Minute
)

// Config is what a Watcher works with. Identity tells whose rooms to watch; ok
// is false while nobody is signed in. It is asked from many goroutines at once.
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
	clock   func() reading // for tests of sleep
	network func() string  // for tests of another network

	news    *news
	kick    chan struct{}
	returns chan struct{} // signalled by a watch that has returned

	// These belong to Run's goroutine alone.
	watches map[string]*watch  // by room
	rest    map[string]respite // rooms not to be started yet
	id      queue.Identity     // whose watches they are
	changes int                // how often the queue has said that something changed
	blind   bool               // the memberships could not be read, and this was said
	joined  string             // what network last said

	mu    sync.Mutex
	again chan struct{} // closed to cut every back-off short
}

// respite is why a room is not tried yet.
type respite struct {
	began   time.Time
	until   time.Time
	held    bool // by another bridge: a change ends the respite
	changes int  // seen when the room was last tried
}

// New returns a Watcher that does nothing before Run.
func New(cfg Config) *Watcher {
	return &Watcher{
		cfg:     cfg,
		limit:   rate.NewLimiter(connectsPerSecond, connectBurst),
		clock:   readClocks,
		network: localAddresses,
		news:    newNews(),
		kick:    make(chan struct{}, 1),
		returns: make(chan struct{}, 1),
		watches: map[string]*watch{},
		rest:    map[string]respite{},
		again:   make(chan struct{}),
	}
}

// Kick says that a credential or the network may have changed: every watch
// tries again now. It does not block and may be called at any time.
func (w *Watcher) Kick() {
	w.mu.Lock()
	close(w.again)
	w.again = make(chan struct{})
	w.mu.Unlock()
	signal(w.kick)
}

// retry returns a channel that is closed when waiting has become pointless.
func (w *Watcher) retry() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.again
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}

// Run watches until ctx ends, gives the leases back and returns when every
// goroutine of it has. It is called once.
func (w *Watcher) Run(ctx context.Context) {
	var running sync.WaitGroup
	defer running.Wait()
	defer w.stopAll()
	running.Go(func() { w.publish(ctx) })
	t := time.NewTicker(tick)
	defer t.Stop()
	last := w.clock()
	w.joined = w.network()
	for ctx.Err() == nil {
		changed := w.cfg.Queue.Changed()
		w.reconcile(ctx, &running)
		select {
		case <-ctx.Done():
		case <-changed:
			w.changes++
		case <-w.kick:
		case <-w.returns:
		case <-t.C:
			w.mindNetwork()
		}
		now := w.clock()
		w.mindClocks(ctx, last, now)
		last = now
	}
}

func (w *Watcher) stopAll() {
	for _, k := range w.watches {
		k.cancel()
	}
}

// reconcile starts what should be watched and is not, and stops what is and
// should not be.
func (w *Watcher) reconcile(ctx context.Context, running *sync.WaitGroup) {
	wanted, err := w.wanted(ctx)
	if err != nil {
		if !w.blind && ctx.Err() == nil && !errors.Is(err, queue.ErrClosed) {
			w.cfg.Log.Warn("the memberships cannot be read; it is tried again", "error", err)
		}
		w.blind = true
		return
	}
	w.blind = false
	now := time.Now()
	for room, k := range w.watches {
		switch {
		case k.done():
			delete(w.watches, room)
			w.rest[room] = k.respite(now)
		case k.id != w.id || !k.serves(wanted[room]):
			k.cancel() // taken off the list once it has returned
		}
	}
	maps.DeleteFunc(w.rest, func(room string, r respite) bool { return len(wanted[room]) == 0 || r.over(now, w.changes) })
	for _, room := range slices.Sorted(maps.Keys(wanted)) {
		_, resting := w.rest[room]
		if _, exists := w.watches[room]; !exists && !resting {
			w.start(ctx, running, room, wanted[room])
		}
	}
}

func (w *Watcher) start(ctx context.Context, running *sync.WaitGroup, room string, members []queue.Membership) {
	k := newWatch(w, w.id, room, members)
	k.changes = w.changes
	ctx, k.cancel = context.WithCancel(ctx)
	w.watches[room] = k
	running.Go(func() {
		defer signal(w.returns)
		defer close(k.ended)
		defer k.cancel()
		k.outcome = k.run(ctx)
	})
}

// respite is how long a room whose watch has returned is left alone. One that
// was called off, to be started for other members, is not.
func (k *watch) respite(now time.Time) respite {
	switch {
	case errors.Is(k.outcome, queue.ErrHeld):
		return respite{began: now, until: now.Add(heldAgain), held: true, changes: k.changes}
	case errors.Is(k.outcome, context.Canceled):
		return respite{until: now}
	}
	return respite{until: now.Add(restartAfter)}
}

func (r respite) over(now time.Time, changes int) bool {
	return !now.Before(r.until) || r.held && changes != r.changes && now.Sub(r.began) >= restartAfter
}

// wanted returns the memberships to watch by room. A change of identity stops
// every watch of the one before.
func (w *Watcher) wanted(ctx context.Context) (map[string][]queue.Membership, error) {
	id, ok := w.cfg.Identity()
	if !ok {
		return nil, nil
	}
	w.id = id
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
