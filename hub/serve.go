package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"time"

	"golang.org/x/sync/errgroup"

	"bellman.sh/desktop/internal/hub"
)

// defaultData is where state is kept when nothing else is said.
const defaultData = "bellman-hub-data"

// grace is how long a stop waits for requests that are being answered.
const grace = 10 * time.Second

// serving is the command line of serve.
type serving struct {
	listen, data, publicURL, logLevel string
	devKeys                           bool
}

// serve runs the hub until ctx ends.
func serve(ctx context.Context, c console, args []string) error {
	var s serving
	flags := c.newFlags("serve", "serve [flags]")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:3900", "`address` to listen on; port 0 picks a free one")
	flags.StringVar(&s.data, "data", defaultData, "`directory` of all state, or :memory: for none")
	flags.StringVar(&s.publicURL, "public-url", "", "`origin` people reach the hub at, when it is not the listening address")
	flags.BoolVar(&s.devKeys, "dev-keys", false, "accept the three development keys")
	flags.StringVar(&s.logLevel, "log", "warn", "log `level`: debug, info, warn or error")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return misused(flags, "--log %q is not a level", s.logLevel)
	}
	if err := s.checkListen(); err != nil {
		return misused(flags, "%v", err)
	}
	return s.run(ctx, c, slog.New(slog.NewTextHandler(c.errOut, &slog.HandlerOptions{Level: level})))
}

// checkListen refuses an address that others could reach: the hub speaks
// plain HTTP.
func (s serving) checkListen() error {
	host, _, err := net.SplitHostPort(s.listen)
	if err != nil {
		return fmt.Errorf("--listen %q is not host:port", s.listen)
	}
	ip, err := netip.ParseAddr(host)
	if host != "localhost" && (err != nil || !ip.IsLoopback()) {
		return fmt.Errorf("--listen %q is not a loopback address", s.listen)
	}
	return nil
}

func (s serving) run(ctx context.Context, c console, logger *slog.Logger) (err error) {
	config := hub.Config{Data: s.data, DevKeys: s.devKeys, PublicURL: s.publicURL, Log: logger}
	if text := c.getenv("BELLMAN_KEYS"); text != "" {
		if config.Keys, err = hub.ParseKeys(text); err != nil {
			return fmt.Errorf("BELLMAN_KEYS: %w", err)
		}
	}
	h, err := hub.Open(ctx, config)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, h.Close()) }()
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.listen)
	if err != nil {
		return fmt.Errorf("listen on %s: %w", s.listen, err)
	}
	base := "http://" + listener.Addr().String()
	server := &http.Server{
		Handler:           h.Handler(base),
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    64 << 10,
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	_, _ = fmt.Fprintf(c.errOut, "bellman-hub: listening on %s\n", base)
	return serveUntil(ctx, server, listener, h)
}

// serveUntil serves until ctx ends, then lets what is being answered finish.
func serveUntil(ctx context.Context, server *http.Server, listener net.Listener, h *hub.Hub) error {
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		if err := server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			return fmt.Errorf("serve: %w", err)
		}
		return nil
	})
	group.Go(func() error {
		<-ctx.Done()
		h.EndPolls()
		stopping, cancel := context.WithTimeout(context.WithoutCancel(ctx), grace)
		defer cancel()
		if err := server.Shutdown(stopping); err != nil {
			return errors.Join(fmt.Errorf("stop: %w", err), server.Close())
		}
		return nil
	})
	return group.Wait()
}

// printVersion prints the version.
func printVersion(_ context.Context, c console, args []string) error {
	flags := c.newFlags("version", "version")
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	_, err := fmt.Fprintf(c.out, "bellman-hub %s\n", hub.Version)
	return err
}
