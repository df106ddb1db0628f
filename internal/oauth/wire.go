package oauth

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
	"time"
)

const (
	maxDocument     = 1 << 20
	documentTimeout = 10 * time.Second
	tokenTimeout    = 30 * time.Second
)

// wire is the way to the sign-in servers. It follows no redirect, so that a
// 307 cannot take a code or a token elsewhere, and dials no private address
// unless the configured server is one itself.
type wire struct {
	server  string // host of the configured server, always reachable
	direct  *http.Transport
	proxied *http.Transport
	client  *http.Client

	mu    sync.Mutex
	known bool
	reach reach
}

func newWire(server *url.URL, conf *tls.Config) *wire {
	w := &wire{server: server.Hostname()}
	if conf == nil {
		conf = &tls.Config{MinVersion: tls.VersionTLS12}
	} else {
		conf = conf.Clone()
		conf.MinVersion = max(conf.MinVersion, tls.VersionTLS12)
	}
	w.direct = &http.Transport{
		DialContext: w.dial, TLSClientConfig: conf, TLSHandshakeTimeout: documentTimeout,
		MaxIdleConns: 4, IdleConnTimeout: 30 * time.Second, ForceAttemptHTTP2: true, MaxResponseHeaderBytes: 64 << 10,
	}
	// Through a proxy the proxy resolves names and dials, and the proxy itself
	// is usually at a private address that the person has configured.
	w.proxied = w.direct.Clone()
	w.proxied.DialContext = (&net.Dialer{Timeout: documentTimeout}).DialContext
	w.proxied.Proxy = http.ProxyFromEnvironment
	w.client = &http.Client{
		Transport:     w,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	return w
}

// RoundTrip chooses between the direct way and the proxy of the environment.
func (w *wire) RoundTrip(req *http.Request) (*http.Response, error) {
	proxy, err := http.ProxyFromEnvironment(req)
	if err != nil {
		return nil, fmt.Errorf("read proxy settings: %w", err)
	}
	if proxy == nil {
		return w.direct.RoundTrip(req)
	}
	if ip, err := netip.ParseAddr(req.URL.Hostname()); err == nil && req.URL.Hostname() != w.server && reachOf(ip) != reachPublic {
		return nil, fmt.Errorf("refused to ask the proxy for the private address %s", ip)
	}
	return w.proxied.RoundTrip(req)
}

func (w *wire) close() {
	w.direct.CloseIdleConnections()
	w.proxied.CloseIdleConnections()
}

// dial connects to addr. The check is made on the address that is really
// dialled, so that no name can resolve to one thing for the check and another
// for the connection.
func (w *wire) dial(ctx context.Context, network, addr string) (net.Conn, error) {
	d := net.Dialer{Timeout: documentTimeout}
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("dial %s: %w", addr, err)
	}
	if !strings.EqualFold(host, w.server) {
		own := w.serverReach(ctx)
		d.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err != nil || !own.allows(reachOf(to.Addr())) {
				return fmt.Errorf("refused to connect to the private address %s", address)
			}
			return nil
		}
	}
	return d.DialContext(ctx, network, addr)
}

// serverReach returns how far away the configured server is: the nearest of
// its addresses. A name that cannot be resolved counts as public.
func (w *wire) serverReach(ctx context.Context) reach {
	w.mu.Lock()
	known, r := w.known, w.reach
	w.mu.Unlock()
	if known {
		return r
	}
	ips, err := net.DefaultResolver.LookupNetIP(ctx, "ip", w.server)
	if err != nil {
		return reachPublic
	}
	r = reachPublic
	for _, ip := range ips {
		r = max(r, reachOf(ip))
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	w.known, w.reach = true, r
	return r
}

// reply is an answer, read whole.
type reply struct {
	status int
	header http.Header
	body   []byte
}

// json decodes the body of a successful answer.
func (r reply) json(to any) error {
	kind, _, _ := mime.ParseMediaType(r.header.Get("Content-Type"))
	if kind != "application/json" && !strings.HasSuffix(kind, "+json") {
		return fmt.Errorf("the answer is %q, not JSON", oneLine(kind, 60))
	}
	if err := json.Unmarshal(r.body, to); err != nil {
		return errors.New("the answer is not the JSON it should be")
	}
	return nil
}

// fetch gets a document, or posts a body of JSON to it when there is one.
func (w *wire) fetch(ctx context.Context, u *url.URL, body []byte) (reply, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	method, content := http.MethodGet, io.Reader(nil)
	if body != nil {
		method, content = http.MethodPost, bytes.NewReader(body)
	}
	req, err := http.NewRequestWithContext(ctx, method, u.String(), content)
	if err != nil {
		return reply{}, fmt.Errorf("ask %s: %w", u.Host, err)
	}
	req.Header.Set("Accept", "application/json, text/event-stream;q=0.5")
	if body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return w.do(req)
}

func (w *wire) do(req *http.Request) (reply, error) {
	req.Header.Set("User-Agent", "bellman-bridge")
	resp, err := w.client.Do(req)
	if err != nil {
		return reply{}, fmt.Errorf("ask %s: %w", req.URL.Host, bare(err))
	}
	defer resp.Body.Close()
	r := reply{status: resp.StatusCode, header: resp.Header}
	if strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		return r, nil // A stream may never end, and holds nothing for us.
	}
	if r.body, err = io.ReadAll(io.LimitReader(resp.Body, maxDocument+1)); err != nil {
		return reply{}, fmt.Errorf("read the answer of %s: %w", req.URL.Host, bare(err))
	}
	if len(r.body) > maxDocument {
		return reply{}, fmt.Errorf("the answer of %s is larger than %d bytes", req.URL.Host, maxDocument)
	}
	return r, nil
}

// bare takes the URL, which may carry a code or a state, out of an error of
// net/http.
func bare(err error) error {
	if u, ok := errors.AsType[*url.Error](err); ok {
		return u.Err
	}
	return err
}
