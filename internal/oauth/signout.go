package oauth

import (
	"context"
	"errors"
	"fmt"
)

// ErrStillSignedIn means that signing out came to nothing.
var ErrStillSignedIn = errors.New("still signed in")

// SignOut ends a pending sign-in, deletes the secret item and forgets who was
// signed in and what was pinned; the registration stays. The service offers
// no way to revoke a token: an access token that leaked lives on for up to
// ten minutes. When the store cannot delete the item, that is the error, and
// the item is ignored all the same; an error that is ErrStillSignedIn means
// that nothing was changed.
func (s *Session) SignOut(ctx context.Context) error {
	s.mu.Lock()
	a := s.attempt
	s.wanted = ""
	s.mu.Unlock()
	if a != nil {
		a.cancel(errors.New("signed out meanwhile"))
		_ = a.Wait(ctx)
	}
	if err := makeDir(s.dir); err != nil {
		return fmt.Errorf("%w: %w", ErrStillSignedIn, err)
	}
	waiting, cancel := context.WithTimeout(ctx, tokenTimeout)
	defer cancel()
	unlock, err := lock(waiting, s.path("refresh.lock"))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStillSignedIn, err)
	}
	defer unlock()
	st, _, err := readState(s.path("state.json"))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrStillSignedIn, err)
	}
	deleting, cancel := context.WithTimeout(ctx, promptLimit)
	defer cancel()
	err = s.cfg.Store.Delete(deleting)
	// A sign-in that an earlier run kept in a store which this one cannot use,
	// a keychain that is locked now, is out of reach and must not count again.
	left := st.Backend
	if st.SignedOut || left == s.cfg.Store.Name() {
		left = ""
	}
	st.Issuer, st.Resource = "", ""
	if !s.fleeting() || left != "" {
		st.Gen++
		st.Epoch++
		st.SignedOut = true
		st.Identity, st.Readable, st.Print, st.Dead = nil, false, "", ""
	}
	s.commit(st, nil, true)
	s.announceFleeting()
	if err != nil {
		return fmt.Errorf("delete the sign-in in the %s: %w", s.cfg.Store.Name(), err)
	}
	if left != "" {
		return fmt.Errorf("the sign-in in the %s counts as none from now on, but could not be deleted there", left)
	}
	s.log.Info("signed out")
	return nil
}
