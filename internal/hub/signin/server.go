// Package signin is the hub's own authorization server, in the strict form of
// the service it stands in for: dynamic registration of public clients, the
// code grant with S256, and refresh tokens that are spent by use. Codes and
// refresh tokens are consumed before anything about them is checked.
// See auth.md 1.
package signin

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/sqlite"
)

// Lifetimes. See auth.md 1.6.
const (
	accessLife  = 10 * time.Minute
	refreshLife = 30 * 24 * time.Hour
	codeLife    = time.Minute
	stateLife   = 10 * time.Minute
	clientLife  = 24 * time.Hour // of a registration that nobody used
)

// Options says how to set up a server.
type Options struct {
	Shelves *sqlite.DB
	Now     func() time.Time
	Log     *slog.Logger
	// Provider signs people in, where there is one. Without it people give a
	// name, on this machine alone.
	Provider *OIDC
}

// Server is the authorization server. Every method that answers a request
// takes the origin it was sent to, which is its issuer. Its methods may be
// called from many goroutines.
type Server struct {
	now      func() time.Time
	log      *slog.Logger
	db       *sqlite.DB
	secret   []byte // signs tokens and states
	provider *provider
	clients  sqlite.Shelf
	rates    sqlite.Shelf
	codes    sqlite.Shelf
	refresh  sqlite.Shelf
}

// New returns a server over the state in o.Shelves. The signing secret is
// made on first use and kept there. It asks the provider, if any, for its
// metadata.
func New(ctx context.Context, o Options) (*Server, error) {
	s := &Server{
		now: o.Now, log: o.Log, db: o.Shelves,
		clients: o.Shelves.Shelf("clients"), rates: o.Shelves.Shelf("registrations"),
		codes: o.Shelves.Shelf("codes"), refresh: o.Shelves.Shelf("refresh"),
	}
	p, err := discover(ctx, o.Provider, o.Now)
	if err != nil {
		return nil, err
	}
	s.provider = p
	settings := o.Shelves.Shelf("settings")
	secret, ok, err := settings.Get(ctx, "signing-secret")
	if err != nil {
		return nil, err
	}
	if !ok {
		secret = make([]byte, 32)
		_, _ = rand.Read(secret) // It never fails.
		if err := settings.Put(ctx, "signing-secret", secret, time.Time{}); err != nil {
			return nil, err
		}
	}
	s.secret = secret
	return s, nil
}

// Resource is the resource that tokens asked for at an origin are good for.
func Resource(origin string) string { return origin + "/mcp" }

// ServeResource answers with the protected resource metadata. See RFC 9728.
func (s *Server) ServeResource(w http.ResponseWriter, origin string) {
	s.answer(w, http.StatusOK, map[string]any{
		"resource":                 Resource(origin),
		"authorization_servers":    []string{origin},
		"bearer_methods_supported": []string{"header"},
		"scopes_supported":         []string{"bellman"},
		"resource_documentation":   "https://bellman.sh/docs",
	})
}

// ServeMetadata answers with the authorization server metadata. See RFC 8414.
func (s *Server) ServeMetadata(w http.ResponseWriter, origin string) {
	s.answer(w, http.StatusOK, map[string]any{
		"issuer":                                origin,
		"authorization_endpoint":                origin + "/authorize",
		"token_endpoint":                        origin + "/token",
		"registration_endpoint":                 origin + "/register",
		"response_types_supported":              []string{"code"},
		"grant_types_supported":                 []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"},
		"scopes_supported":                      []string{"bellman"},
		"service_documentation":                 "https://bellman.sh/docs",
	})
}

// answer writes a JSON body that nobody may cache.
func (s *Server) answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	if err := json.NewEncoder(w).Encode(body); err != nil {
		s.log.Debug("answer cut short", "error", err)
	}
}

// refuse writes an OAuth error body.
func (s *Server) refuse(w http.ResponseWriter, status int, code, description string) {
	s.answer(w, status, map[string]string{"error": code, "error_description": description})
}

// fault answers a request that the hub itself could not serve.
func (s *Server) fault(w http.ResponseWriter, r *http.Request, doing string, err error) {
	s.log.ErrorContext(r.Context(), "sign-in", "doing", doing, "error", err)
	s.refuse(w, http.StatusInternalServerError, "server_error", "the hub could not "+doing)
}

// grant is what a code or a refresh token stands for.
type grant struct {
	Client    string           `json:"client"`
	Identity  account.Identity `json:"identity"`
	Redirect  string           `json:"redirect,omitempty"`
	Challenge string           `json:"challenge,omitempty"`
}

// random returns n random bytes in base64url.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // It never fails.
	return base64.RawURLEncoding.EncodeToString(b)
}

// shelfKey is what a code or token is kept under: not itself, so that a
// stolen file opens nothing.
func shelfKey(token string) string {
	sum := sha256.Sum256([]byte(token))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

func pack(v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, fmt.Errorf("encode grant: %w", err)
	}
	return b, nil
}
