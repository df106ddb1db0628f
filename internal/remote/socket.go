package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/bellman"
)

// The room socket's numbers, from bridge.md 3.2.
const (
	handshakeTimeout = 10 * time.Second
	idleBeforePing   = 30 * time.Second
	pongTimeout      = 10 * time.Second
	maxFrame         = 4 << 20 // a payload is 20,000 characters; a joined member's brief is more
)

// Socket is one open room socket: the events of a room as they are written,
// this identity's own included. One goroutine reads it and ends it with Close;
// Prove may be called by others.
type Socket struct {
	conn   *websocket.Conn
	cursor int64
	limit  func() (context.Context, context.CancelFunc) // for a ping

	mu     sync.Mutex
	timer  *time.Timer // fires when the service has been silent
	asked  bool        // a ping is out and nothing has come since
	silent bool        // nothing came in time: the socket was given up
	closed bool
	pings  sync.WaitGroup
}

// ErrRemoved means that the service closed the socket because every member of
// this identity in the room was removed.
var ErrRemoved = errors.New("removed from the room")

// OpenSocket opens the room's socket so that events above cursor follow. It
// blocks for at most 10 s. A refused handshake is an *Error with its status.
// See protocol.md 6.
func (c *Client) OpenSocket(ctx context.Context, room string, cursor int64) (*Socket, error) {
	dialCtx, cancel := context.WithTimeout(ctx, handshakeTimeout)
	defer cancel()
	var a attempt
	dialCtx = context.WithValue(dialCtx, attemptKey{}, &a)
	conn, _, err := websocket.Dial(dialCtx, c.socketURL(room, cursor), &websocket.DialOptions{HTTPClient: c.http}) //nolint:bodyclose // Dial closes it
	switch {
	case err == nil:
		conn.SetReadLimit(maxFrame)
		return newSocket(ctx, conn, cursor), nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, ErrSignInNeeded):
		return nil, ErrSignInNeeded
	case a.status == http.StatusUnauthorized:
		return nil, fmt.Errorf("the service refused the token: %w", ErrSignInNeeded)
	default:
		return nil, &Error{Status: a.status, RetryAfter: a.retryAfter, cause: reason(err)}
	}
}

func newSocket(ctx context.Context, conn *websocket.Conn, cursor int64) *Socket {
	ctx = context.WithoutCancel(ctx)
	s := &Socket{conn: conn, cursor: cursor}
	s.limit = func() (context.Context, context.CancelFunc) { return context.WithTimeout(ctx, pongTimeout) }
	s.timer = time.AfterFunc(idleBeforePing, s.quiet)
	return s
}

func (c *Client) socketURL(room string, cursor int64) string {
	u := c.route("/ws")
	u.RawQuery = url.Values{"session": {room}, "cursor": {strconv.FormatInt(cursor, 10)}}.Encode()
	return u.String()
}

// Close ends the socket at once and waits for a ping on its way.
func (s *Socket) Close() {
	s.mu.Lock()
	s.closed = true
	s.timer.Stop()
	s.mu.Unlock()
	_ = s.conn.CloseNow()
	s.pings.Wait()
}

// Prove asks the service for a sign of life now, and Read fails if none comes
// within 10 s: after a sleep or a change of network an open socket proves
// nothing. It does not block.
func (s *Socket) Prove() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.closed && !s.asked {
		s.timer.Reset(0)
	}
}

// quiet is called when the service has been silent for long enough to ask
// whether it is there, or has not answered that.
func (s *Socket) quiet() {
	s.mu.Lock()
	if s.closed || s.silent {
		s.mu.Unlock()
		return
	}
	s.pings.Add(1) // under the lock, so that Close waits for it
	defer s.pings.Done()
	if s.asked {
		s.silent = true
		s.mu.Unlock()
		_ = s.conn.CloseNow() // fails the pending Read
		return
	}
	s.asked = true
	s.timer.Reset(pongTimeout)
	s.mu.Unlock()
	ctx, cancel := s.limit()
	defer cancel()
	// A ping that cannot be written closes the connection, which Read reports.
	_ = s.conn.Write(ctx, websocket.MessageText, []byte("ping"))
}

// heard puts the next question off: any frame is a sign of life.
func (s *Socket) heard() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.silent {
		return
	}
	s.asked = false
	s.timer.Reset(idleBeforePing)
}

// Read returns the next event above everything returned before, and the frame
// it came in. It blocks until one comes, ctx ends, or the socket fails:
// closed, or silent for 10 s after a ping that follows 30 s of silence. Frames
// that are not an event, or repeat one, are passed over, as bridge.md 3.2 has
// it. After an error the socket is good for Close alone.
func (s *Socket) Read(ctx context.Context) (bellman.Event, json.RawMessage, error) {
	for {
		kind, data, err := s.conn.Read(ctx)
		if err != nil {
			return bellman.Event{}, nil, s.failure(ctx, err)
		}
		s.heard()
		var e bellman.Event
		if kind != websocket.MessageText || json.Unmarshal(data, &e) != nil || !e.Valid() || e.Cursor <= s.cursor {
			continue
		}
		s.cursor = e.Cursor
		return e, data, nil
	}
}

func (s *Socket) failure(ctx context.Context, err error) error {
	s.mu.Lock()
	silent := s.silent
	s.mu.Unlock()
	code := websocket.CloseStatus(err)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case silent:
		return &Error{cause: errors.New("the room socket is silent")}
	case code == websocket.StatusPolicyViolation:
		return ErrRemoved
	case code != -1:
		return &Error{cause: fmt.Errorf("it closed the room socket (%d)", code)}
	}
	return &Error{cause: reason(err)}
}
