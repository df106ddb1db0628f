package remote

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// Client talks to one service. Make it with New, end it with Close; its
// methods may be called from many goroutines at once. Nothing is sent before
// the first call.
type Client struct {
	server  *url.URL
	http    *http.Client // for everything but MCP
	mcp     *http.Client // the same, which hears notifications
	version string
	log     *slog.Logger

	nextID  atomic.Int64
	mu      sync.Mutex
	conn    *transport.StreamableHTTP // nil until the handshake is done
	pending *handshake                // nil while none is under way

	side sync.WaitGroup // handshakes, and cancellations on their way
}

// Options for New. Notify, when set, is given the service's notifications; it
// must not block. Dial, when set, makes the connections in place of the
// system's network.
type Options struct {
	Server  *url.URL // absolute http or https URL of the MCP endpoint
	Tokens  Tokens
	TLS     *tls.Config // nil for the system's own authorities
	Version string      // of the bridge, for the service's records
	Log     *slog.Logger
	Notify  func(method string, params json.RawMessage)
	Dial    func(ctx context.Context, network, address string) (net.Conn, error)
}

// New returns a client. It does no I/O. Proxies and further certificates come
// from the environment, as everywhere in Go.
func New(o Options) *Client {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		TLSClientConfig:       o.TLS,
		ForceAttemptHTTP2:     true,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
		// A thousand connections may be held at once. What is larger than a
		// buffer passes it by.
		ReadBufferSize:  2 << 10,
		WriteBufferSize: 2 << 10,
	}
	if o.Dial != nil {
		base.DialContext = o.Dial
	}
	origin := &url.URL{Scheme: o.Server.Scheme, Host: o.Server.Host}
	stay := func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	plain := &http.Client{Transport: &authTransport{base: base, origin: origin, tokens: o.Tokens}, CheckRedirect: stay}
	hearing := plain
	if o.Notify != nil {
		hearing = &http.Client{Transport: &noticing{plain.Transport, o.Notify}, CheckRedirect: stay}
	}
	return &Client{server: o.Server, http: plain, mcp: hearing, version: o.Version, log: o.Log}
}

// Close waits for cancellations on their way and gives idle connections back.
// Calls in flight are ended by their own contexts.
func (c *Client) Close() {
	c.side.Wait()
	c.CloseIdle()
}

// CloseIdle gives up the connections nobody uses, which after a sleep or on
// another network may be dead without anybody knowing.
func (c *Client) CloseIdle() {
	// http.Client.CloseIdleConnections asks its RoundTripper, which is ours.
	if t, ok := c.http.Transport.(*authTransport); ok {
		if base, ok := t.base.(*http.Transport); ok {
			base.CloseIdleConnections()
		}
	}
}

// route is the address of one of the service's routes beside its MCP endpoint.
func (c *Client) route(path string) url.URL {
	return url.URL{
		Scheme: c.server.Scheme, Host: c.server.Host,
		Path: strings.TrimSuffix(strings.TrimSuffix(c.server.Path, "/"), "/mcp") + path,
	}
}

// Call sends one MCP request and returns the raw result. params is a JSON
// object or nil. It blocks until the service answers or ctx ends; then the
// service is told that the request is cancelled. Errors: *RPCError for an
// answer that is an error, *Error for anything else that went wrong on the
// way, ErrSignInNeeded, or ctx's own. Only an *Error with Sent, or the end of
// ctx, leaves open whether the service acted.
func (c *Client) Call(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error) {
	for again := false; ; again = true {
		conn, err := c.connected(ctx)
		if err != nil {
			return nil, err
		}
		result, err := c.roundTrip(ctx, conn, method, params)
		if !lostSession(err) {
			return result, err
		}
		// It says that the request was not processed: the service no longer
		// knows this connection. One new handshake, one repeat.
		c.forget(conn)
		if again {
			return nil, err
		}
	}
}

// lostSession reports whether the service no longer knows the connection: 404,
// or 400 with a complaint about the session, as some services have it.
func lostSession(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && (e.Status == http.StatusNotFound ||
		e.Status == http.StatusBadRequest && strings.Contains(strings.ToLower(e.Detail), "session"))
}

var errOther = errors.New("the answer belongs to another request")

func (c *Client) roundTrip(ctx context.Context, conn *transport.StreamableHTTP, method string, params json.RawMessage) (json.RawMessage, error) {
	var a attempt
	id := c.nextID.Add(1)
	req := transport.JSONRPCRequest{JSONRPC: "2.0", ID: mcp.NewRequestId(id), Method: method}
	if params != nil {
		req.Params = params
	}
	resp, err := conn.SendRequest(context.WithValue(ctx, attemptKey{}, &a), req)
	if ctx.Err() != nil {
		if a.sent {
			c.cancelled(ctx, conn, id)
		}
		return nil, ctx.Err()
	}
	if err == nil && a.status/100 == 2 && resp.ID.String() != req.ID.String() {
		err = errOther
	}
	return judge(&a, resp, err)
}

// cancelled tells the service that nobody waits for request id any more.
// mcp-go sends nothing when a context ends.
func (c *Client) cancelled(ctx context.Context, conn *transport.StreamableHTTP, id int64) {
	c.side.Go(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		n := mcp.JSONRPCNotification{JSONRPC: "2.0", Notification: mcp.Notification{
			Method: "notifications/cancelled",
			Params: mcp.NotificationParams{AdditionalFields: map[string]any{"requestId": id}},
		}}
		if err := conn.SendNotification(ctx, n); err != nil {
			c.log.Debug("a cancellation did not reach the service", "error", reason(err))
		}
	})
}
