package room

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"bellman.sh/desktop/internal/remote"
)

// The numbers of trying again, from bridge.md 3.2.
const (
	firstBackoff    = time.Second
	backoffCap      = 30 * time.Second
	degradedCap     = 120 * time.Second
	degradedAfter   = 3
	stableAfter     = 30 * time.Second
	credentialCheck = 30 * time.Second
	storageCheck    = 5 * time.Second
	storageCap      = 60 * time.Second

	// retryAfterCap bounds what a service can ask for: a mistake there must
	// not silence a room for a day.
	retryAfterCap = 10 * time.Minute
)

// trouble counts what went wrong since a socket was last stable.
type trouble struct {
	failures  int // of the socket, in a row
	unstored  int // times the queue could not be written, in a row; a failure to connect says nothing of it
	signedOut int // times there was no credential, in a row
}

// pause is how long to leave the service alone: floor whatever happens, rest
// unless a Kick says that the world has changed.
type pause struct{ floor, rest time.Duration }

// note counts a failure and returns the pause before the next try.
func (t *trouble) note(what verdict, err error) pause {
	p := pause{floor: askedFor(err)}
	if what != noCredential {
		t.signedOut = 0
	}
	switch what {
	case unstored:
		t.unstored++
		p.rest = spread(doubled(storageCheck, t.unstored, storageCap))
	case noCredential:
		t.signedOut++
		p.rest = spread(doubled(credentialCheck, t.signedOut, degradedCap))
	case askTheRoom, notOffered:
		t.failures = max(t.failures+1, degradedAfter)
		p.rest = backoff(t.failures)
	case transient:
		t.failures++
		p.rest = backoff(t.failures)
	}
	return p
}

// askedFor is the pause an answer asks for.
func askedFor(err error) time.Duration {
	if e, ok := errors.AsType[*remote.Error](err); ok {
		return min(e.RetryAfter, retryAfterCap)
	}
	return 0
}

// backoff is full jitter below a cap that doubles with each failure in a row.
// Once polling serves meanwhile, the socket waits half of it at least.
func backoff(failures int) time.Duration {
	if failures >= degradedAfter {
		return spread(doubled(firstBackoff, failures, degradedCap))
	}
	return rand.N(doubled(firstBackoff, failures, backoffCap) + 1) //nolint:gosec // jitter
}

// doubled is first, doubled with each time after the first, up to limit.
func doubled(first time.Duration, times int, limit time.Duration) time.Duration {
	return min(limit, first<<min(times-1, 10))
}

// spread takes up to half off d, so that rooms do not come back together.
func spread(d time.Duration) time.Duration {
	return d/2 + rand.N(d/2+1) //nolint:gosec // jitter
}

// between waits for the next try of the socket, while polls, if any, go on;
// those that could not store what they read go on after a pause of their own.
// It returns what else ended them. A Kick cuts the wait and ends held polls,
// which may be on a network that is gone.
func (k *watch) between(ctx context.Context, p pause, kicked <-chan struct{}, t *trouble, polls **polling) error {
	floor, due := time.NewTimer(p.floor), time.NewTimer(max(p.floor, p.rest))
	defer floor.Stop()
	defer due.Stop()
	var cut <-chan struct{}    // kicked, once the floor has passed
	var again <-chan time.Time // polls are paused until then
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-floor.C:
			cut = kicked
		case <-due.C:
			if *polls != nil {
				t.unstored = 0
			}
			return nil
		case <-cut:
			(*polls).stop()
			*polls = nil
			return nil
		case <-(*polls).ended():
			(*polls).stop() // for its context
			err := (*polls).err
			*polls = nil
			if judge(err) != unstored {
				return err
			}
			again = time.After(t.note(unstored, err).rest)
			k.report(unstored, *t, err, false)
		case <-again:
			*polls = k.startPolling(ctx)
		}
	}
}

// sleep waits for d, the end of ctx, or cut.
func sleep(ctx context.Context, d time.Duration, cut <-chan struct{}) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-cut:
	case <-ctx.Done():
	}
}
