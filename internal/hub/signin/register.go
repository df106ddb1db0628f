package signin

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"
)

// Bounds of registration. See auth.md 1.3.
const (
	maxClients    = 10000
	maxHourly     = 20
	maxClientName = 120
)

// client is a registered client.
type client struct {
	Name         string   `json:"name"`
	RedirectURIs []string `json:"redirect_uris"`
}

// Register answers a dynamic registration. A registration lapses after a day
// unless a token was issued for it. The address is what registrations are
// counted by; without one they are not.
func (s *Server) Register(w http.ResponseWriter, r *http.Request, address string) {
	var asked *struct {
		Name         any   `json:"client_name"`
		RedirectURIs []any `json:"redirect_uris"`
	}
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil || json.Unmarshal(body, &asked) != nil || asked == nil {
		s.refuse(w, http.StatusBadRequest, "invalid_client_metadata", "the body is not a JSON object of client metadata")
		return
	}
	c, ok := readClient(asked.Name, asked.RedirectURIs)
	if !ok {
		s.refuse(w, http.StatusBadRequest, "invalid_redirect_uri",
			"redirect_uris must be https, or http to localhost, 127.0.0.1 or [::1]")
		return
	}
	id, err := s.admit(r.Context(), address, c)
	switch {
	case err != nil:
		s.fault(w, r, "register the client", err)
	case id == "":
		s.refuse(w, http.StatusTooManyRequests, "too_many_requests", "too many registrations: try again later")
	default:
		s.answer(w, http.StatusCreated, map[string]any{
			"client_id":                  id,
			"client_name":                c.Name,
			"redirect_uris":              c.RedirectURIs,
			"token_endpoint_auth_method": "none",
			"grant_types":                []string{"authorization_code", "refresh_token"},
			"response_types":             []string{"code"},
			"client_id_issued_at":        s.now().Unix(),
		})
	}
}

func readClient(name any, uris []any) (client, bool) {
	c := client{Name: "unnamed client"}
	if text, ok := name.(string); ok && text != "" {
		for utf8.RuneCountInString(text) > maxClientName {
			_, size := utf8.DecodeLastRuneInString(text)
			text = text[:len(text)-size]
		}
		if clean, ok := cleanName(text); ok {
			c.Name = clean
		}
	}
	for _, uri := range uris {
		text, ok := uri.(string)
		if !ok || !allowedRedirect(text) {
			return client{}, false
		}
		c.RedirectURIs = append(c.RedirectURIs, text)
	}
	return c, len(c.RedirectURIs) > 0
}

func allowedRedirect(text string) bool {
	u, err := url.Parse(text)
	if err != nil || u.Host == "" || u.User != nil || u.Fragment != "" {
		return false
	}
	switch u.Scheme {
	case "https":
		return true
	case "http":
		return u.Hostname() == "localhost" || u.Hostname() == "127.0.0.1" || u.Hostname() == "::1"
	}
	return false
}

// admit stores c and returns its id, empty when a bound is reached.
func (s *Server) admit(ctx context.Context, address string, c client) (string, error) {
	full, err := s.full(ctx)
	if err != nil || full {
		return "", err
	}
	if address != "" {
		ok, err := s.rates.Count(ctx, address, maxHourly, s.now().Add(time.Hour))
		if err != nil || !ok {
			return "", err
		}
	}
	value, err := pack(c)
	if err != nil {
		return "", err
	}
	id := random(16)
	return id, s.clients.Put(ctx, id, value, s.now().Add(clientLife))
}

func (s *Server) full(ctx context.Context) (bool, error) {
	n, err := s.clients.Size(ctx)
	return n >= maxClients, err
}

func (s *Server) client(ctx context.Context, id string) (client, bool, error) {
	value, ok, err := s.clients.Get(ctx, id)
	if err != nil || !ok {
		return client{}, false, err
	}
	var c client
	if err := json.Unmarshal(value, &c); err != nil {
		return client{}, false, fmt.Errorf("read client: %w", err)
	}
	return c, true, nil
}
