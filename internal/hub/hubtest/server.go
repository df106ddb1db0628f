// Package hubtest runs real hubs on loopback ports for tests, and talks to
// them as a client does. No program imports it.
package hubtest

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub"
)

// Development keys of the hubs that Start runs.
const (
	Jesse    = "qk_dev_jesse"    // on the team plan, administrator of org_codenerd
	Peer     = "qk_dev_peer"     // on the free plan, member of org_codenerd
	Outsider = "qk_dev_outsider" // on the free plan, in no organization
)

// Server is a hub that listens.
type Server struct {
	Hub   *hub.Hub
	URL   string // its origin
	Clock *Clock

	http *http.Server
	done chan struct{}
	once sync.Once
}

// Start runs a hub with the development keys and everything in memory, unless
// change says otherwise, and stops it when the test ends. Its clock runs, and
// can be put forward.
func Start(tb testing.TB, change ...func(*hub.Config)) *Server {
	tb.Helper()
	clock := &Clock{}
	config := hub.Config{Data: ":memory:", DevKeys: true, Log: slog.New(slog.DiscardHandler), Now: clock.Now}
	for _, f := range change {
		f(&config)
	}
	h, err := hub.Open(context.WithoutCancel(tb.Context()), config)
	if err != nil {
		tb.Fatalf("open hub: %v", err)
	}
	listener, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatalf("listen: %v", err)
	}
	s := &Server{Hub: h, URL: "http://" + listener.Addr().String(), Clock: clock, done: make(chan struct{})}
	s.http = &http.Server{Handler: h.Handler(s.URL), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(listener)
	}()
	tb.Cleanup(func() { s.Stop(tb) })
	return s
}

// Stop stops the hub as its program does. It is safe to call twice.
func (s *Server) Stop(tb testing.TB) {
	tb.Helper()
	s.once.Do(func() {
		s.Hub.EndPolls()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(tb.Context()), 10*time.Second)
		defer cancel()
		if err := s.http.Shutdown(ctx); err != nil {
			tb.Errorf("stop server: %v", err)
			_ = s.http.Close()
		}
		<-s.done
		if err := s.Hub.Close(); err != nil {
			tb.Errorf("close hub: %v", err)
		}
	})
}

// Clock is the real time, put forward. The zero value is the real time.
type Clock struct {
	mu    sync.Mutex
	ahead time.Duration
}

// Now returns the time on the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.ahead)
}

// Advance puts the clock forward.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ahead += d
}
