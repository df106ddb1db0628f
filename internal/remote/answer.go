package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"strings"

	"github.com/mark3labs/mcp-go/client/transport"
)

// judge turns what the transport returned into a result or an error. The
// status has the last word: a 503 with a JSON body is not a result.
func judge(a *attempt, resp *transport.JSONRPCResponse, err error) (json.RawMessage, error) {
	switch {
	case errors.Is(err, ErrSignInNeeded):
		return nil, ErrSignInNeeded
	case errors.Is(err, transport.ErrSessionTerminated):
		return nil, &Error{Status: http.StatusNotFound}
	case a.status == http.StatusUnauthorized:
		return nil, fmt.Errorf("the service refused the token: %w", ErrSignInNeeded)
	case a.status != 0 && a.status/100 != 2:
		return nil, refusedBy(a, resp, err)
	case err != nil && a.status != 0:
		return nil, unusable(whatIsWrong(a, err), err)
	case err != nil:
		return nil, &Error{Sent: a.sent, cause: reason(err)}
	case resp.Error != nil:
		return nil, &RPCError{Code: resp.Error.Code, Message: resp.Error.Message, Data: resp.Error.Data}
	case len(resp.Result) == 0:
		return nil, unusable("it has neither result nor error", nil)
	}
	return resp.Result, nil
}

// unusable is the error of an answer that came and is none to the request.
func unusable(line string, err error) *Error {
	return &Error{Sent: true, cause: cause{line: line, err: err, heard: true}}
}

// whatIsWrong says in words of this program why the body of an answer with a
// good status is none: what the transport says is about its own types.
func whatIsWrong(a *attempt, err error) string {
	_, network := errors.AsType[*net.OpError](err)
	media, _, _ := mime.ParseMediaType(a.media)
	stream := media == "text/event-stream"
	switch {
	case errors.Is(err, errTooLarge):
		return fmt.Sprintf("it is larger than %d MiB", maxAnswer>>20)
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, context.Canceled):
		return "it did not end in time"
	case errors.Is(err, errOther):
		return "it belongs to another request"
	case media == "":
		return "it names no content type"
	case !stream && media != "application/json":
		return fmt.Sprintf("it is %s and no JSON; the sign-in page of a network, or a proxy, may stand in the service's place", media)
	case network, stream, errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF):
		return "it ended too early"
	}
	return "it is no JSON-RPC answer"
}

// refusedBy is the error of a status that is not 2xx.
func refusedBy(a *attempt, resp *transport.JSONRPCResponse, err error) *Error {
	e := &Error{Status: a.status, Sent: a.status >= http.StatusInternalServerError, RetryAfter: a.retryAfter, cause: err}
	switch {
	case resp != nil && resp.Error != nil:
		e.Detail = clean(resp.Error.Message)
	case err != nil:
		// The transport's words end with the body.
		if _, body, ok := strings.Cut(err.Error(), fmt.Sprintf("status %d: ", a.status)); ok {
			e.Detail = clean(body)
		}
	}
	return e
}
