package room

import (
	"encoding/json"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/manifest"
)

// record is one step of a room as the log keeps it: what changed, and the
// events members see of it, if any. Times are Unix milliseconds. Fields are
// never renamed or given a new meaning, for old logs are read forever.
type record struct {
	At     int64           `json:"at"`
	Open   *charter        `json:"open,omitempty"`
	Seat   *member         `json:"seat,omitempty"`
	Depart []departure     `json:"depart,omitempty"`
	Seen   []string        `json:"seen,omitempty"`
	Brief  *briefChange    `json:"brief,omitempty"`
	Report string          `json:"report,omitempty"` // the member that made progress
	Codes  []code          `json:"codes,omitempty"`
	Retire []string        `json:"retire,omitempty"` // roles whose code is no more
	Write  *item           `json:"write,omitempty"`
	Erase  string          `json:"erase,omitempty"` // a surface key
	Status string          `json:"status,omitempty"`
	Key    *kept           `json:"key,omitempty"`
	Blob   *Blob           `json:"blob,omitempty"`
	Drop   []string        `json:"drop,omitempty"` // blob ids swept away
	Public *bool           `json:"public,omitempty"`
	Tick   bool            `json:"tick,omitempty"` // the heartbeat fired
	Found  []finding       `json:"found,omitempty"`
	Events []bellman.Event `json:"events,omitempty"`

	audit []auditRow
}

// charter is what a room is founded on. It never changes.
type charter struct {
	ID       string            `json:"id"`
	Creator  string            `json:"creator"` // user id
	Org      string            `json:"org,omitempty"`
	OrgOnly  bool              `json:"org_only,omitempty"`
	Manifest manifest.Manifest `json:"manifest"`
	Ceiling  int64             `json:"ceiling"`        // blob bytes
	Keep     int64             `json:"keep,omitempty"` // milliseconds after closing; 0 is until deleted
}

// member is a seat, taken or left. A person may hold several.
type member struct {
	ID           string   `json:"id"`
	User         string   `json:"user"`
	Label        string   `json:"label"`
	Org          *string  `json:"org"`
	Role         string   `json:"role"`
	Capabilities []string `json:"capabilities"`
	Brief        Brief    `json:"brief"`

	joined, seen, reported int64
	left                   int64 // 0 while seated
	cut                    int64 // cursor of its removal by the creator, or 0
}

// How a seat was left.
const (
	byLeaving  = "left"
	byEviction = "evicted"
	byTimeout  = "timed_out"
)

type departure struct {
	Member string `json:"member"`
	How    string `json:"how"`
	Cut    int64  `json:"cut,omitempty"`
}

type briefChange struct {
	Member string `json:"member"`
	Brief  Brief  `json:"brief"`
}

type code struct {
	Role    string `json:"role"`
	Code    string `json:"code"`
	Expires int64  `json:"expires"`
}

// kept is an idempotency key and what it was used for.
type kept struct {
	Member      string `json:"member"`
	Key         string `json:"key"`
	Fingerprint string `json:"fingerprint"`
	Cursor      int64  `json:"cursor"`
}

// Blob is a stored file of the room.
type Blob struct {
	ID     string `json:"id"`
	Bytes  int64  `json:"bytes"`
	Type   string `json:"type"`
	Name   string `json:"name"`
	Member string `json:"member"` // who uploaded it
}

// finding is one housekeeping announcement.
type finding struct {
	Key    string `json:"key"` // what is silent: the finding and its subject
	Since  int64  `json:"since"`
	Repeat int    `json:"repeat"`
	At     int64  `json:"at"`
}

// auditRow is one line of an organization's audit log; Orgs are those whose
// log it goes to.
type auditRow struct {
	Actor, Action string
	Detail        any
	Orgs          []string
}

// empty reports whether there is nothing to store.
func (r *record) empty() bool {
	return r.Open == nil && r.Seat == nil && len(r.Depart) == 0 && len(r.Seen) == 0 && r.Brief == nil && r.Report == "" &&
		len(r.Codes) == 0 && len(r.Retire) == 0 && r.Write == nil && r.Erase == "" && r.Status == "" && r.Key == nil &&
		r.Blob == nil && len(r.Drop) == 0 && r.Public == nil && !r.Tick && len(r.Found) == 0 && len(r.Events) == 0 && len(r.audit) == 0
}

// say adds an event and returns its cursor, which is the next of the state's
// log. The state is the one the record is decided on.
func (r *record) say(s *state, kind string, from bellman.Sender, payload any, ref *string) (int64, error) {
	body, err := encode(payload)
	if err != nil {
		return 0, err
	}
	cursor := s.last() + int64(len(r.Events)) + 1
	r.Events = append(r.Events, bellman.Event{
		Cursor: cursor, Type: kind, From: from, Payload: body, RefID: ref, At: wireTime(r.At), Ambient: ambient(kind, body),
	})
	return cursor, nil
}

// ambient reports whether an event should leave a working agent alone.
func ambient(kind string, payload json.RawMessage) bool {
	switch kind {
	case TypeProgress, TypeSurface:
		return true
	case typeHeartbeat:
		var p struct {
			Members []json.RawMessage `json:"members"`
		}
		return json.Unmarshal(payload, &p) == nil && len(p.Members) == 0
	}
	return false
}
