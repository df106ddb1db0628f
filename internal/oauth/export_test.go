package oauth

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"time"
)

// ParseCallback reads a callback's query and returns what decides.
func ParseCallback(raw string) (code, failure, refusal string, err error) {
	q, err := parseCallback(raw)
	if err != nil {
		return "", "", "", err
	}
	return q.code, q.failure, q.refusal().Error(), nil
}

// BearerParam reads a parameter of a WWW-Authenticate header.
func BearerParam(header, name string) string { return bearerParam([]string{header}, name) }

// DecodeItem decodes a stored item and encodes it again.
func DecodeItem(b []byte) (tokenURL, issuer string, again []byte, ok bool) {
	c := decodeItem(b)
	if c == nil {
		return "", "", nil, false
	}
	again, _ = c.encode()
	return c.tokenURL, c.issuer, again, true
}

// Endpoint checks an endpoint of an issuer and returns both origins.
func Endpoint(raw, issuer string) (endpointOrigin, issuerOrigin string, err error) {
	u, err := endpoint(raw, issuer)
	if err != nil {
		return "", "", err
	}
	at, err := parseURL(issuer)
	if err != nil {
		return "", "", err
	}
	return origin(u), origin(at), nil
}

// MayLead reports whether a server at one address may lead to another.
func MayLead(from, to string) bool {
	return reachOf(netip.MustParseAddr(from)).allows(reachOf(netip.MustParseAddr(to)))
}

// Shown is a credential that holds token in every way in which code could
// print it.
func Shown(token string) (values []any) {
	c := credential{access: secret(token), refresh: secret(token), expiry: time.Unix(1, 0)}
	return []any{secret(token), []secret{secret(token)}, map[string]secret{"a": secret(token)}, c, &c, []credential{c}, fmt.Errorf("x %v %+v", c, &c)}
}

// ParseURL reports whether an address may be used at all.
func ParseURL(raw string) error {
	_, err := parseURL(raw)
	return err
}

// Migrate moves the item of one store to another.
func Migrate(ctx context.Context, from, to Store) (bool, error) { return migrate(ctx, from, to) }

// OneLine makes one safe line of foreign text.
func OneLine(s string, limit int) string { return oneLine(s, limit) }

// AnswerWith lets h answer what s sends to any server, within this process, so
// that time can be made up.
func (s *Session) AnswerWith(h http.Handler) { s.wire.client.Transport = inProcess{h} }

// SetClock moves s's wall clock by d from what it is.
func (s *Session) SetClock(d time.Duration) {
	s.now = func() time.Time { return time.Now().Round(0).Add(d) }
}

type inProcess struct{ http.Handler }

// RoundTrip implements http.RoundTripper.
func (p inProcess) RoundTrip(req *http.Request) (*http.Response, error) {
	rec := httptest.NewRecorder()
	p.ServeHTTP(rec, req)
	return rec.Result(), nil
}

// Holds reports whether a stored item holds this access token.
func Holds(item []byte, access string) bool {
	c := decodeItem(item)
	return c != nil && string(c.access) == access
}

// Discover asks s's server where to sign in and returns what it found.
func Discover(ctx context.Context, s *Session) (resource, issuer string, endpoints []*url.URL, err error) {
	info, err := s.discover(ctx, "", "")
	if err != nil {
		return "", "", nil, err
	}
	endpoints = []*url.URL{info.authorize, info.token}
	if info.register != nil {
		endpoints = append(endpoints, info.register)
	}
	return info.resource, info.issuer, endpoints, nil
}
