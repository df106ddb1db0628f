package remote

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"strconv"
	"time"
)

// maxAnswer bounds what is read of one answer, so that no answer can fill the
// memory. The largest honest one is the whole log of a busy room.
const maxAnswer = 64 << 20

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

// Widener is a Tokens that can ask for more access than its token has.
type Widener interface {
	// Widen returns another token after the service answered that the access
	// of this one does not suffice, in the challenges of its answer. Its errors
	// are those of Token; one that is not ErrSignInNeeded means that there is
	// no more access to be had.
	Widen(ctx context.Context, narrow string, challenges []string) (string, error)
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
	status     int
	media      string // the answer's content type, as it came
	sent       bool
	retryAfter time.Duration
}

// refused forgets the attempt after a 401, which says that the request was not
// processed.
func (a *attempt) refused() {
	if a != nil {
		*a = attempt{}
	}
}

type attemptKey struct{}

// authTransport attaches the token to requests for the service's origin and
// replays a request once after a 401, or a 403 for want of access, which say
// that it was not processed. It refuses requests for any other origin.
type authTransport struct {
	base   http.RoundTripper
	origin *url.URL
	tokens Tokens
}

// noTokenError is why there is no token to send, for now. It is about this machine
// or the sign-in server, and not about the service.
type noTokenError struct{ error }

func (n noTokenError) Unwrap() error { return n.error }

// RoundTrip implements http.RoundTripper.
func (t *authTransport) RoundTrip(req *http.Request) (*http.Response, error) {
	if req.URL.Scheme != t.origin.Scheme || req.URL.Host != t.origin.Host {
		abandon(req)
		return nil, fmt.Errorf("request for %s: not the service's origin", req.URL.Host)
	}
	token, err := t.tokens.Token(req.Context())
	if err != nil {
		abandon(req)
		return nil, noTokenError{err}
	}
	resp, err := t.send(req, token)
	if err != nil || hasBody(req) && req.GetBody == nil {
		return resp, err
	}
	fresh, err := t.another(req.Context(), token, resp)
	if fresh == "" && err == nil {
		return resp, nil
	}
	a, _ := req.Context().Value(attemptKey{}).(*attempt)
	a.refused()
	drain(resp)
	if err != nil {
		return nil, noTokenError{err}
	}
	again := req.Clone(req.Context())
	if hasBody(req) {
		if again.Body, err = req.GetBody(); err != nil {
			return nil, fmt.Errorf("replay request: %w", err)
		}
	}
	return t.send(again, fresh)
}

// another returns a token to use in place of the one that the answer refuses;
// none and no error when the answer stands as it is.
func (t *authTransport) another(ctx context.Context, refused string, resp *http.Response) (string, error) {
	switch resp.StatusCode {
	case http.StatusUnauthorized:
		fresh, err := t.tokens.Replace(ctx, refused)
		if errors.Is(err, ErrSignInNeeded) {
			return "", nil // the refusal itself says it
		}
		return fresh, err
	case http.StatusForbidden:
		challenges := resp.Header.Values("WWW-Authenticate")
		wide, ok := t.tokens.(Widener)
		if !ok || len(challenges) == 0 {
			return "", nil
		}
		fresh, err := wide.Widen(ctx, refused, challenges)
		if err != nil && !errors.Is(err, ErrSignInNeeded) {
			return "", nil
		}
		return fresh, err
	}
	return "", nil
}

func hasBody(req *http.Request) bool { return req.Body != nil && req.Body != http.NoBody }

// abandon closes the body of a request that is not sent, as a RoundTripper
// must.
func abandon(req *http.Request) {
	if req.Body != nil {
		_ = req.Body.Close()
	}
}

func (t *authTransport) send(req *http.Request, token string) (*http.Response, error) {
	ctx := req.Context()
	a, _ := ctx.Value(attemptKey{}).(*attempt)
	if a != nil {
		// GotConn is called before RoundTrip returns, and a is read after that.
		ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { a.sent = true },
		})
	}
	req = req.Clone(ctx)
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := t.base.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if a != nil {
		a.status, a.media = resp.StatusCode, resp.Header.Get("Content-Type")
		a.retryAfter = retryAfter(resp.Header.Get("Retry-After"), time.Now())
	}
	if resp.StatusCode != http.StatusSwitchingProtocols { // whose body is the connection
		resp.Body = &bounded{ReadCloser: resp.Body, left: maxAnswer}
	}
	return resp, nil
}

// bounded is an answer's body that fails once it has given too much.
type bounded struct {
	io.ReadCloser

	left int64
}

var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

// Read implements io.Reader.
func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	if b.left -= int64(n); b.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// retryAfter reads the header of that name: seconds, or a date.
func retryAfter(header string, now time.Time) time.Duration {
	if header == "" {
		return 0
	}
	if seconds, err := strconv.ParseInt(header, 10, 32); err == nil {
		return max(0, time.Duration(seconds)*time.Second)
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return max(0, at.Sub(now))
}

// drain lets the connection be used again.
func drain(resp *http.Response) {
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	_ = resp.Body.Close()
}
