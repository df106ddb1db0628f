package oauth

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"golang.org/x/oauth2"
)

// grantError is an answer of the token endpoint that is not a token.
type grantError struct {
	status int
	code   string
	text   string // the server's words, cleaned; empty when there were none
	after  time.Duration
}

func (e *grantError) Error() string {
	switch {
	case e.code != "" && e.text != "":
		return fmt.Sprintf("the sign-in server answered %d %s (it says: %q)", e.status, e.code, e.text)
	case e.code != "":
		return fmt.Sprintf("the sign-in server answered %d %s", e.status, e.code)
	}
	return fmt.Sprintf("the sign-in server answered %d", e.status)
}

// spent reports whether the grant can never succeed again.
func (e *grantError) spent() bool { return e.code == "invalid_grant" && e.final() }

// final reports whether the server meant what it said. A server that is
// overloaded or broken says anything, and the same request may work later.
func (e *grantError) final() bool { return e.status < 500 && e.status != http.StatusTooManyRequests }

// unknownClient reports whether the registration is gone, and the tokens
// issued for it with it.
func (e *grantError) unknownClient() bool {
	return (e.code == "invalid_client" || e.code == "unauthorized_client") && e.final()
}

// refusal reads an OAuth error answer. Its body is never passed on: only the
// error code and one cleaned line.
func refusal(r reply) *grantError {
	e := &grantError{status: r.status}
	var body struct {
		Code string `json:"error"`
		Text string `json:"error_description"`
	}
	if json.Unmarshal(r.body, &body) == nil {
		e.code, e.text = errorCode(body.Code), oneLine(body.Text, 200)
	}
	if secs, err := strconv.Atoi(r.header.Get("Retry-After")); err == nil && secs > 0 {
		e.after = min(time.Duration(secs)*time.Second, maxBackoff)
	}
	return e
}

// errorCode returns a code of RFC 6749's form, or nothing.
func errorCode(s string) string {
	if len(s) > 64 || strings.ContainsFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && r != '_' }) {
		return ""
	}
	return s
}

// exchange trades a code for tokens.
func (s *Session) exchange(ctx context.Context, info serverInfo, client registration, redirect, code, verifier string) (*credential, error) {
	conf := oauth2.Config{
		ClientID:     client.ClientID,
		ClientSecret: string(client.auth.Secret),
		RedirectURL:  redirect,
		// Finding the style out by trying would burn the code: the service
		// consumes it before it looks at the client.
		Endpoint: oauth2.Endpoint{TokenURL: info.token.String(), AuthStyle: oauth2.AuthStyleInParams},
	}
	if client.auth.Method == authBasic {
		conf.Endpoint.AuthStyle = oauth2.AuthStyleInHeader
	}
	ctx = context.WithValue(ctx, oauth2.HTTPClient, &http.Client{Transport: wholeSeconds{s.wire.client.Transport}, CheckRedirect: s.wire.client.CheckRedirect})
	tok, err := conf.Exchange(ctx, code, oauth2.VerifierOption(verifier), oauth2.SetAuthURLParam("resource", info.resource))
	if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
		return nil, refusal(reply{status: refused.Response.StatusCode, header: refused.Response.Header, body: refused.Body})
	}
	if err != nil {
		return nil, fmt.Errorf("ask %s for a token: %w", info.token.Host, bare(err))
	}
	if !strings.EqualFold(tok.Type(), "bearer") {
		return nil, fmt.Errorf("the sign-in server gave a token of the kind %q", oneLine(tok.Type(), 32))
	}
	if !sendable(tok.AccessToken) {
		return nil, errors.New("the sign-in server gave a token that cannot be sent")
	}
	c := &credential{issuer: info.issuer, resource: info.resource, clientID: client.ClientID, client: client.auth, tokenURL: info.token.String(), scope: union(info.scope, "")}
	c.take(secret(tok.AccessToken), secret(tok.RefreshToken), s.now(), tok.ExpiresIn)
	return c, nil
}

// take puts a fresh pair into c.
func (c *credential) take(access, refresh secret, now time.Time, lifetime int64) {
	c.access, c.refresh, c.expiry, c.lifetime = access, refresh, time.Time{}, 0
	if lifetime > 0 {
		c.lifetime = time.Duration(min(lifetime, 1<<31)) * time.Second
		c.expiry = now.Add(c.lifetime)
	}
	c.print = fingerprint(access)
	id, _ := readIdentity(access)
	c.subject = id.UserID
}

// seconds is a number of seconds, which some servers send as a string.
type seconds int64

// UnmarshalJSON accepts 600 and "600"; what is neither counts as not sent.
func (n *seconds) UnmarshalJSON(b []byte) error {
	if v, err := strconv.ParseFloat(strings.Trim(string(b), `"`), 64); err == nil && v > 0 && v < 1e10 {
		*n = seconds(v)
	}
	return nil
}

// wholeSeconds makes a whole number of an expires_in that is none, such as
// 3600.0: x/oauth2 refuses the answer then, and the code has been spent.
type wholeSeconds struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (w wholeSeconds) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := w.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxDocument))
	_ = resp.Body.Close() // All that counts of it has been read.
	if err != nil {
		return nil, err
	}
	var answer map[string]json.RawMessage
	if json.Unmarshal(body, &answer) == nil && answer["expires_in"] != nil {
		var n seconds
		_ = n.UnmarshalJSON(answer["expires_in"]) // It takes anything.
		answer["expires_in"] = strconv.AppendInt(nil, int64(n), 10)
		if body, err = json.Marshal(answer); err != nil {
			return nil, fmt.Errorf("read the answer: %w", err)
		}
	}
	resp.Body, resp.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	return resp, nil
}

// sendable reports whether a token can stand in a header. One that cannot
// would fail every call and never be refused, so never be replaced.
func sendable(token string) bool {
	return token != "" && !strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r > '~' })
}

// renewGrant trades c's refresh token for a new pair. An error that is no
// *grantError means that nobody knows whether the server acted.
func (s *Session) renewGrant(ctx context.Context, c *credential) (*credential, error) {
	form := url.Values{
		"grant_type": {"refresh_token"}, "refresh_token": {string(c.refresh)}, "resource": {c.resource},
	}
	if c.client.Method != authBasic {
		form.Set("client_id", c.clientID)
	}
	if c.client.Method == authPost {
		form.Set("client_secret", string(c.client.Secret))
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.tokenURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, fmt.Errorf("ask for a token: %w", bare(err))
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if c.client.Method == authBasic {
		req.SetBasicAuth(url.QueryEscape(c.clientID), url.QueryEscape(string(c.client.Secret)))
	}
	r, err := s.wire.do(req)
	if err != nil {
		return nil, err
	}
	var got struct {
		Error   string  `json:"error"`
		Access  string  `json:"access_token"`
		Type    string  `json:"token_type"`
		Refresh string  `json:"refresh_token"`
		Expires seconds `json:"expires_in"`
	}
	if r.status < 200 || r.status > 299 {
		return nil, refusal(r)
	}
	// Whatever the answer calls itself: refusing a pair for its content type
	// would lose it.
	if json.Unmarshal(r.body, &got) != nil {
		return nil, errors.New("ask for a token: the answer is not the JSON it should be")
	}
	if got.Error != "" {
		return nil, refusal(r)
	}
	if !sendable(got.Access) || got.Type != "" && !strings.EqualFold(got.Type, "bearer") {
		return nil, errors.New("ask for a token: the answer holds no bearer token that can be sent")
	}
	next := *c
	if got.Refresh == "" {
		got.Refresh = string(c.refresh)
	}
	subject := c.subject
	next.take(secret(got.Access), secret(got.Refresh), s.now(), int64(got.Expires))
	if next.subject == "" {
		next.subject = subject
	}
	return &next, nil
}
