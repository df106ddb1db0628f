package room

import (
	"errors"
	"fmt"
	"strings"

	"bellman.sh/desktop/internal/hub/manifest"
)

// Code says which kind of refusal an Error is, for routes that answer with a
// status.
type Code string

// Codes of refusals. See protocol.md 5.3.
const (
	NotFound  Code = "not_found"
	Closed    Code = "closed"
	Frozen    Code = "frozen"
	Forbidden Code = "forbidden"
	Conflict  Code = "conflict"
	Invalid   Code = "invalid"
	OverQuota Code = "over_quota"
)

// Error is a refusal: a rule of the room said no and nothing was changed.
// Text is written for the caller and may name members of the caller's own
// room. Any other error of this package is a fault of the hub.
type Error struct {
	Code Code
	Text string
	// Used and Ceiling are the room's blob bytes, when Code is OverQuota.
	Used, Ceiling int64
}

func (e *Error) Error() string { return e.Text }

func refuse(code Code, format string, args ...any) error {
	return &Error{Code: code, Text: fmt.Sprintf(format, args...)}
}

func errNotFound() error {
	return refuse(NotFound, "session not found: there is no such session, or its record was deleted")
}

func errNoMember(member string) error {
	return refuse(NotFound, "member_id %q is not a handle of yours in this session", member)
}

func errClosed() error {
	return refuse(Closed, "this session is closed: its history stays readable, but nothing can be sent or joined")
}

func errFrozen() error {
	return refuse(Frozen, "this session is frozen because the plan that created it lapsed: members stay and history stays readable, "+
		"but nothing new can be sent or joined until the plan is restored")
}

func errLeft(member string) error {
	return refuse(Forbidden, "member %q has left the session: it can read the history, but must join again with a code to write", member)
}

func errVerb(m manifest.Manifest, role, verb string) error {
	r, _ := m.Role(role)
	held := strings.Join(r.Can, ", ")
	if held == "" {
		held = "none"
	}
	return refuse(Forbidden, "your role %q does not hold the verb %q (it holds: %s)", role, verb, held)
}

// asRefusal returns the refusal in err, or nil.
func asRefusal(err error) *Error {
	e, _ := errors.AsType[*Error](err)
	return e
}
