package bellman

import (
	"encoding/json"
	"time"
)

// SystemMember is the sender handle of events the service itself writes.
const SystemMember = "system"

// TimeLayout is how times travel: ISO 8601, UTC, milliseconds.
const TimeLayout = "2006-01-02T15:04:05.000Z"

// FormatTime returns t as it travels on the wire.
func FormatTime(t time.Time) string { return t.UTC().Format(TimeLayout) }

// Event types that end a membership or that the bridge treats apart. The
// rest travel through unread.
const (
	TypeMemberEvicted  = "member_evicted"
	TypeMemberTimedOut = "member_timed_out"
	TypeActionRequest  = "action_request"
)

// Statuses of a room, as session_status.
const (
	StatusActive = "active"
	StatusFrozen = "frozen"
	StatusClosed = "closed"
)

// Sender is who an event comes from: a member handle and its display label.
type Sender struct {
	MemberID string `json:"member_id"`
	Label    string `json:"label"`
}

// Event is one record of a room's log as members see it. Cursors are positive
// and rise by one an event; Ambient marks an event that should not interrupt a
// working agent. See protocol.md 3.1.
type Event struct {
	Cursor  int64           `json:"cursor"`
	Type    string          `json:"type"`
	From    Sender          `json:"from"`
	Payload json.RawMessage `json:"payload"`
	RefID   *string         `json:"ref_id"`
	At      string          `json:"at"`
	Ambient bool            `json:"ambient,omitempty"`
}

// maxCursor is the largest integer that every reader of JSON keeps exact.
const maxCursor = 1<<53 - 1

// Valid reports whether e has what every event must have: a cursor from one to
// the largest safe integer, a type, a sender, and a time.
func (e Event) Valid() bool {
	return e.Cursor >= 1 && e.Cursor <= maxCursor && e.Type != "" && e.From.MemberID != "" && e.At != ""
}

// Time returns when the service wrote e; the zero time when At is unreadable.
func (e Event) Time() time.Time {
	t, err := time.Parse(time.RFC3339Nano, e.At)
	if err != nil {
		return time.Time{}
	}
	return t
}

// Removes reports whether e takes the seat of member: a system record that
// names it as evicted or timed out. The type is looked at before the payload,
// because a peer may write any handle into a message. See bridge.md 2.1.
func (e Event) Removes(member string) bool {
	if e.Type != TypeMemberEvicted && e.Type != TypeMemberTimedOut {
		return false
	}
	var p struct {
		MemberID string `json:"member_id"`
	}
	return json.Unmarshal(e.Payload, &p) == nil && p.MemberID == member
}

// Origin is who wrote the content of an envelope.
type Origin struct {
	MemberID string `json:"memberId"`
	Label    string `json:"label"`
}

// Envelope wraps anything a peer wrote. Trust is always "untrusted".
// See protocol.md 2.
type Envelope[T any] struct {
	Trust  string `json:"trust"`
	Origin Origin `json:"origin"`
	Data   T      `json:"data"`
}

// Untrusted wraps data written by the member with this handle and label.
func Untrusted[T any](member, label string, data T) Envelope[T] {
	return Envelope[T]{Trust: "untrusted", Origin: Origin{MemberID: member, Label: label}, Data: data}
}

// SyncResult is the part of a bellman_sync answer that a client acts on.
type SyncResult struct {
	Events        []Envelope[Event] `json:"events"`
	Cursor        int64             `json:"cursor"`
	SessionStatus string            `json:"session_status"`
	Removed       bool              `json:"removed,omitempty"`
}
