package oauth

import (
	"encoding/json"
	"time"
)

// record is what the process that signs in tells the others, in signin.json:
// the link, which they may show, and how it ended. It holds no verifier and
// no state. Only the holder of signin.lock writes it.
type record struct {
	ID         string    `json:"id"`
	PID        int       `json:"pid"`
	Link       string    `json:"link,omitempty"`
	Opened     bool      `json:"opened,omitempty"`
	Ended      bool      `json:"ended,omitempty"`
	Approved   bool      `json:"approved,omitempty"`
	Brought    string    `json:"brought,omitempty"` // fingerprint of the access token it ended with
	Reason     string    `json:"reason,omitempty"`
	QuietUntil time.Time `json:"quiet_until,omitzero"` // no browser unasked before then
}

// quiet reports whether an earlier attempt is too recent to open a browser. A
// time further ahead than any of ours comes from a clock that was wrong.
func (r record) quiet(now time.Time) bool {
	left := r.QuietUntil.Sub(now)
	return left > 0 && left <= quietTime
}

// countVain returns until when no browser opens unasked, by what the last
// attempt left, and counts that attempt when it was in vain. Approved ones
// count once the service has refused the very token that two of them in a row
// brought: that must not become a tab at every call.
func (s *Session) countVain() time.Time {
	rec := s.readRecord()
	s.mu.Lock()
	defer s.mu.Unlock()
	if !rec.Approved {
		return rec.QuietUntil
	}
	if rec.Brought == "" || rec.Brought != s.vain {
		s.inVain = 0
		return time.Time{}
	}
	if s.inVain++; s.inVain < 2 {
		return time.Time{}
	}
	return rec.QuietUntil
}

// readRecord returns the record of the latest attempt, empty when there is
// none to be read.
func (s *Session) readRecord() record {
	b, _, err := readFile(s.path("signin.json"))
	if err != nil {
		return record{}
	}
	var r record
	if json.Unmarshal(b, &r) != nil {
		return record{}
	}
	return r
}

// note writes the record. Failing costs the others the link, not us the
// sign-in.
func (s *Session) note(r record) {
	b, err := json.Marshal(r)
	if err == nil {
		err = writeFile(s.path("signin.json"), b)
	}
	if err != nil {
		s.log.Warn("sign-in in progress could not be noted for other copies", "cause", err)
	}
}
