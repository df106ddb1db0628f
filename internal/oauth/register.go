package oauth

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
)

// clientName is what the consent page shows and what an operator finds in the
// service's list of clients.
const clientName = "Bellman for Claude Desktop"

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
		"token_endpoint_auth_method": "none",
		"application_type":           "native",
	}
	if info.scope != "" {
		ask["scope"] = info.scope
	}
	body, err := json.Marshal(ask)
	if err != nil {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", err)
	}
	r, err := s.wire.fetch(ctx, info.register, "application/json", body)
	if err != nil {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", err)
	}
	if r.status != http.StatusCreated && r.status != http.StatusOK {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", refusal(r))
	}
	var got struct {
		ClientID string `json:"client_id"`
		Secret   string `json:"client_secret"`
	}
	if err := r.json(&got); err != nil {
		return registration{}, fmt.Errorf("register with the sign-in server: %w", err)
	}
	if got.ClientID == "" || len(got.ClientID) > 512 {
		return registration{}, errors.New("register with the sign-in server: it gave no usable client id")
	}
	if got.Secret != "" {
		return registration{}, errors.New("register with the sign-in server: it treats a native app as one that can keep a secret")
	}
	return registration{ClientID: got.ClientID, RedirectURIs: redirects, RegisteredAt: s.now().UTC()}, nil
}
