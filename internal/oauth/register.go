package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
)

// clientName is what the consent page shows and what an operator finds in the
// service's list of clients.
const clientName = "Bellman for Claude Desktop"

// Ways of client authentication (RFC 7591).
const (
	authNone  = "none"
	authBasic = "client_secret_basic"
	authPost  = "client_secret_post"
)

// clientAuth is how the client shows who it is at the token endpoint. The zero
// value is that of a public client: its id and nothing else. A secret given to
// a program on a person's machine proves nothing, but some servers insist.
type clientAuth struct {
	Method string
	Secret secret
}

// public reports whether there is no secret to show.
func (a clientAuth) public() bool { return a.Secret == "" }

// wantedMethod returns what to register with: no secret, unless the issuer
// says that it takes nobody without.
func wantedMethod(offered []string) string {
	for _, m := range []string{authNone, authBasic, authPost} {
		if slices.Contains(offered, m) {
			return m
		}
	}
	return authNone
}

// register makes this client known to the issuer (RFC 7591) as a public
// native client with these redirects.
func (s *Session) register(ctx context.Context, info serverInfo, redirects []string) (registration, error) {
	if info.register == nil {
		return registration{}, errors.New("register with the sign-in server: it lets no client register itself")
	}
	ask := map[string]any{
		"client_name":                clientName,
		"redirect_uris":              redirects,
		"grant_types":                []string{"authorization_code", "refresh_token"},
		"response_types":             []string{"code"},
		"token_endpoint_auth_method": wantedMethod(info.methods),
		"application_type":           "native",
	}
	if info.scope != "" {
		ask["scope"] = info.scope
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", err)
	}
	r, err := s.wire.fetch(ctx, info.register, body)
	if err != nil {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", err)
	}
	if r.status != http.StatusCreated && r.status != http.StatusOK {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", refusal(r))
	}
	var got struct {
		ClientID string `json:"client_id"`
		Secret   string `json:"client_secret"`
		Method   string `json:"token_endpoint_auth_method"`
	}
	if err := r.json(&got); err != nil {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", err)
	}
	if got.ClientID == "" || len(got.ClientID) > 512 {
		return registration{}, errors.New("register with the sign-in server: it gave no usable client id")
	}
	reg := registration{ClientID: got.ClientID, RedirectURIs: redirects, RegisteredAt: s.now().UTC()}
	if got.Method == "" {
		got.Method = wantedMethod(info.methods)
	}
	switch got.Method {
	case authNone:
	case authBasic, authPost:
		if got.Secret == "" || len(got.Secret) > 512 {
			return registration{}, errors.New("register with the sign-in server: it gave no usable client secret")
		}
		reg.auth = clientAuth{Method: got.Method, Secret: secret(got.Secret)}
	default:
		return registration{}, fmt.Errorf("register with the sign-in server: it wants the client to show itself by %q", oneLine(got.Method, 60))
	}
	return reg, nil
}
