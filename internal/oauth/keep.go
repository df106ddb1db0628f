package oauth

import (
	"context"
	"fmt"
	"os"
	"time"
)

// keep stores a fresh credential and what change does to the state;
// refresh.lock is held. A store that does not take it does not cost the
// session: the pair stays in memory and is offered again later.
func (s *Session) keep(ctx context.Context, st state, c *credential, change func(*state)) {
	c.gen = max(c.gen, st.Gen+1)
	id, bad := readIdentity(c.access)
	failure := s.store(ctx, c)
	if failure == nil && !s.fleeting() {
		st.Backend, st.Dead, st.SignedOut = s.cfg.Store.Name(), "", false
		st.Gen, st.Print, st.Identity, st.Readable = c.gen, c.print, &id, bad == nil
	}
	if change != nil {
		change(&st)
	}
	if bad != nil {
		s.log.Info("token does not say in full who is signed in", "fields", bad)
	}
	s.mu.Lock()
	first := !s.unsaved
	s.mu.Unlock()
	s.commit(st, c, failure == nil)
	if failure == nil {
		return
	}
	if first {
		s.log.Warn("sign-in could not be stored and stays in memory for now", "store", s.cfg.Store.Name(), "cause", failure)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.saving && !s.closed {
		s.saving = true
		detached := context.WithoutCancel(ctx)
		s.wg.Go(func() { s.saveLater(detached) })
	}
}

// store offers the item to the store.
func (s *Session) store(ctx context.Context, c *credential) error {
	b, err := c.encode()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	return s.cfg.Store.Set(ctx, b)
}

// commit writes the state file and makes c the current credential; stored
// tells whether the store has it. refresh.lock is held.
func (s *Session) commit(st state, c *credential, stored bool) {
	st.Server, st.Profile = s.cfg.Server, s.cfg.Profile
	err := writeState(s.path("state.json"), st)
	if err != nil {
		s.log.Warn("sign-in state could not be written", "cause", err)
	}
	info, statErr := os.Stat(s.path("state.json"))
	if statErr != nil {
		info = nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.loaded, s.cred, s.seen, s.unsaved = true, c, info, c != nil && !stored
	if err == nil {
		s.gen = st.Gen
		s.setEpoch(st.Epoch)
	}
	if c == nil || s.refused != c.access {
		s.refused = ""
	}
}

// saveLater offers an unsaved credential to the store until it takes it.
func (s *Session) saveLater(ctx context.Context) {
	tick := time.NewTicker(saveInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		limited, cancel := context.WithTimeout(ctx, tokenTimeout)
		err := s.flush(limited)
		cancel()
		if err == nil {
			s.mu.Lock()
			s.saving = false
			s.mu.Unlock()
			return
		}
	}
}

// flush stores the credential that the store would not take, if there is one.
func (s *Session) flush(ctx context.Context) error {
	if !s.pending() {
		return nil
	}
	unlock, err := lock(ctx, s.path("refresh.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	st, c, err := s.reload(ctx)
	if err != nil {
		return err
	}
	if c == nil || !s.pending() {
		return nil // Somebody has signed in or out meanwhile.
	}
	next := *c
	s.keep(ctx, st, &next, nil)
	if s.pending() {
		return fmt.Errorf("the %s does not take the sign-in", s.cfg.Store.Name())
	}
	return nil
}

func (s *Session) pending() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.unsaved
}
