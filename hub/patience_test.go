package main

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"bellman.sh/desktop/internal/hub"
)

// pipes is a listener for connections within the process, whose deadlines
// follow the clock of the bubble.
type pipes struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.conns:
		return conn, nil
	case <-p.done:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	p.once.Do(func() { close(p.done) })
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.IPAddr{} }

// Whoever stops sending its request, or reading its answer, loses the
// connection: else a few thousand such peers would hold all there are.
func TestIdlersAreLetGo(t *testing.T) {
	const head = "GET / HTTP/1.1\r\nHost: x\r\n"
	for name, request := range map[string]string{
		"a slow header": head,
		"a slow body":   "POST / HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\nshort",
		"no reading":    head + "\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				written := make(chan error, 1)
				handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					_, err := io.Copy(io.Discard, r.Body)
					for err == nil {
						_, err = w.Write(make([]byte, 64<<10))
					}
					written <- err
				})
				listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
				server := newServer(handler, slog.New(slog.DiscardHandler))
				served := make(chan error, 1)
				go func() { served <- server.Serve(listener) }()
				here, there := net.Pipe()
				listener.conns <- there
				if _, err := io.WriteString(here, request); err != nil {
					t.Fatal(err)
				}
				if name != "a slow header" { // Which no handler ever sees.
					if err := <-written; !errors.Is(err, os.ErrDeadlineExceeded) {
						t.Errorf("the handler ended with %v, want a deadline", err)
					}
				}
				if _, err := io.Copy(io.Discard, here); err != nil {
					t.Errorf("the connection ended with %v", err)
				}
				_ = listener.Close()
				if err := <-served; !errors.Is(err, net.ErrClosed) {
					t.Errorf("the server ended with %v", err)
				}
			})
		})
	}
}

// A peer that is slow with its request does not keep the hub from stopping,
// and does not make the stop a failure.
func TestStopsBesideASlowPeer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := slog.New(slog.DiscardHandler)
		h, err := hub.Open(t.Context(), hub.Config{Data: ":memory:", DevKeys: true, Log: log})
		if err != nil {
			t.Fatal(err)
		}
		listener := &pipes{conns: make(chan net.Conn), done: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		served := make(chan error, 1)
		go func() { served <- serveUntil(ctx, newServer(h.Handler("http://127.0.0.1:1"), log), listener, h) }()
		here, there := net.Pipe()
		listener.conns <- there
		head := "POST /mcp HTTP/1.1\r\nHost: 127.0.0.1:1\r\nAuthorization: Bearer qk_dev_peer\r\nContent-Length: 10\r\n\r\nshort"
		if _, err := io.WriteString(here, head); err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // Until its handler waits for the rest.
		stop()
		if err := <-served; err != nil {
			t.Errorf("stopped with %v", err)
		}
		_, _ = io.Copy(io.Discard, here) // Ends, for the connection was cut.
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
}
