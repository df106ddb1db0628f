package room_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/remote"
)

// wire is a network in memory, so that a bubble's time can pass while somebody
// waits on it.
type wire struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.conns <- far:
		return near, nil
	case <-w.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.done) })
	return nil
}

// Addr implements net.Listener.
func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// script is a service in a bubble: what it answers, and when it was asked.
type script struct {
	socket func(w http.ResponseWriter, r *http.Request, n int)
	sync   func(n int) string // result of the n-th bellman_sync

	mu    sync.Mutex
	began time.Time
	opens []time.Duration
	syncs []time.Duration
	pings []time.Duration
}

// ServeHTTP implements http.Handler.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ws" {
		s.socket(w, r, s.note(&s.opens))
		return
	}
	id, ok := called(r)
	if ok {
		n := s.note(&s.syncs)
		if result := s.sync(n); result != "" {
			replyTool(w, id, result)
			return
		}
		select {
		case <-time.After(25 * time.Second):
		case <-r.Context().Done():
		}
		replyTool(w, id, syncActive)
		return
	}
	greet(w, r)
}

// greet answers the MCP handshake.
func greet(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	replyTool(w, m.ID, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
}

// note writes down when something happened, and returns how often it had.
func (s *script) note(list *[]time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, time.Since(s.began))
	return len(*list)
}

func (s *script) times(list *[]time.Duration) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), *list...)
}

func gaps(at []time.Duration) []time.Duration {
	var list []time.Duration
	for i := 1; i < len(at); i++ {
		list = append(list, at[i]-at[i-1])
	}
	return list
}

// bubble runs a bridge that watches rooms of a scripted service for a time
// that passes at once, and then what looks at it.
func bubble(t *testing.T, s *script, rooms int, creds remote.Tokens, run func(t *testing.T, b *bridge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { inBubble(t, s, rooms, creds, func(*testing.T, *bridge) {}, run) })
}

// bubbleWith is bubble with one room, for a bridge that is prepared before it
// starts.
func bubbleWith(t *testing.T, s *script, prepare func(t *testing.T, b *bridge), run func(t *testing.T, b *bridge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { inBubble(t, s, 1, key, prepare, run) })
}

func inBubble(t *testing.T, s *script, rooms int, creds remote.Tokens, prepare func(t *testing.T, b *bridge), run func(t *testing.T, b *bridge)) {
	t.Helper()
	s.began = time.Now()
	w := &wire{conns: make(chan net.Conn), done: make(chan struct{})}
	server := &http.Server{Handler: s}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(w)
	}()
	b := newBridge(t, t.TempDir(), remote.Options{
		Server: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"}, Tokens: creds, Dial: w.dial,
	})
	for i := range rooms {
		b.join(t, &hubtest.Seat{Room: fmt.Sprint("qs_", i), Member: "m_ours"})
	}
	prepare(t, b)
	b.start(t)
	run(t, b)
	b.stop()
	_ = server.Close()
	<-served
	time.Sleep(time.Minute) // for what the service still had to do
}

func status(code int, header ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// hold opens the socket and reads until it is closed, answering pings or not.
func (s *script) hold(pong bool) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		sayThen(w, r, "", func(c *websocket.Conn) {
			ctx := context.WithoutCancel(r.Context())
			for {
				_, data, err := c.Read(ctx)
				if err != nil {
					return
				}
				if string(data) == "ping" {
					s.note(&s.pings)
				}
				if pong && c.Write(ctx, websocket.MessageText, []byte("pong")) != nil {
					return
				}
			}
		})
	}
}

func held(int) string { return "" } // every poll is held for its 25 s

const key = remote.Key("k")
