package signin

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/oauth2"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// OIDC is an OpenID Connect provider that says who people are.
type OIDC struct {
	Issuer   string
	ClientID string
	Secret   string
	// Name is what the sign-in page calls the provider.
	Name string
}

// providerPatience bounds one exchange with the provider.
const providerPatience = 15 * time.Second

// provider is an OIDC provider that has been discovered.
type provider struct {
	name     string
	host     string
	config   oauth2.Config // without a redirect: that follows the origin
	verifier *oidc.IDTokenVerifier
}

// discover reads a provider's metadata.
func discover(ctx context.Context, o *OIDC, now func() time.Time) (*provider, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // Without a provider, people give a name.
	}
	ctx, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	u, err := url.Parse(o.Issuer)
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("sign-in provider %q is no URL", o.Issuer)
	}
	p, err := oidc.NewProvider(ctx, o.Issuer)
	if err != nil {
		return nil, fmt.Errorf("discover sign-in provider %s: %w", o.Issuer, err)
	}
	name := o.Name
	if name == "" {
		name = u.Host
	}
	return &provider{
		name: name, host: u.Host,
		config: oauth2.Config{
			ClientID: o.ClientID, ClientSecret: o.Secret, Endpoint: p.Endpoint(), Scopes: []string{oidc.ScopeOpenID, "email", "profile"},
		},
		verifier: p.VerifierContext(context.WithoutCancel(ctx), &oidc.Config{ClientID: o.ClientID, Now: now}),
	}, nil
}

// providerCallback is where the provider sends people back to.
const providerCallback = "/callback/oidc"

func (p *provider) at(origin string) *oauth2.Config {
	c := p.config
	c.RedirectURL = origin + providerCallback
	return &c
}

// hop is a sign-in on its way through the provider.
type hop struct {
	Asked    asked  `json:"asked"`
	Nonce    string `json:"nonce"`
	Verifier string `json:"verifier_digest"`
}

const useHop = "hop"

// AuthorizeProvider takes the form of Authorize's page and sends the browser
// to the provider.
func (s *Server) AuthorizeProvider(w http.ResponseWriter, r *http.Request, origin string) {
	if s.provider == nil {
		errorPage(w, http.StatusNotFound, "No such sign-in", "This hub has no sign-in provider.")
		return
	}
	a, ok := s.submitted(w, r, origin)
	if !ok {
		return
	}
	// The browser's own cookie is the secret half: it derives verifier and
	// nonce, so the state that travels through the provider gives nothing away.
	cookie, err := r.Cookie(csrfCookie)
	if err != nil {
		errorPage(w, http.StatusForbidden, "Sign-in not yours", "Start the sign-in again.")
		return
	}
	verifier := s.derive(cookie.Value, "verifier")
	state, err := s.sign(useHop, hop{Asked: a, Nonce: s.derive(cookie.Value, "nonce"), Verifier: challengeOf(verifier)})
	if err != nil {
		s.fault(w, r, "go to the sign-in provider", err)
		return
	}
	to := s.provider.at(origin).AuthCodeURL(state, oidc.Nonce(s.derive(cookie.Value, "nonce")), oauth2.S256ChallengeOption(verifier))
	w.Header().Set("Cache-Control", "no-store")
	http.Redirect(w, r, to, http.StatusSeeOther) //nolint:gosec // The provider the operator named.
}

func (s *Server) derive(cookie, what string) string {
	return base64.RawURLEncoding.EncodeToString(s.mac(what, cookie))
}

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// Callback takes the provider's answer and sends the browser back to the
// client with a code. An answer that did not set out from this browser is
// refused.
func (s *Server) Callback(w http.ResponseWriter, r *http.Request, origin string) {
	q := r.URL.Query()
	var h hop
	cookie, err := r.Cookie(csrfCookie)
	if s.provider == nil || err != nil || !s.open(useHop, q.Get("state"), &h) ||
		h.Asked.Origin != origin || s.now().Unix() >= h.Asked.Expires ||
		h.Verifier != challengeOf(s.derive(cookie.Value, "verifier")) {
		errorPage(w, http.StatusBadRequest, "Sign-in expired", "This sign-in was open too long or began in another browser. Start it again.")
		return
	}
	if code := q.Get("code"); code == "" || q.Has("error") {
		redirectTo(w, r, h.Asked.Redirect, url.Values{
			"error": {"access_denied"}, "error_description": {"the sign-in provider refused"},
		}, h.Asked.State)
		return
	}
	id, err := s.provider.identify(r.Context(), origin, q.Get("code"), s.derive(cookie.Value, "verifier"), h.Nonce)
	if err != nil {
		s.log.WarnContext(r.Context(), "sign-in provider", "error", err)
		redirectTo(w, r, h.Asked.Redirect, url.Values{
			"error": {"access_denied"}, "error_description": {s.provider.name + " sign-in failed"},
		}, h.Asked.State)
		return
	}
	code, err := s.issueCode(r, h.Asked, id)
	if err != nil {
		s.fault(w, r, "finish the sign-in", err)
		return
	}
	redirectTo(w, r, h.Asked.Redirect, url.Values{"code": {code}}, h.Asked.State)
}

var (
	errNoIDToken = errors.New("the token response has no id_token")
	errNonce     = errors.New("the id_token is for another sign-in")
	errExchange  = errors.New("the provider refused the code")
)

// identify redeems the provider's code and returns who it is about. Errors
// hold nothing the provider sent.
func (p *provider) identify(ctx context.Context, origin, code, verifier, nonce string) (account.Identity, error) {
	ctx, cancel := context.WithTimeout(ctx, providerPatience)
	defer cancel()
	token, err := p.at(origin).Exchange(ctx, code, oauth2.VerifierOption(verifier))
	if err != nil {
		if refused, ok := errors.AsType[*oauth2.RetrieveError](err); ok {
			return account.Identity{}, fmt.Errorf("%w with status %d", errExchange, refused.Response.StatusCode)
		}
		return account.Identity{}, errExchange
	}
	raw, ok := token.Extra("id_token").(string)
	if !ok {
		return account.Identity{}, errNoIDToken
	}
	verified, err := p.verifier.Verify(ctx, raw)
	if err != nil {
		return account.Identity{}, fmt.Errorf("verify id_token: %w", err)
	}
	if verified.Nonce != nonce {
		return account.Identity{}, errNonce
	}
	var about struct {
		Email    string `json:"email"`
		Verified bool   `json:"email_verified"`
		Username string `json:"preferred_username"`
		Name     string `json:"name"`
	}
	if err := verified.Claims(&about); err != nil {
		return account.Identity{}, fmt.Errorf("read id_token: %w", err)
	}
	org := "org_" + p.host
	return account.Identity{
		UserID: "u_oidc_" + verified.Subject, OrgID: &org, Plan: "team", Role: "member",
		Label: p.label(about.Email, about.Verified, about.Username, about.Name),
	}, nil
}

// label is what peers see: the verified address, else a name at the provider.
func (p *provider) label(email string, verified bool, names ...string) string {
	if name, ok := cleanName(email); ok && verified {
		return name
	}
	for _, name := range names {
		if name, ok := cleanName(strings.ReplaceAll(name, "@", " ")); ok && bellman.Units(name) < 60 {
			return name + "@" + p.host
		}
	}
	return "somebody@" + p.host
}
