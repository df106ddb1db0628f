package room

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"time"

	"golang.org/x/sync/errgroup"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// The reconnect's numbers, from bridge.md 3.2.
const (
	firstBackoff    = time.Second
	backoffCap      = 30 * time.Second
	degradedCap     = 120 * time.Second
	degradedAfter   = 3
	stableAfter     = 30 * time.Second
	credentialCheck = 30 * time.Second
)

// follow reads the room until something ends it. While the socket cannot be
// had it polls, and keeps trying the socket.
func (k *watch) follow(ctx context.Context) error {
	failures := 0
	for {
		opened := time.Now()
		err := k.readSocket(ctx)
		if final(ctx, err) {
			return err
		}
		if time.Since(opened) >= stableAfter {
			failures = 0
		}
		failures++
		if verdict := judgeSocket(err); verdict != transient {
			// The socket's word is not the last one: the room itself is asked.
			if err := k.pollAll(ctx); final(ctx, err) {
				return err
			}
			failures = max(failures, degradedAfter)
		}
		k.log.Debug("the room socket is not open", "failures", failures, "error", err)
		if err := k.between(ctx, failures); final(ctx, err) {
			return err
		}
	}
}

// final reports whether err, or the end of ctx, ends the watch.
func final(ctx context.Context, err error) bool {
	return ctx.Err() != nil || errors.Is(err, errAllEnded) || errors.Is(err, errPaused) ||
		errors.Is(err, queue.ErrStale) || errors.Is(err, queue.ErrClosed)
}

func (k *watch) readSocket(ctx context.Context) error {
	if err := k.w.limit.Wait(ctx); err != nil {
		return err
	}
	cursor, ok := k.start()
	if !ok {
		return errAllEnded
	}
	s, err := k.w.cfg.Remote.OpenSocket(ctx, k.room, cursor)
	if err != nil {
		return err
	}
	defer s.Close()
	k.setSocket(s)
	defer k.setSocket(nil)
	k.log.Debug("the room socket is open", "cursor", cursor)
	for {
		e, raw, err := s.Read(ctx)
		if err != nil {
			return err
		}
		if err := k.take(ctx, e, raw); err != nil {
			return err
		}
	}
}

// verdict is what a failed socket says of the room.
type verdict int

const (
	transient  verdict = iota // nothing: try again
	askTheRoom                // it may be over, or the socket may not be offered
	noCredential
)

func judgeSocket(err error) verdict {
	if errors.Is(err, remote.ErrSignInNeeded) {
		return noCredential
	}
	if errors.Is(err, remote.ErrRemoved) {
		return askTheRoom
	}
	if e, ok := errors.AsType[*remote.Error](err); ok {
		switch e.Status {
		case 0, http.StatusRequestTimeout, http.StatusTooManyRequests, http.StatusInternalServerError,
			http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
			return transient
		}
		return askTheRoom
	}
	return transient
}

// between waits for the next try of the socket. Once degraded it polls for
// every member meanwhile.
func (k *watch) between(ctx context.Context, failures int) error {
	d := backoff(failures)
	if failures < degradedAfter {
		k.sleep(ctx, d)
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	g, gctx := errgroup.WithContext(ctx)
	g.Go(func() error { // Kick cuts the wait, not only its next round
		select {
		case <-k.w.retry():
			cancel()
		case <-gctx.Done():
		}
		return nil
	})
	for _, member := range k.members() {
		g.Go(func() error { return k.pollUntil(gctx, member) })
	}
	return g.Wait()
}

// backoff is full jitter below a cap that doubles with each failure in a row.
func backoff(failures int) time.Duration {
	limit := backoffCap
	if failures >= degradedAfter {
		limit = degradedCap
	}
	d := min(limit, firstBackoff<<min(failures-1, 10))
	if failures >= degradedAfter {
		// Polling serves meanwhile, so the socket can wait a little at least.
		return d/2 + rand.N(d/2+1) //nolint:gosec // jitter
	}
	return rand.N(d + 1) //nolint:gosec // jitter
}

func (k *watch) sleep(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
	case <-k.w.retry():
	case <-ctx.Done():
	}
}
