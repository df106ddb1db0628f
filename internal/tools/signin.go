package tools

import (
	"context"
	"encoding/json"
	"errors"
	"time"
)

// SignIn is the browser sign-in. A second implementation stands in for it in
// tests, where no browser is.
type SignIn interface {
	// SignIn starts the one sign-in of this machine and server or joins it.
	SignIn(ctx context.Context) (Attempt, error)
}

// Attempt is a sign-in under way. It goes on when nobody waits for it.
type Attempt interface {
	Link() string // our own start link, to be opened by the person
	Opened() bool // the person is being taken to it
	Wait(ctx context.Context) error
}

// signInLimit is how long after its arrival a call waits for the person.
const signInLimit = 45 * time.Second

// enoughLeft is how much time a call must have left after a sign-in to be
// carried out; with less the agent is asked to call again.
const enoughLeft = 2 * time.Second

// signIn gets the person signed in for a call that needs it. ok means that the
// call may go on; else answer says what the agent is to do.
func (b *Bridge) signIn(ctx context.Context, c Call) (answer Answer, ok bool) {
	if b.cfg.SignIn == nil {
		return failure("the service refused BELLMAN_KEY. Nothing was sent. Ask the person to set a valid key, or to remove it and sign in with the browser."), false
	}
	deadline, _ := ctx.Deadline()
	waitCtx, cancel := context.WithDeadline(ctx, deadline.Add(signInLimit-callLimit))
	defer cancel()
	attempt, err := b.cfg.SignIn.SignIn(waitCtx)
	if err != nil {
		return failure("sign-in could not start: %s. Nothing was sent. Call again once that is mended; the person can run bellman-bridge doctor to see what is wrong.", explain(err)), false
	}
	pending, err := b.awaitPerson(waitCtx, c, attempt)
	switch {
	case ctx.Err() != nil && errors.Is(context.Cause(ctx), context.Canceled):
		return failure("cancelled; nothing was sent."), false
	case pending:
		return failure("sign-in needed. Nothing was sent. Give the person this link to open on this machine, then call again when they have approved: %s", attempt.Link()), false
	case err != nil:
		return failure("sign-in did not succeed: %s. Nothing was sent. Call again when the person wants to try once more.", explain(err)), false
	case time.Until(deadline) < enoughLeft:
		return failure("signed in. Nothing was sent yet: call again."), false
	}
	return Answer{}, true
}

// awaitPerson waits for the end of the attempt as long as ctx lasts, or only a
// moment when no browser is open on it: it may just be finishing, or the copy
// whose tab it was may have ended, and only a new link leads on. pending means
// that it goes on without us.
func (b *Bridge) awaitPerson(ctx context.Context, c Call, a Attempt) (pending bool, err error) {
	if a.Opened() {
		defer b.reportProgress(ctx, c, "Waiting for the sign-in in the browser")()
	}
	for {
		moment, cancel := context.WithTimeout(ctx, time.Second)
		err = a.Wait(moment)
		pending = err != nil && moment.Err() != nil && errors.Is(err, moment.Err())
		cancel()
		if !pending || ctx.Err() != nil || !a.Opened() {
			return pending, err
		}
	}
}

// reportProgress tells the host now and every 5 s that the call is alive, when
// it asked for progress. The returned function ends that and waits for it.
func (b *Bridge) reportProgress(ctx context.Context, c Call, message string) (stop func()) {
	if c.Progress == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(ctx)
	done := make(chan struct{})
	go func() {
		defer close(done)
		tick := time.NewTicker(5 * time.Second)
		defer tick.Stop()
		for n := 1; ; n++ {
			b.progress(c.Progress, float64(n), 0, message)
			select {
			case <-tick.C:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func() { cancel(); <-done }
}

func (b *Bridge) progress(token json.RawMessage, at, total float64, message string) {
	p := map[string]any{"progressToken": token, "progress": at}
	if total > 0 {
		p["total"] = total
	}
	if message != "" {
		p["message"] = message
	}
	b.cfg.Notify("notifications/progress", p)
}
