package oauth

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"
)

const (
	humanLimit   = 5 * time.Minute
	prepareLimit = 40 * time.Second
	remindAfter  = time.Minute
	quietTime    = 15 * time.Minute
	joinInterval = 150 * time.Millisecond
)

// errUnapproved means that the person did not finish the sign-in.
var errUnapproved = errors.New("nobody finished the sign-in in the browser in time")

// Attempt is a sign-in under way, in this process or another one. Its methods
// may be called from several goroutines at once.
type Attempt struct {
	cancel context.CancelCauseFunc
	ready  chan struct{}
	done   chan struct{}

	mu     sync.Mutex
	shown  bool
	link   string
	opened bool
	err    error
}

// Link returns the address at which the person goes on in a browser on this
// machine. It is ours, on loopback. It may change while the attempt goes on:
// the one returned last is the one to show. It is empty when the attempt
// ended without needing one.
func (a *Attempt) Link() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.link
}

// Opened reports whether the person is being taken to the link: a browser was
// started on it, or their host asks them to open it.
func (a *Attempt) Opened() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.opened
}

// Wait returns nil once the person is signed in, or why it came to nothing.
// When ctx ends first it returns ctx's error, and the attempt goes on.
func (a *Attempt) Wait(ctx context.Context) error {
	select {
	case <-a.done:
	case <-ctx.Done():
	}
	if over, err := a.over(); over {
		return err
	}
	return ctx.Err()
}

func (a *Attempt) show(link string, opened bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.link, a.opened = link, opened
	if !a.shown {
		a.shown = true
		close(a.ready)
	}
}

func (a *Attempt) end(err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.err = err
	close(a.done)
	if !a.shown {
		a.shown = true
		close(a.ready)
	}
}

// over reports whether the attempt has ended, and how.
func (a *Attempt) over() (bool, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	select {
	case <-a.done:
		return true, a.err
	default:
		return false, nil
	}
}

// SignIn starts the sign-in of this profile at this server, or joins the one
// under way in any process. It returns when there is a link to show, and at
// once with an attempt that is over when another copy has signed in already.
// The attempt goes on in the background, for up to five minutes, whatever
// becomes of ctx.
//
// The person is taken to the link, by Config.Host or Config.Open, unless an
// earlier attempt was not approved in the last 15 minutes: nobody wants a
// second question, or a second tab they did not ask for. One who declines ends
// the attempt with ErrDeclined.
func (s *Session) SignIn(ctx context.Context) (*Attempt, error) { return s.begin(ctx, false) }

// Login is SignIn at the person's own request: it opens a browser however
// recently an attempt was left unapproved.
func (s *Session) Login(ctx context.Context) (*Attempt, error) { return s.begin(ctx, true) }

// begin starts or joins the attempt and waits until there is a link.
func (s *Session) begin(ctx context.Context, asked bool) (*Attempt, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.closed {
		s.mu.Unlock()
		return nil, errClosed
	}
	a := s.attempt
	if a == nil {
		run, cancel := context.WithCancelCause(context.WithoutCancel(ctx))
		a = &Attempt{cancel: cancel, ready: make(chan struct{}), done: make(chan struct{})}
		s.attempt = a
		s.wg.Go(func() {
			defer cancel(nil)
			err := s.run(run, a, asked)
			s.mu.Lock()
			s.attempt = nil
			s.mu.Unlock()
			a.end(err)
		})
	}
	s.mu.Unlock()
	select {
	case <-a.ready:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	if over, err := a.over(); over {
		if err != nil {
			return nil, err
		}
		return a, nil
	}
	if asked && !a.Opened() && s.cfg.Open != nil {
		// It was joined, or its browser could not be opened.
		if err := s.cfg.Open(ctx, a.Link()); err == nil {
			a.show(a.Link(), true)
		}
	}
	return a, nil
}

// run is the whole life of an attempt: its turn, a look whether it is still
// needed, the browser, and the end.
func (s *Session) run(ctx context.Context, a *Attempt, asked bool) error {
	if err := makeDir(s.dir); err != nil {
		return err
	}
	unlock, err := s.turn(ctx, a)
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	defer unlock()
	// What a process that died has left must not be taken for ours: its link
	// leads nowhere. That it opened a browser still counts.
	s.note(record{PID: os.Getpid(), QuietUntil: s.countVain()})
	have, err := s.signedIn(ctx)
	if err != nil || have {
		return err
	}
	if err := s.throughBrowser(ctx, a, asked); err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	s.log.Info("signed in")
	return nil
}

// turn waits for signin.lock and shows the holder's link meanwhile. A sign-in
// that was joined and came to nothing ends this one too; one whose process
// died is taken over.
func (s *Session) turn(ctx context.Context, a *Attempt) (unlock func(), err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, humanLimit+prepareLimit, errUnapproved)
	defer cancel()
	var joined string
	for {
		unlock, ok, err := tryLock(s.path("signin.lock"))
		if err != nil {
			return nil, err
		}
		rec := s.readRecord()
		if ok {
			if joined != "" && rec.ID == joined && rec.Ended && !rec.Approved {
				unlock()
				return nil, errors.New(rec.Reason)
			}
			return unlock, nil
		}
		if rec.Link != "" && !rec.Ended {
			opened := rec.Opened
			if rec.ID == joined {
				opened = opened || a.Opened() // by this process, on the other's link
			} else {
				s.log.Info("joined the sign-in of another process", "pid", rec.PID)
			}
			joined = rec.ID
			a.show(rec.Link, opened)
		}
		if !pause(ctx, joinInterval) {
			return nil, context.Cause(ctx)
		}
	}
}

// signedIn reports whether there is a working sign-in after all, which
// another copy brought while this one waited for its turn. A store that
// cannot be read ends the attempt here, before anybody is sent to a browser
// for a sign-in that could not be kept.
func (s *Session) signedIn(ctx context.Context) (bool, error) {
	c, err := s.load(ctx, promptLimit)
	if err != nil {
		return false, fmt.Errorf("sign in: %w", err)
	}
	if c == nil {
		return false, nil
	}
	s.mu.Lock()
	refused, wanted := s.refused, s.wanted
	s.mu.Unlock()
	if missing(wanted, c.scope) {
		return false, nil
	}
	if c.usable(s.now(), s.margin, refused) {
		return true, nil
	}
	if c.refresh == "" {
		return false, nil
	}
	_, err = s.renew(ctx, refused)
	if errors.Is(err, ErrSignInNeeded) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("sign in: %w", err)
	}
	return true, nil
}
