package remote

import (
	"encoding/json"
	"errors"
	"fmt"
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
	case err != nil:
		return nil, &Error{Sent: a.sent, cause: reason(err)}
	case resp.Error != nil:
		return nil, &RPCError{Code: resp.Error.Code, Message: resp.Error.Message, Data: resp.Error.Data}
	case len(resp.Result) == 0:
		return nil, &Error{Sent: true, cause: errors.New("an answer with neither result nor error")}
	}
	return resp.Result, nil
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
