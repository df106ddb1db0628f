package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"time"

	"github.com/mark3labs/mcp-go/client/transport"
	"github.com/mark3labs/mcp-go/mcp"
)

// connectLimit bounds the MCP handshake.
const connectLimit = 20 * time.Second

// handshake is an MCP handshake under way, shared by every call that came
// meanwhile.
type handshake struct {
	waiting int // calls; guarded by Client.mu
	cancel  context.CancelFunc
	done    chan struct{}
	conn    *transport.StreamableHTTP // these two once done is closed
	err     error
}

// connected returns the connection, after the MCP handshake. Callers that come
// while it is under way share it, each only as long as its own ctx lasts; it
// ends when nobody waits for it.
func (c *Client) connected(ctx context.Context) (*transport.StreamableHTTP, error) {
	c.mu.Lock()
	if conn := c.conn; conn != nil {
		c.mu.Unlock()
		return conn, nil
	}
	h := c.pending
	if h == nil {
		h = c.begin(ctx)
	}
	h.waiting++
	c.mu.Unlock()
	select {
	case <-h.done:
		return h.conn, h.err
	case <-ctx.Done():
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if h.waiting--; h.waiting == 0 {
		h.cancel()
		if c.pending == h {
			c.pending = nil // a later call begins its own
		}
	}
	return nil, ctx.Err()
}

// begin starts a handshake; c.mu is held.
func (c *Client) begin(ctx context.Context) *handshake {
	h := &handshake{done: make(chan struct{})}
	ctx, h.cancel = context.WithTimeout(context.WithoutCancel(ctx), connectLimit)
	c.pending = h
	c.side.Go(func() {
		defer h.cancel()
		conn, err := c.connect(ctx)
		c.mu.Lock()
		defer c.mu.Unlock()
		h.conn, h.err = conn, err
		if c.pending == h {
			c.pending = nil
			c.conn = conn
		}
		close(h.done)
	})
	return h
}

func (c *Client) forget(conn *transport.StreamableHTTP) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.conn == conn {
		c.conn = nil
	}
}

// protocolVersion is what travels in a header of every request from then on.
var protocolVersion = regexp.MustCompile(`^20\d\d-\d\d-\d\d$`)

func (c *Client) connect(ctx context.Context) (*transport.StreamableHTTP, error) {
	conn, err := transport.NewStreamableHTTP(c.server.String(), transport.WithHTTPBasicClient(c.mcp), transport.WithHTTPLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		return nil, fmt.Errorf("server URL: %w", err)
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
		return nil, unsent(err)
	}
	var hello struct {
		ProtocolVersion string `json:"protocolVersion"`
	}
	if json.Unmarshal(raw, &hello) != nil || !protocolVersion.MatchString(hello.ProtocolVersion) {
		return nil, &Error{cause: errors.New("no MCP service answers at this URL")}
	}
	conn.SetProtocolVersion(hello.ProtocolVersion)
	if err := conn.SendNotification(ctx, mcp.JSONRPCNotification{JSONRPC: "2.0", Notification: mcp.Notification{Method: "notifications/initialized"}}); err != nil {
		c.log.Debug("the service did not take notifications/initialized", "error", reason(err))
	}
	return conn, nil
}

// unsent makes err say that nothing of the caller's request was sent.
func unsent(err error) error {
	if e, ok := errors.AsType[*Error](err); ok {
		e.Sent = false
	}
	return err
}
