package oauth

import (
	"io/fs"
	"os"
	"time"
)

// Changed returns a channel that is closed when a sign-in or a sign-out has
// happened since the call, in this process or, within about a second, in
// another one. Call it again for the next one, before looking at Identity.
func (s *Session) Changed() <-chan struct{} {
	s.mu.Lock()
	watching := s.watching
	s.mu.Unlock()
	var st state
	var info fs.FileInfo
	if !watching {
		// What counts as a change is what comes after this call.
		st, info, _ = readState(s.path("state.json"))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.watching && !s.closed {
		s.watching = true
		if !s.hasEpoch {
			s.setEpoch(st.Epoch)
		}
		s.wg.Go(func() { s.watch(info) })
	}
	return s.changed
}

// watch looks for sign-ins and sign-outs of other processes until Close; seen
// is the version of the state file that is known.
func (s *Session) watch(seen fs.FileInfo) {
	tick := time.NewTicker(watchInterval)
	defer tick.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-tick.C:
		}
		info, err := os.Stat(s.path("state.json"))
		if err != nil || sameVersion(info, seen) {
			continue
		}
		st, info, err := readState(s.path("state.json"))
		if err != nil {
			continue
		}
		seen = info
		s.mu.Lock()
		s.setEpoch(st.Epoch)
		s.mu.Unlock()
	}
}

// setEpoch takes note of the state's epoch and tells whoever waits when it
// has moved; s.mu is held.
func (s *Session) setEpoch(epoch uint64) {
	moved := s.hasEpoch && epoch != s.epoch
	s.epoch, s.hasEpoch = epoch, true
	if moved {
		s.announce()
	}
}

// announce wakes whoever waits for a change; s.mu is held.
func (s *Session) announce() {
	close(s.changed)
	s.changed = make(chan struct{})
}

// announceFleeting announces a sign-in or sign-out that the state file does
// not tell of.
func (s *Session) announceFleeting() {
	if !s.fleeting() {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.announce()
}
