package main

import (
	"context"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strings"
	"time"
)

const (
	reachLimit = 5 * time.Second
	clockLimit = 2 * time.Minute
	documents  = 64 << 10 // what is read of an answer
)

// endpoint is one address the bridge needs, and the answers that mean it is
// the right one for somebody without a credential.
type endpoint struct {
	about, address string
	want           []int
}

// checkService asks each endpoint that the bridge needs. No credential is sent.
func checkService(ctx context.Context, c *checkup, cfg config, getenv func(string) string) {
	checkAuthorities(c, getenv)
	checkProxy(c, cfg.server)
	client := &http.Client{
		Transport:     &http.Transport{Proxy: http.ProxyFromEnvironment, TLSClientConfig: cfg.tls, ForceAttemptHTTP2: true},
		Timeout:       reachLimit,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	defer client.CloseIdleConnections()
	at := func(path string) string {
		return (&url.URL{Scheme: cfg.server.Scheme, Host: cfg.server.Host, Path: path}).String()
	}
	base := strings.TrimSuffix(cfg.server.Path, "/mcp")
	health := endpoint{"health", at(base + "/healthz"), []int{http.StatusOK}}
	sent := time.Now()
	a, err := ask(ctx, c, client, health)
	if err != nil {
		return // nothing else can be reached either
	}
	checkClock(c, a.date, sent)
	_, _ = ask(ctx, c, client, endpoint{"mcp", at(cfg.server.Path), []int{http.StatusUnauthorized, http.StatusMethodNotAllowed}})
	// A service without the socket is polled.
	_, _ = ask(ctx, c, client, endpoint{"socket", at(base + "/ws"), []int{
		http.StatusUnauthorized, http.StatusBadRequest, http.StatusUpgradeRequired, http.StatusNotFound,
	}})
	if cfg.key == "" {
		checkSignInServer(ctx, c, client, at("/.well-known/oauth-protected-resource"))
	}
}

// checkSignInServer follows what the service says about where to sign in.
func checkSignInServer(ctx context.Context, c *checkup, client *http.Client, address string) {
	a, err := ask(ctx, c, client, endpoint{"sign-in", address, []int{http.StatusOK}})
	if err != nil || a.status != http.StatusOK {
		return
	}
	var resource struct {
		Servers []string `json:"authorization_servers"`
	}
	if err := json.Unmarshal(a.body, &resource); err != nil || len(resource.Servers) == 0 {
		c.bad("sign-in", "check BELLMAN_URL: this does not look like a Bellman service", "%s names no server to sign in at", address)
		return
	}
	issuer, err := parseServer(resource.Servers[0])
	if err != nil {
		c.bad("sign-in", "tell whoever runs the service", "the server to sign in at: %v", err)
		return
	}
	issuer.Path = "/.well-known/oauth-authorization-server" + issuer.Path
	_, _ = ask(ctx, c, client, endpoint{"sign-in", issuer.String(), []int{http.StatusOK}})
}

// answered is what an endpoint said.
type answered struct {
	status int
	date   string // the time it named, as it named it
	body   []byte // the beginning
}

// ask reports what an endpoint answers and returns it.
func ask(ctx context.Context, c *checkup, client *http.Client, e endpoint) (answered, error) {
	began := time.Now()
	a, err := get(ctx, client, e.address)
	switch {
	case err != nil:
		c.bad(e.about, unreachable(err), "%s cannot be reached: %v", e.address, err)
	case !slices.Contains(e.want, a.status):
		c.bad(e.about, "check BELLMAN_URL: this does not look like a Bellman service", "%s answers %d", e.address, a.status)
	default:
		c.fine(e.about, "%s answers %d in %s", e.address, a.status, time.Since(began).Round(time.Millisecond))
	}
	return a, err
}

// unreachable returns the next step after an attempt that brought no answer.
func unreachable(err error) string {
	if _, unknown := errors.AsType[x509.UnknownAuthorityError](err); unknown {
		return "have the authority that signed for it installed on this machine, or name its certificate in SSL_CERT_FILE"
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return "set this machine's clock, or tell whoever runs the service that its certificate has expired"
	}
	return "check the network, the proxy settings and BELLMAN_URL"
}

// get asks for address.
func get(ctx context.Context, client *http.Client, address string) (answered, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return answered{}, fmt.Errorf("make request: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		if cause, ok := errors.AsType[*url.Error](err); ok {
			err = cause.Err // the address stands beside it
		}
		return answered{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(resp.Body, documents))
	if err != nil {
		return answered{}, fmt.Errorf("read answer: %w", err)
	}
	return answered{resp.StatusCode, resp.Header.Get("Date"), body}, nil
}

// checkClock compares this machine's clock with what the service says.
func checkClock(c *checkup, said string, sent time.Time) {
	date, err := http.ParseTime(said)
	if err != nil {
		c.fine("clock", "%s; the service does not tell the time", sent.UTC().Format(time.RFC3339))
		return
	}
	off := sent.Sub(date).Round(time.Second)
	if off.Abs() > clockLimit {
		c.bad("clock", "set this machine's clock", "it differs from the service's by %s", off)
		return
	}
	c.fine("clock", "%s, within %s of the service's", sent.UTC().Format(time.RFC3339), off.Abs()+time.Second)
}

// checkProxy shows through what the server is reached, without its password.
func checkProxy(c *checkup, server *url.URL) {
	proxy, err := http.ProxyFromEnvironment(&http.Request{URL: server})
	switch {
	case err != nil:
		c.bad("proxy", "correct HTTPS_PROXY, HTTP_PROXY or NO_PROXY", "the settings name no proxy that can be used")
	case proxy == nil:
		c.fine("proxy", "none for this server")
	default:
		c.fine("proxy", "%s", proxy.Host)
	}
}

// checkAuthorities looks at the certificates that are named beside those of
// the system or, on Linux, in their place.
func checkAuthorities(c *checkup, getenv func(string) string) {
	path := getenv("SSL_CERT_FILE")
	if path == "" {
		c.fine("authorities", "those of the system")
		return
	}
	text, err := os.ReadFile(path)
	switch {
	case err != nil:
		c.bad("authorities", "correct SSL_CERT_FILE", "%v", err)
	case !x509.NewCertPool().AppendCertsFromPEM(text):
		c.bad("authorities", "name a file of certificates in PEM", "SSL_CERT_FILE is %s, which holds no certificate", path)
	default:
		c.fine("authorities", "those in %s", path)
	}
}
