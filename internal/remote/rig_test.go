package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bellman.sh/desktop/internal/remote"
)

// TestMain makes the test binary a client when a test wants one in an
// environment of its own, and else sees that no goroutine is left.
func TestMain(m *testing.M) {
	if server := os.Getenv(childVar); server != "" {
		os.Exit(callOnce(server))
	}
	goleak.VerifyTestMain(m)
}

// request is one MCP request as the service sees it.
type request struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	token  string
	head   http.Header
}

// service is an MCP service of which a test writes the interesting part: what
// answers everything but the handshake.
type service struct {
	*httptest.Server
	answer func(w http.ResponseWriter, r *http.Request, m request)

	mu   sync.Mutex
	seen []request
}

func start(tb testing.TB, answer func(w http.ResponseWriter, r *http.Request, m request)) *service {
	tb.Helper()
	s := &service{answer: answer}
	s.Server = httptest.NewServer(s)
	tb.Cleanup(s.Close)
	return s
}

// ServeHTTP implements http.Handler.
func (s *service) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	m := request{token: strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer "), head: r.Header.Clone()}
	if r.URL.Path == "/mcp" {
		body, _ := io.ReadAll(r.Body)
		_ = json.Unmarshal(body, &m)
	}
	s.mu.Lock()
	s.seen = append(s.seen, m)
	s.mu.Unlock()
	switch {
	case m.Method == "initialize" && s.answer == nil:
		welcome(w, m)
	case m.Method == "notifications/initialized":
		w.WriteHeader(http.StatusAccepted)
	case s.answer != nil:
		s.answer(w, r, m)
	}
}

// count counts the requests of a method.
func (s *service) count(method string) int { return len(s.requests(method)) }

func (s *service) requests(method string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var list []request
	for _, m := range s.seen {
		if m.Method == method {
			list = append(list, m)
		}
	}
	return list
}

// welcome answers initialize.
func welcome(w http.ResponseWriter, m request) {
	reply(w, m, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
}

// reply answers with a result.
func reply(w http.ResponseWriter, m request, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(m.ID)+`,"result":`+result+`}`)
}

// after answers the handshake and leaves the rest to f.
func after(f func(w http.ResponseWriter, r *http.Request, m request)) func(http.ResponseWriter, *http.Request, request) {
	return func(w http.ResponseWriter, r *http.Request, m request) {
		if m.Method == "initialize" {
			welcome(w, m)
			return
		}
		f(w, r, m)
	}
}

func client(tb testing.TB, server string, tokens remote.Tokens, change ...func(*remote.Options)) *remote.Client {
	tb.Helper()
	u, err := url.Parse(server + "/mcp")
	if err != nil {
		tb.Fatal(err)
	}
	o := remote.Options{Server: u, Tokens: tokens, Version: "test", Log: slog.New(slog.DiscardHandler)}
	for _, f := range change {
		f(&o)
	}
	c := remote.New(o)
	tb.Cleanup(c.Close)
	return c
}

func call(tb testing.TB, c *remote.Client) (json.RawMessage, error) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), 30*time.Second)
	defer cancel()
	return c.Call(ctx, "tools/call", json.RawMessage(`{"name":"bellman_rooms","arguments":{"n":12345678901234567890}}`))
}

// serviceError is the *remote.Error in err.
func serviceError(tb testing.TB, err error) *remote.Error {
	tb.Helper()
	e, ok := errors.AsType[*remote.Error](err)
	if !ok {
		tb.Fatalf("got %v, want an error of the service", err)
	}
	return e
}

// rotating are tokens of which each refusal gives the next.
type rotating struct {
	mu     sync.Mutex
	tokens []string
	err    error // of Replace, once there is no next
	asked  int
}

// Token implements remote.Tokens.
func (r *rotating) Token(context.Context) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.tokens[0], nil
}

// Replace implements remote.Tokens.
func (r *rotating) Replace(_ context.Context, refused string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.asked++
	if r.tokens[0] == refused {
		if len(r.tokens) == 1 {
			return "", r.err
		}
		r.tokens = r.tokens[1:]
	}
	return r.tokens[0], nil
}

func (r *rotating) replaced() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.asked
}

// listen opens a loopback port that a test serves by hand.
func listen(tb testing.TB) net.Listener {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = l.Close() })
	return l
}
