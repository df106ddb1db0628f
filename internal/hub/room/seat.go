package room

import (
	"crypto/rand"
	"encoding/hex"
	"slices"
	"time"

	"bellman.sh/desktop/internal/hub/account"
)

const (
	// presentFor is how long after being heard from a member is present.
	presentFor = 10 * time.Minute
	// touchEvery is how often being heard from is worth a record.
	touchEvery = 5 * time.Minute
)

// newHandle makes a member handle that the room has not given out.
func newHandle(s *state) string {
	for {
		var b [4]byte
		_, _ = rand.Read(b[:]) // It never fails.
		if id := "m_" + hex.EncodeToString(b[:]); s.member(id) == nil {
			return id
		}
	}
}

// presence of m at now. An open socket of the same person vouches for it.
func (r *room) presence(m *member, now int64) string {
	switch {
	case m.left != 0:
		return Departed
	case r.sockets[m.User] > 0 || now-m.seen <= presentFor.Milliseconds():
		return Present
	}
	return Stale
}

func (r *room) roster(members []*member, now int64) []PublicMember {
	list := make([]PublicMember, len(members))
	for i, m := range members {
		list[i] = PublicMember{StoredMember: m.stored(), Presence: r.presence(m, now)}
	}
	return list
}

// presentCount is how many seats are held by somebody who is there.
func (r *room) presentCount(s *state, now int64) int {
	n := 0
	for _, m := range s.seated() {
		if r.presence(m, now) == Present {
			n++
		}
	}
	return n
}

// reclaimable is the stale member that has been quiet longest, or nil.
func (r *room) reclaimable(s *state, now int64) *member {
	var longest *member
	for _, m := range s.seated() {
		if r.presence(m, now) == Stale && (longest == nil || m.seen < longest.seen) {
			longest = m
		}
	}
	return longest
}

// touch notes that m was heard from, if that is worth a record.
func touch(s *state, rec *record, m *member, now int64) {
	if s.status == StatusActive && m.left == 0 && now-m.seen >= touchEvery.Milliseconds() {
		rec.Seen = append(rec.Seen, m.ID)
	}
}

// gate is what every write passes: the room is live, the seat is the caller's
// and taken, and, after the caller is noted as present, its role holds the
// verb. The record may have to be stored even when the gate refuses.
func gate(s *state, who account.Identity, handle, verb string, now int64) (*member, *record, error) {
	switch s.status {
	case StatusClosed:
		return nil, nil, errClosed()
	case StatusFrozen:
		return nil, nil, errFrozen()
	}
	m, err := s.own(who.UserID, handle)
	if err != nil {
		return nil, nil, err
	}
	if m.left != 0 {
		return nil, nil, errLeft(handle)
	}
	rec := &record{At: now}
	touch(s, rec, m, now)
	if !s.manifest().Can(m.Role, verb) {
		return nil, rec, errVerb(*s.manifest(), m.Role, verb)
	}
	return m, rec, nil
}

// endIfEmpty closes the room when the record leaves nobody seated.
func endIfEmpty(s *state, rec *record) {
	gone := make([]string, len(rec.Depart))
	for i, d := range rec.Depart {
		gone[i] = d.Member
	}
	for _, m := range s.seated() {
		if !slices.Contains(gone, m.ID) {
			return
		}
	}
	rec.Status = StatusClosed
}
