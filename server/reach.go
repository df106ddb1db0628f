package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

const (
	reachLimit = 5 * time.Second
	clockLimit = 2 * time.Minute
)

// checkService asks each endpoint that the bridge needs. No credential is sent.
func checkService(ctx context.Context, c *checkup, cfg config) {
	client := &http.Client{
		Timeout:       reachLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	for _, e := range []struct {
		about, path string
		want        int
	}{
		{"health", "/healthz", http.StatusOK},
		{"mcp", cfg.server.Path, http.StatusMethodNotAllowed},
		{"sign-in at", "/.well-known/oauth-protected-resource", http.StatusOK},
	} {
		address := (&url.URL{Scheme: cfg.server.Scheme, Host: cfg.server.Host, Path: e.path}).String()
		began := time.Now()
		status, date, err := get(ctx, client, address)
		took := time.Since(began).Round(time.Millisecond)
		switch {
		case err != nil:
			c.bad(e.about, "check the network, the proxy settings and BELLMAN_URL", "%s cannot be reached: %v", address, err)
			return
		case status == http.StatusUnauthorized && e.about == "mcp", status == e.want:
			c.fine(e.about, "%s answers %d in %s", address, status, took)
		default:
			c.bad(e.about, "check BELLMAN_URL: this does not look like a Bellman service", "%s answers %d, not %d", address, status, e.want)
		}
		if off := time.Since(date); e.about == "health" && !date.IsZero() && (off > clockLimit || off < -clockLimit) {
			c.bad("clock", "set this machine's clock", "it differs from the service's by %s", off.Round(time.Second))
		}
	}
}

// get asks for address and returns the status and the time the answer names.
func get(ctx context.Context, client *http.Client, address string) (status int, date time.Time, err error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return 0, time.Time{}, fmt.Errorf("make request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return 0, time.Time{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	_, _ = io.CopyN(io.Discard, resp.Body, 64<<10)
	date, _ = http.ParseTime(resp.Header.Get("Date")) // a service without one is not asked for the time
	return resp.StatusCode, date, nil
}
