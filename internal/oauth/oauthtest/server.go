// Package oauthtest is an authorization server and a protected resource for
// tests of the sign-in: as strict as the real service (it consumes a code or
// a refresh token before it looks at anything else, matches redirects byte for
// byte and forgets unused clients), with switches for everything that servers
// are known to do wrong, and a ledger of what was asked of it. It listens on
// loopback only, signs with a key of its own, and no program imports it.
package oauthtest

import (
	"crypto/rand"
	"encoding/base64"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"
)

// Switches are the ways in which a server can differ from the strict one. The
// zero value is the strict one.
type Switches struct {
	Iss          string        // sent as `iss`; "right" stands for the issuer
	IssPromised  bool          // metadata promises `iss`
	RevokeFamily bool          // a spent refresh token ends all its successors
	ReuseGrace   time.Duration // a spent refresh token still works for so long
	DropRotation int           // so many rotations are committed and never answered
	TokenDelay   time.Duration
	TokenStatus  int           // /token answers this and nothing else
	TokenCode    string        // ... with this error code
	TokenHTML    bool          // ... with a page instead of JSON
	RetryAfter   string        // ... with this header
	TokenMoved   string        // /token answers 307 to this address
	TokenError   string        // /token answers with this error code
	ErrorAs200   bool          // ... and status 200
	Success201   bool          // /token answers success with 201
	Restore503   int           // so many grants are put back and answered 503
	NoExpiry     bool          // no expires_in
	StringExpiry bool          // expires_in as a string
	OddExpiry    any           // expires_in as this
	BrokenToken  bool          // access tokens hold a line break
	NoRotation   bool          // no refresh_token in answers to refresh
	Lifetime     time.Duration // of access tokens; 600 s if zero
	AnyPort      bool          // RFC 8252: any port of a loopback redirect
	Resource     string        // what the resource's metadata calls itself
	Issuer       string        // which issuer the resource's metadata names
	FirstIssuer  string        // ... and which one before it
	MetaIssuer   string        // what the issuer's metadata calls itself
	NoPKCE       bool          // metadata does not advertise S256
	Authorize    string        // authorization_endpoint
	Token        string        // token_endpoint
	HugeMetadata bool
	MetaStatus   int           // the issuer's metadata answers this
	MetaDelay    time.Duration // ... after so long, if anybody still waits
	NoHeader     bool          // the challenge has no resource_metadata
	HeaderURL    string        // resource_metadata in the challenge
	Scope        string        // scope in the challenge
	NoScopes     bool          // no scopes_supported
	RootOnly     bool          // metadata at the root path only, about the origin
	NoRegister   bool          // no registration_endpoint
	Deny         bool          // the person declines
	ClockOffset  time.Duration // of the server's clock
	PadToken     int           // bytes added to access tokens
	Claim        any           // replaces the bellman claim
	OpaqueToken  bool          // access tokens that are no JWT
	RefuseAll    bool          // the resource refuses every token
	ClientAuth   string        // clients get a secret and must show it this way
}

// Ledger is what was asked of the server, in order.
type Ledger struct {
	Registrations int
	LastClient    map[string]any // the latest registration request
	Grants        []string       // "grant_type:status"
	Authorized    []url.Values   // queries of /authorize
	TokenForms    []url.Values   // forms of /token
	Refused       int            // requests to the resource with a refused token
	Served        int            // requests to the resource with a good token
	Paths         []string       // "METHOD path", all of them
}

type client struct {
	secret    string // empty for a public client
	redirects []string
	used      bool
	at        time.Time
}

type grant struct {
	client, redirect, challenge, resource, state, person string
	family                                               int
	spentAt                                              time.Time
}

// Server is a running authorization server with the resource /mcp.
type Server struct {
	URL   string // the issuer; the resource is URL + "/mcp"
	Other string // another origin, which answers nothing but 404

	http  *httptest.Server
	other *httptest.Server
	key   []byte

	mu        sync.Mutex
	switches  Switches
	ledger    Ledger
	clients   map[string]*client
	requests  map[string]*grant // signed authorize state
	codes     map[string]*grant
	refresh   map[string]*grant
	spent     map[string]*grant
	dead      map[int]bool
	issued    []string // every secret ever given out or sent in
	family    int
	elsewhere []string
}

// New starts a server that ends with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{
		key: []byte(token(32)), clients: map[string]*client{}, requests: map[string]*grant{}, codes: map[string]*grant{},
		refresh: map[string]*grant{}, spent: map[string]*grant{}, dead: map[int]bool{},
	}
	// Its address is known before it serves: requests of other processes come
	// with no order that a race detector could see.
	s.http = httptest.NewUnstartedServer(http.HandlerFunc(s.serve))
	s.URL = "http://" + s.http.Listener.Addr().String()
	s.http.Start()
	s.other = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		s.elsewhere = append(s.elsewhere, r.Method+" "+r.URL.Path)
		s.mu.Unlock()
		http.NotFound(w, r)
	}))
	s.Other = s.other.URL
	tb.Cleanup(func() {
		s.http.CloseClientConnections()
		s.http.Close()
		s.other.Close()
	})
	return s
}

// Resource returns the address of the protected resource.
func (s *Server) Resource() string { return s.URL + "/mcp" }

// Set changes the switches.
func (s *Server) Set(change func(*Switches)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(&s.switches)
}

// Ledger returns a copy of the ledger.
func (s *Server) Ledger() Ledger {
	s.mu.Lock()
	defer s.mu.Unlock()
	l := s.ledger
	l.Grants = append([]string(nil), l.Grants...)
	l.Paths = append([]string(nil), l.Paths...)
	l.Authorized = append([]url.Values(nil), l.Authorized...)
	l.TokenForms = append([]url.Values(nil), l.TokenForms...)
	return l
}

// Forget empties the ledger.
func (s *Server) Forget() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger = Ledger{}
}

// Elsewhere returns what was asked of the other origin.
func (s *Server) Elsewhere() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.elsewhere...)
}

// Secrets returns every code and token ever given out, and every verifier
// that was sent in.
func (s *Server) Secrets() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]string(nil), s.issued...)
}

// RevokeAll makes every refresh token unknown.
func (s *Server) RevokeAll() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.refresh)
}

// ForgetClients makes every registration lapse.
func (s *Server) ForgetClients() {
	s.mu.Lock()
	defer s.mu.Unlock()
	clear(s.clients)
}

// Stop makes the server unreachable until the test ends.
func (s *Server) Stop() { s.http.CloseClientConnections(); s.http.Close() }

func (s *Server) now() time.Time { return time.Now().Add(s.switches.ClockOffset) }

func token(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b)
	return base64.RawURLEncoding.EncodeToString(b)
}

func (s *Server) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	s.ledger.Paths = append(s.ledger.Paths, r.Method+" "+r.URL.Path)
	sw := s.switches
	s.mu.Unlock()
	path := strings.TrimRight(r.URL.Path, "/")
	switch {
	case strings.HasPrefix(path, "/.well-known/oauth-protected-resource"):
		s.resourceMetadata(w, path, sw)
	case strings.HasPrefix(path, "/.well-known/oauth-authorization-server"):
		select {
		case <-time.After(sw.MetaDelay):
		case <-r.Context().Done():
		}
		s.issuerMetadata(w, sw)
	case path == "/mcp":
		s.resource(w, r, sw)
	case path == "/register" && r.Method == http.MethodPost:
		s.register(w, r)
	case path == "/authorize" && r.Method == http.MethodGet:
		s.authorize(w, r, sw)
	case strings.HasPrefix(path, "/authorize/"):
		s.provider(w, r, sw)
	case path == "/token" && r.Method == http.MethodPost:
		s.token(w, r, sw)
	default:
		http.NotFound(w, r)
	}
}
