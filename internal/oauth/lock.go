package oauth

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/gofrs/flock"
)

// tryLock takes the lock file at path if nobody has it. The file is never
// deleted; the kernel frees the lock when its holder dies, whatever it died
// of, so there is no staleness to judge.
func tryLock(path string) (unlock func(), ok bool, err error) {
	l := flock.New(path, flock.SetPermissions(0o600))
	ok, err = l.TryLock()
	if err != nil {
		return nil, false, fmt.Errorf("take %s: %w", path, err)
	}
	if !ok {
		return nil, false, nil
	}
	return func() { _ = l.Close() }, true, nil // Closing the descriptor is what frees it, and that cannot fail in a way that keeps it.
}

// lock waits for the lock file at path until ctx ends.
func lock(ctx context.Context, path string) (unlock func(), err error) {
	for {
		unlock, ok, err := tryLock(path)
		if err != nil || ok {
			return unlock, err
		}
		// flock cannot wait with a limit. The jitter keeps several bridges that
		// were started together from asking in step.
		if !pause(ctx, 50*time.Millisecond+rand.N(100*time.Millisecond)) { //nolint:gosec // Jitter needs no secrecy.
			return nil, fmt.Errorf("wait for %s: %w", path, context.Cause(ctx))
		}
	}
}

// pause waits for d, or until ctx ends and then returns false.
func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-t.C:
		return true
	}
}
