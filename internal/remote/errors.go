package remote

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"unicode"
)

// ErrSignInNeeded means that no usable token is at hand and only the person
// can bring one. The request was not processed.
var ErrSignInNeeded = errors.New("sign-in needed")

// Error is a request to the service that got no answer to pass on.
type Error struct {
	Status int    // HTTP status when the service, or something before it, answered; else 0
	Sent   bool   // the service may have acted on the request
	Detail string // what an answer said, in one cleaned line; may be empty
	cause  error
}

func (e *Error) Error() string {
	switch {
	case e.Status != 0 && e.Detail != "":
		return fmt.Sprintf("the service answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Detail)
	case e.Status != 0:
		return fmt.Sprintf("the service answered %d %s", e.Status, http.StatusText(e.Status))
	}
	return fmt.Sprintf("the service cannot be reached: %v", e.cause)
}

// Unwrap returns what ended the request when no status did.
func (e *Error) Unwrap() error { return e.cause }

// RPCError is a JSON-RPC error the service answered with, to be passed on.
type RPCError struct {
	Code    int
	Message string
	Data    any
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("the service refused: %s (%d)", e.Message, e.Code)
}

// clean makes one line of at most 300 characters of what a remote said, with
// nothing in it that a terminal or a reader could take for an instruction.
func clean(s string) string {
	s = strings.Join(strings.FieldsFunc(s, func(r rune) bool { return !unicode.IsPrint(r) }), " ")
	if r := []rune(s); len(r) > 300 {
		s = string(r[:300])
	}
	return s
}
