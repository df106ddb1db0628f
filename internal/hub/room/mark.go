package room

import (
	"context"
	"encoding/json"
	"fmt"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/journal"
)

// Marks by which rooms are found again. Audit rows are marks too: they stay
// when their room is purged.
const (
	markCode   = "code"   // join code
	markSeat   = "seat"   // user id, while seated in a room that is not closed; the body is createdIt or nil
	markEver   = "ever"   // user id, for good
	markOpen   = "open"   // every room that is not closed
	markClosed = "closed" // every closed room that is not purged
	markOrg    = "org"    // organization a closed room was started in
	markBeat   = "beat"   // open rooms with a heartbeat or housekeeping
	markBlob   = "blob"   // blob id
	markAudit  = "audit"  // organization; the body is the row
)

// createdIt is in the seat mark of whoever created the room.
var createdIt = []byte("creator")

// marks says how the room is to be found after rec.
func (r *room) marks(rec *record) ([]journal.Mark, error) {
	var marks []journal.Mark
	r.look(func(s *state, _ int64) {
		marks = append(marks, lifeMarks(s, rec)...)
		marks = append(marks, seatMarks(s, rec)...)
		marks = append(marks, departureMarks(s, rec)...)
		if rec.Blob != nil {
			marks = append(marks, journal.Mark{Space: markBlob, Key: rec.Blob.ID})
		}
		for _, id := range rec.Drop {
			marks = append(marks, journal.Mark{Space: markBlob, Key: id, Drop: true})
		}
		for _, role := range rec.Retire {
			marks = append(marks, journal.Mark{Space: markCode, Key: s.codes[role].Code, Drop: true})
		}
		for _, c := range rec.Codes {
			if old, ok := s.codes[c.Role]; ok {
				marks = append(marks, journal.Mark{Space: markCode, Key: old.Code, Drop: true})
			}
			marks = append(marks, journal.Mark{Space: markCode, Key: c.Code})
		}
	})
	for _, row := range rec.audit {
		body, err := row.body(r.id, rec.At)
		if err != nil {
			return nil, err
		}
		for _, org := range row.Orgs {
			marks = append(marks, journal.Mark{Space: markAudit, Key: org, Body: body})
		}
	}
	return marks, nil
}

// lifeMarks are those of a room that opens or is closed.
func lifeMarks(s *state, rec *record) []journal.Mark {
	var marks []journal.Mark
	if c := rec.Open; c != nil {
		marks = append(marks, journal.Mark{Space: markOpen})
		if c.Manifest.Heartbeat > 0 || c.Manifest.Housekeeping != nil {
			marks = append(marks, journal.Mark{Space: markBeat})
		}
	}
	if rec.Status == StatusClosed {
		marks = append(marks, journal.Mark{Space: markOpen, Drop: true}, journal.Mark{Space: markBeat, Drop: true},
			journal.Mark{Space: markClosed})
		if s.charter.Org != "" {
			marks = append(marks, journal.Mark{Space: markOrg, Key: s.charter.Org})
		}
	}
	return marks
}

// seatMarks are those of somebody who takes a seat. Earlier ones of the same
// person give way, so that the newest seat is found first.
func seatMarks(s *state, rec *record) []journal.Mark {
	if rec.Seat == nil {
		return nil
	}
	user := rec.Seat.User
	seat := journal.Mark{Space: markSeat, Key: user}
	if rec.Open != nil || user == s.charter.Creator {
		seat.Body = createdIt
	}
	return []journal.Mark{
		{Space: markSeat, Key: user, Drop: true},
		seat,
		{Space: markEver, Key: user, Drop: true},
		{Space: markEver, Key: user},
	}
}

// departureMarks drops the seat marks of people who hold no other seat, and of
// everybody when the room is closed.
func departureMarks(s *state, rec *record) []journal.Mark {
	gone := map[string]bool{}
	for _, d := range rec.Depart {
		gone[d.Member] = true
	}
	var leaving []string
	staying := map[string]bool{}
	if rec.Seat != nil {
		staying[rec.Seat.User] = true
	}
	for _, m := range s.seated() {
		if gone[m.ID] || rec.Status == StatusClosed {
			leaving = append(leaving, m.User)
		} else {
			staying[m.User] = true
		}
	}
	var marks []journal.Mark
	for _, user := range leaving {
		if !staying[user] {
			marks = append(marks, journal.Mark{Space: markSeat, Key: user, Drop: true})
		}
	}
	return marks
}

// AuditEntry is one line of an organization's audit log.
type AuditEntry struct {
	At        string          `json:"at"`
	SessionID string          `json:"session_id"`
	Actor     string          `json:"actor"`
	Action    string          `json:"action"`
	Detail    json.RawMessage `json:"detail"`
}

func (a auditRow) body(room string, at int64) ([]byte, error) {
	detail, err := encode(a.Detail)
	if err != nil {
		return nil, err
	}
	return encode(AuditEntry{At: wireTime(at), SessionID: room, Actor: a.Actor, Action: a.Action, Detail: detail})
}

// Audit returns the newest entries of an organization's log, oldest first.
func (h *House) Audit(ctx context.Context, org string, limit int) ([]AuditEntry, error) {
	marks, err := h.log.Find(ctx, markAudit, org, limit)
	if err != nil {
		return nil, err
	}
	entries := make([]AuditEntry, len(marks))
	for i, m := range marks {
		if err := json.Unmarshal(m.Body, &entries[len(marks)-1-i]); err != nil {
			return nil, fmt.Errorf("read audit entry: %w", err)
		}
	}
	return entries, nil
}

// note adds an audit row for the organizations concerned: the room's, the
// actor's, and those of the people it happened to.
func (r *record) note(s *state, who account.Identity, action string, detail any, affected ...*member) {
	row := auditRow{Actor: who.Label, Action: action, Detail: detail}
	seen := map[string]bool{"": true}
	orgs := []string{s.charter.Org, who.Org()}
	if r.Open != nil {
		orgs = append(orgs, r.Open.Org)
	}
	for _, m := range affected {
		if m.Org != nil {
			orgs = append(orgs, *m.Org)
		}
	}
	for _, org := range orgs {
		if !seen[org] {
			seen[org] = true
			row.Orgs = append(row.Orgs, org)
		}
	}
	if len(row.Orgs) > 0 {
		r.audit = append(r.audit, row)
	}
}
