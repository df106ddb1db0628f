package main

import (
	"context"
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"net"
	"net/http"
	"net/netip"
	"os"
	"strconv"
	"strings"
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
	listen, data, publicURL, logLevel  string
	devKeys, behindProxy               bool
	cert, key                          string
	rate                               float64
	connections                        int
	issuer, clientID, secretFile, name string
}

func (s *serving) flags(c console) *flag.FlagSet {
	flags := c.newFlags("serve", "serve [flags]")
	flags.StringVar(&s.listen, "listen", "127.0.0.1:3900", "`address` to listen on; port 0 picks a free one")
	flags.StringVar(&s.data, "data", defaultData, "`directory` of all state, or :memory: for none")
	flags.StringVar(&s.publicURL, "public-url", "", "`origin` people reach the hub at, when it is not the listening address")
	flags.BoolVar(&s.devKeys, "dev-keys", false, "accept the three development keys; loopback only")
	flags.StringVar(&s.logLevel, "log", "warn", "log `level`: debug, info, warn or error")
	flags.StringVar(&s.cert, "tls-cert", "", "certificate `file`; with --tls-key, serves HTTPS on any address")
	flags.StringVar(&s.key, "tls-key", "", "private key `file`")
	flags.BoolVar(&s.behindProxy, "insecure-behind-proxy", false, "serve plain HTTP on any address, for a proxy that does TLS")
	flags.Float64Var(&s.rate, "rate", 50, "requests a `second` for each credential; 0 is no limit")
	flags.IntVar(&s.connections, "max-connections", 4096, "`number` of connections at once")
	flags.StringVar(&s.issuer, "oidc-issuer", "", "OpenID Connect issuer `URL` that signs people in")
	flags.StringVar(&s.clientID, "oidc-client-id", "", "client `id` at the issuer")
	flags.StringVar(&s.secretFile, "oidc-client-secret-file", "", "`file` that holds the client secret")
	flags.StringVar(&s.name, "oidc-name", "", "what the sign-in page calls the issuer")
	return flags
}

// serve runs the hub until ctx ends.
func serve(ctx context.Context, c console, args []string) error {
	var s serving
	flags := s.flags(c)
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	var level slog.Level
	if err := level.UnmarshalText([]byte(s.logLevel)); err != nil {
		return misused(flags, "--log %q is not a level", s.logLevel)
	}
	if err := s.check(); err != nil {
		return misused(flags, "%v", err)
	}
	return s.run(ctx, c, slog.New(slog.NewTextHandler(c.errOut, &slog.HandlerOptions{Level: level})))
}

// check refuses flags that do not go together. Others may reach the hub only
// where something encrypts, and then with real credentials and by one name.
func (s *serving) check() error {
	host, port, err := net.SplitHostPort(s.listen)
	if err != nil {
		return fmt.Errorf("--listen %q is not host:port", s.listen)
	}
	if _, err := strconv.ParseUint(port, 10, 16); err != nil {
		return fmt.Errorf("--listen %q: the port is not a number from 0 to 65535", s.listen)
	}
	ip, err := netip.ParseAddr(host)
	loopback := host == "localhost" || err == nil && ip.IsLoopback()
	others := !loopback || s.behindProxy
	if s.publicURL != "" {
		if err := hub.CheckPublicURL(s.publicURL, others); err != nil {
			return fmt.Errorf("--public-url: %w", err)
		}
	}
	switch {
	case (s.cert == "") != (s.key == ""):
		return errors.New("--tls-cert and --tls-key go together")
	case s.cert != "" && s.behindProxy:
		return errors.New("--insecure-behind-proxy is for a hub without --tls-cert")
	case !loopback && s.cert == "" && !s.behindProxy:
		return fmt.Errorf("--listen %q is not a loopback address: give --tls-cert and --tls-key, or --insecure-behind-proxy", s.listen)
	case others && s.publicURL == "":
		return errors.New("a hub that others reach needs --public-url")
	case others && s.devKeys:
		return errors.New("--dev-keys is for loopback only")
	case (s.issuer == "") != (s.clientID == "") || (s.issuer == "") != (s.secretFile == ""):
		return errors.New("--oidc-issuer, --oidc-client-id and --oidc-client-secret-file go together")
	case s.connections < 1:
		return errors.New("--max-connections must be at least 1")
	case math.IsNaN(s.rate) || math.IsInf(s.rate, 0) || s.rate < 0:
		return errors.New("--rate must be a number, 0 or more")
	case s.data == "":
		return errors.New("--data is empty: name a directory, or :memory: for none")
	}
	return nil
}

func (s *serving) config(c console, logger *slog.Logger) (hub.Config, error) {
	config := hub.Config{
		Data: s.data, DevKeys: s.devKeys, PublicURL: s.publicURL, Log: logger, Rate: s.rate, BehindProxy: s.behindProxy,
		Version: version,
	}
	if text := c.getenv("BELLMAN_KEYS"); text != "" {
		keys, err := hub.ParseKeys(text)
		if err != nil {
			return config, fmt.Errorf("BELLMAN_KEYS: %w", err)
		}
		config.Keys = keys
	}
	if s.issuer != "" {
		secret, err := os.ReadFile(s.secretFile)
		if err != nil {
			return config, fmt.Errorf("read client secret: %w", err)
		}
		config.Provider = &hub.Provider{
			Issuer: s.issuer, ClientID: s.clientID, Secret: strings.TrimSpace(string(secret)), Name: s.name,
		}
	}
	return config, nil
}

func (s *serving) run(ctx context.Context, c console, logger *slog.Logger) (err error) {
	config, err := s.config(c, logger)
	if err != nil {
		return err
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
	listener = limitConnections(listener, s.connections)
	if s.cert != "" {
		pair, err := tls.LoadX509KeyPair(s.cert, s.key)
		if err != nil {
			return errors.Join(fmt.Errorf("load certificate: %w", err), listener.Close())
		}
		base = "https" + strings.TrimPrefix(base, "http")
		listener = tls.NewListener(listener, &tls.Config{
			Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"},
		})
	}
	server := newServer(h.Handler(base), logger)
	_, _ = fmt.Fprintf(c.errOut, "bellman-hub: listening on %s\n", base)
	return serveUntil(ctx, server, listener, h)
}

// newServer returns a server on which nobody can hold a connection for long by
// sending, reading or doing nothing. Whoever moves files asks for more time.
func newServer(handler http.Handler, logger *slog.Logger) *http.Server {
	return &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: 10 * time.Second,
		ReadTimeout:       time.Minute,
		WriteTimeout:      2 * time.Minute, // A long poll, and its answer over a slow line.
		IdleTimeout:       2 * time.Minute,
		MaxHeaderBytes:    32 << 10,
		ErrorLog:          slog.NewLogLogger(logger.Handler(), slog.LevelDebug),
	}
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
			return server.Close() // Who is slow to ask or to read is cut off; that is no fault of the hub's.
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
	_, err := fmt.Fprintf(c.out, "bellman-hub %s\n", version)
	return err
}
