package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/tools"
)

// request is one MCP request at a service.
type request struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Tool   string
}

func readRequest(body []byte) request {
	var q request
	_ = json.Unmarshal(body, &q)
	var p struct{ Name string }
	if json.Unmarshal(q.Params, &p) == nil && q.Method == "tools/call" {
		q.Tool = p.Name
	}
	return q
}

// front stands between a bridge and a hub and lets a fault happen to what its
// rule chooses.
type front struct {
	*httptest.Server
	mu   sync.Mutex
	rule func(request) fault
	seen []request
}

// fault is what happens to a request: forward carries it out at the hub.
type fault func(w http.ResponseWriter, forward func() *httptest.ResponseRecorder)

// dropped is a connection that breaks after the hub has acted.
func dropped(_ http.ResponseWriter, forward func() *httptest.ResponseRecorder) {
	forward()
	panic(http.ErrAbortHandler)
}

// cutOff is a connection that breaks before the hub hears of the request.
func cutOff(http.ResponseWriter, func() *httptest.ResponseRecorder) { panic(http.ErrAbortHandler) }

// unavailable is a gateway whose service is down.
func unavailable(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
	http.Error(w, "upstream is down", http.StatusServiceUnavailable)
}

func newFront(tb testing.TB, hub string) *front {
	tb.Helper()
	target, err := url.Parse(hub)
	if err != nil {
		tb.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.Host = target.Host
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/mcp") {
			pass.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		q := readRequest(body)
		f.mu.Lock()
		f.seen = append(f.seen, q)
		rule := f.rule
		f.mu.Unlock()
		if rule != nil {
			if happens := rule(q); happens != nil {
				happens(w, func() *httptest.ResponseRecorder {
					rec := httptest.NewRecorder()
					pass.ServeHTTP(rec, req)
					return rec
				})
				return
			}
		}
		pass.ServeHTTP(w, req)
	}))
	tb.Cleanup(f.Close)
	return f
}

func (f *front) set(rule func(request) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule, f.seen = rule, nil
}

// calls returns what of a tool has come since the rule was set.
func (f *front) calls(tool string) []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var some []request
	for _, q := range f.seen {
		if q.Tool == tool {
			some = append(some, q)
		}
	}
	return some
}

// behindFront is a joined room with a front between bridge and hub.
func behindFront(t *testing.T, change ...func(*tools.Config)) (*joined, *front) {
	t.Helper()
	var f *front
	j := join(t, func(hub string) string {
		f = newFront(t, hub)
		return f.URL
	}, change...)
	return j, f
}

// onTool is a rule: the fault happens to calls of the tool, the first n of them
// when n is positive.
func onTool(tool string, n int, happens fault) func(request) fault {
	var left atomic.Int64
	left.Store(int64(n))
	return func(q request) fault {
		if q.Tool == tool && (n <= 0 || left.Add(-1) >= 0) {
			return happens
		}
		return nil
	}
}

// service is a service of our own making, for answers that no hub would give.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(ctx context.Context, q request) string // a result, an error after "!", or "" for 500
	seen   []request
}

func newService(tb testing.TB, answer func(ctx context.Context, q request) string) *service {
	tb.Helper()
	s := &service{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		q := readRequest(body)
		if err != nil || req.Method != http.MethodPost || q.Method == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, q)
		s.mu.Unlock()
		if q.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		res := s.answer(req.Context(), q)
		if q.Method == "initialize" && res == "" {
			res = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		}
		if res == "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		member := "result"
		if rest, failed := strings.CutPrefix(res, "!"); failed {
			member, res = "error", rest
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, q.ID, member, res)
	}))
	tb.Cleanup(s.Close)
	return s
}

// calls returns the requests of a method that have come.
func (s *service) calls(method string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []request
	for _, q := range s.seen {
		if q.Method == method {
			some = append(some, q)
		}
	}
	return some
}

// pipes is a network whose only address is a server's, for tests under fake
// time, which a real network would stop.
type pipes struct {
	conns chan net.Conn
	ended chan struct{}
}

// inBubble is a rig in front of h, all of it under the fake time of t.
func inBubble(t *testing.T, h http.Handler) *rig {
	t.Helper()
	p := pipes{make(chan net.Conn), make(chan struct{})}
	server := &http.Server{Handler: h}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(p)
	}()
	t.Cleanup(func() {
		_ = server.Close()
		<-served
	})
	return newRigOver(t, p.dial, "http://service.example/mcp", remote.Key("key"), t.TempDir())
}

func (p pipes) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case p.conns <- far:
		return near, nil
	case <-p.ended:
		return nil, net.ErrClosed
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (p pipes) Accept() (net.Conn, error) {
	select {
	case c := <-p.conns:
		return c, nil
	case <-p.ended:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (p pipes) Close() error { close(p.ended); return nil }

// Addr implements net.Listener.
func (p pipes) Addr() net.Addr { return &net.UnixAddr{Name: "pipe", Net: "pipe"} }
