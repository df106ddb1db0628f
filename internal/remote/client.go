package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
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
	"golang.org/x/sync/singleflight"
)

// Client talks to one service. Make it with New, end it with Close; its
// methods may be called from many goroutines at once. Nothing is sent before
// the first call.
type Client struct {
	server  *url.URL
	http    *http.Client
	version string
	log     *slog.Logger
	notify  func(method string, params json.RawMessage)

	nextID    atomic.Int64
	handshake singleflight.Group
	mu        sync.Mutex
	conn      *transport.StreamableHTTP // nil until the handshake is done

	side sync.WaitGroup // cancellations on their way
}

// Options for New. Notify, when set, is given the service's notifications; it
// must not block.
type Options struct {
	Server  *url.URL // absolute http or https URL of the MCP endpoint
	Tokens  Tokens
	Version string // of the bridge, for the service's records
	Log     *slog.Logger
	Notify  func(method string, params json.RawMessage)
}

// New returns a client. It does no I/O.
func New(o Options) *Client {
	base := &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           (&net.Dialer{Timeout: 10 * time.Second, KeepAlive: 15 * time.Second}).DialContext,
		ForceAttemptHTTP2:     true,
		MaxIdleConnsPerHost:   64,
		IdleConnTimeout:       90 * time.Second,
		TLSHandshakeTimeout:   10 * time.Second,
		ExpectContinueTimeout: time.Second,
	}
	origin := &url.URL{Scheme: o.Server.Scheme, Host: o.Server.Host}
	return &Client{
		server: o.Server,
		http: &http.Client{
			Transport:     &authTransport{base: base, origin: origin, tokens: o.Tokens},
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		version: o.Version,
		log:     o.Log,
		notify:  o.Notify,
	}
}

// Close waits for cancellations on their way and gives idle connections back.
// Calls in flight are ended by their own contexts.
func (c *Client) Close() {
	c.side.Wait()
	c.http.CloseIdleConnections()
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
		if errors.Is(err, transport.ErrSessionTerminated) {
			// A 404 says that the request was not processed: the service no
			// longer knows this connection. One new handshake, one repeat.
			c.forget(conn)
			if !again {
				continue
			}
			return nil, &Error{Status: http.StatusNotFound}
		}
		return result, err
	}
}

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
	return judge(&a, resp, err)
}

// judge turns what the transport returned into a result or an error. The
// status has the last word: a 503 with a JSON body is not a result.
func judge(a *attempt, resp *transport.JSONRPCResponse, err error) (json.RawMessage, error) {
	switch {
	case errors.Is(err, ErrSignInNeeded):
		return nil, ErrSignInNeeded
	case errors.Is(err, transport.ErrSessionTerminated):
		return nil, transport.ErrSessionTerminated
	case a.status == http.StatusUnauthorized:
		return nil, fmt.Errorf("the service refused the token: %w", ErrSignInNeeded)
	case a.status != 0 && a.status/100 != 2:
		e := &Error{Status: a.status, Sent: a.status >= 500, cause: err}
		if resp != nil && resp.Error != nil {
			e.Detail = clean(resp.Error.Message)
		}
		return nil, e
	case err != nil:
		return nil, &Error{Sent: a.sent, cause: errors.New(clean(unwrapAll(err)))}
	case resp.Error != nil:
		return nil, &RPCError{Code: resp.Error.Code, Message: resp.Error.Message, Data: resp.Error.Data}
	case len(resp.Result) == 0:
		return nil, &Error{Sent: true, cause: errors.New("an answer with neither result nor error")}
	}
	return resp.Result, nil
}

// unwrapAll returns the innermost text of err: the layers above only repeat
// that sending failed.
func unwrapAll(err error) string {
	for {
		next := errors.Unwrap(err)
		if next == nil {
			return err.Error()
		}
		if _, isOp := errors.AsType[*net.OpError](err); isOp {
			if op, ok := err.(*net.OpError); ok { //nolint:errorlint // the layer itself is wanted, its own text is the useful one
				return op.Error()
			}
		}
		err = next
	}
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
			c.log.Debug("a cancellation did not reach the service", "error", clean(err.Error()))
		}
	})
}

func (c *Client) forget(conn *transport.StreamableHTTP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		c.conn = nil
	}
}

// connected returns the connection, after the MCP handshake. Callers that come
// while it is under way share it, each only as long as its own ctx lasts.
func (c *Client) connected(ctx context.Context) (*transport.StreamableHTTP, error) {
	c.mu.Lock()
	conn := c.conn
	c.mu.Unlock()
	if conn != nil {
		return conn, nil
	}
	shared := c.handshake.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 20*time.Second)
		defer cancel()
		return c.connect(ctx)
	})
	select {
	case r := <-shared:
		if r.Err != nil {
			return nil, r.Err
		}
		conn, _ := r.Val.(*transport.StreamableHTTP)
		return conn, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (c *Client) connect(ctx context.Context) (*transport.StreamableHTTP, error) {
	conn, err := transport.NewStreamableHTTP(c.server.String(), transport.WithHTTPBasicClient(c.http), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("server URL: %w", err)
	}
	if c.notify != nil {
		conn.SetNotificationHandler(c.forward)
	}
	params, err := json.Marshal(map[string]any{
		"protocolVersion": mcp.LATEST_LEGACY_PROTOCOL_VERSION,
		"capabilities":    map[string]any{},
		"clientInfo":      map[string]string{"name": "bellman-bridge", "version": c.version},
	})
	if err != nil {
		return nil, fmt.Errorf("encode initialize: %w", err)
	}
	var a attempt
	resp, err := conn.SendRequest(context.WithValue(ctx, attemptKey{}, &a),
		transport.JSONRPCRequest{JSONRPC: "2.0", ID: mcp.NewRequestId(c.nextID.Add(1)), Method: "initialize", Params: json.RawMessage(params)})
	if errors.Is(err, transport.ErrSessionTerminated) {
		a.status = http.StatusNotFound
	}
	raw, err := judge(&a, resp, err)
	if err != nil {
		return nil, handshakeError(err)
	}
	var hello struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(raw, &hello) != nil || !strings.HasPrefix(hello.ProtocolVersion, "20") {
		return nil, &Error{cause: errors.New("no MCP service answers at this URL")}
	}
	conn.SetProtocolVersion(hello.ProtocolVersion)
	if err := conn.SendNotification(ctx, mcp.JSONRPCNotification{JSONRPC: "2.0", Notification: mcp.Notification{Method: "notifications/initialized"}}); err != nil {
		c.log.Debug("the service did not take notifications/initialized", "error", clean(err.Error()))
	}
	c.mu.Lock()
	c.conn = conn
	c.mu.Unlock()
	return conn, nil
}

// handshakeError makes err say that nothing of the caller's request was sent.
func handshakeError(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Sent = false
	}
	return err
}

func (c *Client) forward(n mcp.JSONRPCNotification) {
	params, err := json.Marshal(n.Params)
	if err != nil {
		return
	}
	c.notify(n.Method, params)
}
