package remote

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"
	"unicode"
)

// ErrSignInNeeded means that no usable token is at hand and only the person
// can bring one. The request was not processed.
var ErrSignInNeeded = errors.New("sign-in needed")

// Error is a request to the service that got no answer to pass on.
type Error struct {
	Status     int           // HTTP status when the service, or something before it, answered; else 0
	Sent       bool          // the service may have acted on the request
	Detail     string        // what an answer said, in one cleaned line; may be empty
	RetryAfter time.Duration // how long the answer asks to be left alone; else 0
	cause      error
}

// Error implements error.
func (e *Error) Error() string {
	switch {
	case e.Status != 0 && e.Detail != "":
		return fmt.Sprintf("the service answered %d %s: %s", e.Status, http.StatusText(e.Status), e.Detail)
	case e.Status != 0:
		return fmt.Sprintf("the service answered %d %s", e.Status, http.StatusText(e.Status))
	}
	if c, ok := errors.AsType[cause](e.cause); ok && c.heard {
		return "the service's answer cannot be used: " + c.line
	}
	if n, ok := errors.AsType[noTokenError](e.cause); ok {
		return "the sign-in cannot be used at the moment: " + n.Error()
	}
	return fmt.Sprintf("the service cannot be reached: %v", e.cause)
}

// Unwrap returns what ended the request when no status did.
func (e *Error) Unwrap() error { return e.cause }

// Plain says what went wrong in words of this program and of the system alone,
// for a person: nothing that whoever answered has written is in it.
func (e *Error) Plain() string {
	switch {
	case e.Status >= http.StatusBadRequest:
		return strings.TrimSpace(fmt.Sprintf("the service answered %d %s", e.Status, http.StatusText(e.Status)))
	case e.Status != 0:
		return fmt.Sprintf("something else answers in the service's place (%d): the sign-in page of a network, or a proxy", e.Status)
	}
	if _, ok := errors.AsType[noTokenError](e.cause); ok {
		return "the sign-in cannot be used at the moment" // The sign-in server's words may follow.
	}
	c, foreign := errors.AsType[cause](e.cause)
	if !foreign {
		return e.Error()
	}
	if _, ok := errors.AsType[*net.OpError](c.err); ok {
		return e.Error()
	}
	if _, ok := errors.AsType[*tls.CertificateVerificationError](c.err); ok {
		return "the service cannot be reached: its certificate is not trusted on this machine"
	}
	return "the service cannot be reached: the connection broke, or something else answers in its place"
}

// RPCError is a JSON-RPC error the service answered with, to be passed on.
type RPCError struct {
	Code    int
	Message string
	Data    any
}

func (e *RPCError) Error() string {
	return fmt.Sprintf("the service refused: %s (%d)", e.Message, e.Code)
}

// cause is what went wrong on the way, said in one clean line.
type cause struct {
	line  string
	err   error
	heard bool // an answer came, and line says what is wrong with it
}

func (c cause) Error() string { return c.line }
func (c cause) Unwrap() error { return c.err }

const inTime = "no answer in time"

// reason says in one clean line what went wrong on the way. The layers above
// the network's own error only repeat that sending failed, and some of them
// name the whole URL. A deadline of ours on the way is not the caller's.
func reason(err error) error {
	if n, ok := errors.AsType[noTokenError](err); ok { // Each of its layers says something.
		return noTokenError{errors.New(clean(strings.ReplaceAll(n.Error(), context.DeadlineExceeded.Error(), inTime)))}
	}
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(inTime)
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		return cause{line: "the connection ended without an answer", err: err}
	}
	for inner := err; ; {
		next := errors.Unwrap(inner)
		_, network := inner.(*net.OpError) //nolint:errorlint // the layer itself is wanted, not what it wraps
		if network || next == nil {
			return cause{line: clean(inner.Error()), err: err}
		}
		inner = next
	}
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
