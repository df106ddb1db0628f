package remote

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
)

// Tokens gives the bearer token for the service. Both methods may be called
// from many goroutines at once, may block on the network, never open a
// browser, and return an error that is ErrSignInNeeded when only the person
// can help.
type Tokens interface {
	// Token returns the token to use now.
	Token(ctx context.Context) (string, error)
	// Replace returns another token after the service refused this one.
	Replace(ctx context.Context, refused string) (string, error)
}

// Key is a static bearer key: it is what it is, and a refused one stays so.
type Key string

// Token returns the key.
func (k Key) Token(context.Context) (string, error) { return string(k), nil }

// Replace reports that there is no other.
func (k Key) Replace(context.Context, string) (string, error) {
	return "", fmt.Errorf("the service refused BELLMAN_KEY: %w", ErrSignInNeeded)
}

// attempt is what happened to one request on the wire, recorded by the
// RoundTripper because mcp-go's transport does not pass it on.
type attempt struct {
	status int
	sent   bool
}

type attemptKey struct{}

// authTransport attaches the token to requests for the service's origin and
// replays a request once after a 401, which says that it was not processed.
// It refuses requests for any other origin.
type authTransport struct {
	base   http.RoundTripper
	origin *url.URL
	tokens Tokens
}

func (t *authTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.origin.Scheme || req.URL.Host != t.origin.Host {
		return nil, fmt.Errorf("request for %s: not the service's origin", req.URL.Host)
	}
	token, err := t.tokens.Token(req.Context())
	if err != nil {
		return nil, err
	}
	resp, err := t.send(req, token)
	if err != nil || resp.StatusCode != http.StatusUnauthorized || (req.Body != nil && req.GetBody == nil) {
		return resp, err
	}
	fresh, err := t.tokens.Replace(req.Context(), token)
	if err != nil {
		drain(resp)
		return nil, err
	}
	again := req.Clone(req.Context())
	if req.GetBody != nil {
		if again.Body, err = req.GetBody(); err != nil {
			drain(resp)
			return nil, fmt.Errorf("replay request: %w", err)
		}
	}
	drain(resp)
	return t.send(again, fresh)
}

func (t *authTransport) send(req *http.Request, token string) (*http.Response, error) {
	ctx := req.Context()
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a != nil {
		// The trace is called before RoundTrip returns or while it waits for
		// the answer, and a is read only after that.
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { a.sent = true },
		})
	}
	req = req.Clone(ctx)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := t.base.RoundTrip(req)
	if a != nil && err == nil {
		a.status = resp.StatusCode
	}
	return resp, err
}

// drain lets the connection be used again.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}
