package oauth

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"
)

// load returns the current credential, nil when there is none. It reads the
// store only when the state file says that the item has changed.
func (s *Session) load(ctx context.Context, limit time.Duration) (*credential, error) {
	if c, ok := s.fresh(); ok {
		return c, nil
	}
	select {
	case s.slot <- struct{}{}:
		defer func() { <-s.slot }()
	case <-ctx.Done():
		return nil, fmt.Errorf("read the sign-in: %w", ctx.Err())
	}
	if c, ok := s.fresh(); ok {
		return c, nil
	}
	st, info, err := readState(s.path("state.json"))
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.loaded && st.Gen == s.gen {
		s.seen = info
		c := s.cred
		s.mu.Unlock()
		return c, nil
	}
	s.mu.Unlock()
	c, err := s.readStore(ctx, limit)
	if err != nil {
		s.shutOut(true)
		return nil, err
	}
	defer s.shutOut(false)
	return s.adopt(c, st, info), nil
}

// shutOut takes note of whether the store can be read. Whoever waits for a
// credential that is in a locked one is told when it opens.
func (s *Session) shutOut(shut bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.shut && !shut {
		s.announce()
	}
	s.shut = shut
}

// fresh returns the credential in memory if no process has changed the state
// file since it was read.
func (s *Session) fresh() (*credential, bool) {
	info, err := os.Stat(s.path("state.json"))
	if err != nil {
		info = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.cred, s.loaded && sameVersion(info, s.seen)
}

// readStore reads the secret item, for at most limit.
func (s *Session) readStore(ctx context.Context, limit time.Duration) (*credential, error) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	b, err := s.cfg.Store.Get(ctx)
	if err != nil {
		return nil, fmt.Errorf("read the sign-in in the %s: %w", s.cfg.Store.Name(), err)
	}
	if b == nil {
		return nil, nil
	}
	c := decodeItem(b)
	if c == nil {
		s.log.Warn("stored sign-in is unreadable and counts as none", "store", s.cfg.Store.Name())
		return nil, nil
	}
	if !s.bound(c.resource) {
		s.log.Warn("stored sign-in is for another server and counts as none", "store", s.cfg.Store.Name())
		return nil, nil
	}
	return c, nil
}

// adopt makes what was read the current credential, unless something newer
// has come since, and returns the one that holds.
func (s *Session) adopt(c *credential, st state, info fs.FileInfo) *credential {
	if !s.fleeting() && (st.SignedOut || c != nil && c.refresh != "" && fingerprint(c.refresh) == st.Dead) {
		c = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.loaded && st.Gen < s.gen {
		s.seen = info // A state file that was taken away must not cost a read of the store each time.
		return s.cred
	}
	newer := c != nil && s.cred != nil && c.gen > s.cred.gen
	if s.unsaved && st.Epoch == s.epoch && !newer {
		// Another process knows only the pair that ours replaced.
		s.gen, s.seen = st.Gen, info
		return s.cred
	}
	s.loaded, s.cred, s.gen, s.seen, s.unsaved = true, c, st.Gen, info, false
	s.setEpoch(st.Epoch)
	return c
}

// renew waits for the one refresh of this process.
func (s *Session) renew(ctx context.Context, refused secret) (string, error) {
	for range 2 {
		f, err := s.board(ctx, refused)
		if err != nil {
			return "", err
		}
		select {
		case <-f.done:
		case <-ctx.Done():
			return "", fmt.Errorf("the sign-in is still being renewed: %w", ctx.Err())
		}
		if f.err != nil {
			return "", f.err
		}
		// A refresh that began before the refusal may have adopted the very
		// token that was refused.
		if f.token != refused {
			return string(f.token), nil
		}
	}
	return "", fmt.Errorf("the service refuses a token that was just issued: %w", ErrSignInNeeded)
}

// board joins the refresh under way or starts one. It is detached from the
// caller: giving up once the refresh token has been sent would lose it.
func (s *Session) board(ctx context.Context, refused secret) (*flight, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.flight != nil {
		return s.flight, nil
	}
	if s.closed {
		return nil, errClosed
	}
	// Never longer than any wait of ours: the clock may have been set back.
	if left := s.retryAt.Sub(s.now()); left > 0 && left <= maxBackoff {
		return nil, s.lastErr
	}
	f := &flight{done: make(chan struct{})}
	s.flight = f
	detached := context.WithoutCancel(ctx)
	s.wg.Go(func() {
		c, err := s.refreshShared(detached, refused)
		s.mu.Lock()
		defer s.mu.Unlock()
		s.flight = nil
		if f.err = err; err == nil {
			f.token = c.access
		}
		s.rest(err)
		close(f.done)
	})
	return f, nil
}

// rest decides when the next refresh may be tried; s.mu is held. Only a
// passing error makes it wait.
func (s *Session) rest(err error) {
	if err == nil || errors.Is(err, ErrSignInNeeded) {
		s.backoff, s.retryAt, s.lastErr = 0, time.Time{}, nil
		return
	}
	s.backoff = min(max(2*s.backoff, minBackoff), usualBackoff)
	wait := s.backoff
	if g, ok := errors.AsType[*grantError](err); ok {
		wait = max(wait, g.after)
	}
	s.lastErr, s.retryAt = err, s.now().Add(wait)
}

// refreshShared gets a usable token under refresh.lock: the one another
// process has stored, or a new one. It returns after about a minute at most.
func (s *Session) refreshShared(ctx context.Context, refused secret) (*credential, error) {
	if err := makeDir(s.dir); err != nil {
		return nil, err
	}
	waiting, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	unlock, err := lock(waiting, s.path("refresh.lock"))
	if err != nil {
		return nil, fmt.Errorf("another copy is refreshing the sign-in: %w", err)
	}
	defer unlock()
	st, c, err := s.reload(ctx)
	if err != nil {
		return nil, err
	}
	for range 2 {
		switch {
		case c == nil:
			return nil, ErrSignInNeeded
		case c.usable(s.now(), s.margin, refused):
			return c, nil
		case c.refresh == "":
			return nil, ErrSignInNeeded
		}
		sending, cancel := context.WithTimeout(ctx, tokenTimeout)
		next, err := s.renewGrant(sending, c)
		cancel()
		if err == nil {
			next.gen = c.gen + 1
			s.keep(ctx, st, next, nil)
			s.log.Debug("token refreshed")
			s.renewed(refused)
			return next, nil
		}
		g, ok := errors.AsType[*grantError](err)
		if !ok || !g.spent() && !g.unknownClient() {
			return nil, fmt.Errorf("refresh the sign-in: %w", err)
		}
		// Every writer holds the lock, but a lock is only as good as the file
		// system under it: look once more before giving the sign-in up.
		spent := c.refresh
		if st, c, err = s.reload(ctx); err != nil {
			return nil, err
		}
		if c == nil || c.refresh == spent {
			return nil, s.bury(ctx, st, c, g)
		}
	}
	return nil, ErrSignInNeeded
}

// reload reads state and store anew; refresh.lock is held.
func (s *Session) reload(ctx context.Context) (state, *credential, error) {
	st, info, err := readState(s.path("state.json"))
	if err != nil {
		return state{}, nil, err
	}
	c, err := s.readStore(ctx, storeLimit)
	if err != nil {
		s.mu.Lock()
		mine, current := s.cred, s.loaded && st.Gen == s.gen
		s.mu.Unlock()
		if current {
			return st, mine, nil // Nobody has changed the item, so it is the one in memory.
		}
		return state{}, nil, err
	}
	return st, s.adopt(c, st, info), nil
}

// bury writes down that the server does not know c's refresh token any more;
// refresh.lock is held. The item stays where it is: it is worthless, and
// deleting it could destroy what another copy is about to write.
func (s *Session) bury(ctx context.Context, st state, c *credential, cause *grantError) error {
	s.log.Info("sign-in has ended", "code", cause.code)
	if c != nil && cause.unknownClient() {
		delete(st.Registrations, c.issuer)
	}
	if s.fleeting() {
		if err := s.cfg.Store.Delete(ctx); err != nil {
			s.log.Warn("spent sign-in could not be forgotten", "cause", err)
		}
	} else {
		if c != nil {
			st.Dead = fingerprint(c.refresh)
		}
		st.Gen++
		st.Epoch++
		st.Identity, st.Readable, st.Print = nil, false, ""
	}
	s.commit(st, nil, true)
	s.announceFleeting()
	return fmt.Errorf("%w: %w", ErrSignInNeeded, cause)
}

// fleeting reports whether the item ends with this process, so that the state
// file must not promise it to others.
func (s *Session) fleeting() bool {
	_, ok := s.cfg.Store.(volatile)
	return ok
}

// renewed counts the refreshes in a row whose token the service refused at
// once.
func (s *Session) renewed(refused secret) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if refused != "" && s.justRenewed() {
		s.barren++
	} else {
		s.barren = 0
	}
	s.renewedAt = s.now()
}

// justRenewed reports whether the last refresh was moments ago; s.mu is held.
func (s *Session) justRenewed() bool {
	ago := s.now().Sub(s.renewedAt)
	return 0 <= ago && ago < barrenTime
}
