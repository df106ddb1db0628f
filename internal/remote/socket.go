package remote

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"strings"
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
// this identity's own included. One goroutine reads it; Prove and Close may be
// called by others.
type Socket struct {
	conn   *websocket.Conn
	cursor int64
	prove  chan struct{}
}

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
		return &Socket{conn: conn, cursor: cursor, prove: make(chan struct{}, 1)}, nil
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case errors.Is(err, ErrSignInNeeded):
		return nil, ErrSignInNeeded
	case a.status == http.StatusUnauthorized:
		return nil, fmt.Errorf("the service refused the token: %w", ErrSignInNeeded)
	default:
		return nil, &Error{Status: a.status, cause: errors.New(clean(unwrapAll(err)))}
	}
}

func (c *Client) socketURL(room string, cursor int64) string {
	u := url.URL{Scheme: c.server.Scheme, Host: c.server.Host}
	u.Path = strings.TrimSuffix(strings.TrimSuffix(c.server.Path, "/"), "/mcp") + "/ws"
	u.RawQuery = url.Values{"session": {room}, "cursor": {strconv.FormatInt(cursor, 10)}}.Encode()
	return u.String()
}

// Close ends the socket at once.
func (s *Socket) Close() { _ = s.conn.CloseNow() }

// Prove makes the next Read ask the service for a sign of life now: after a
// sleep or a change of network an open socket proves nothing.
func (s *Socket) Prove() {
	select {
	case s.prove <- struct{}{}:
	default:
	}
}

// ErrRemoved means that the service closed the socket because every member of
// this identity in the room was removed.
var ErrRemoved = errors.New("removed from the room")

// Read returns the next event above everything returned before, and the frame
// it came in. It blocks until one comes, ctx ends, or the socket fails: closed, or silent for 10 s
// after a ping that follows 30 s of silence. Frames that are not an event, or
// repeat one, are passed over, as bridge.md 3.2 has it.
func (s *Socket) Read(ctx context.Context) (bellman.Event, json.RawMessage, error) {
	for {
		data, err := s.readFrame(ctx)
		if err != nil {
			return bellman.Event{}, nil, err
		}
		var e bellman.Event
		if json.Unmarshal(data, &e) != nil || !e.Valid() || e.Cursor <= s.cursor {
			continue
		}
		s.cursor = e.Cursor
		return e, data, nil
	}
}

type frame struct {
	kind websocket.MessageType
	data []byte
	err  error
}

func (s *Socket) readFrame(ctx context.Context) ([]byte, error) {
	readCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	got := make(chan frame, 1)
	go func() { // ends with readCtx at the latest: cancelling it fails the read
		var f frame
		f.kind, f.data, f.err = s.conn.Read(readCtx)
		got <- f
	}()
	idle := time.NewTimer(idleBeforePing)
	defer idle.Stop()
	pinged := false
	for {
		select {
		case f := <-got:
			return s.judge(ctx, f)
		case <-ctx.Done():
			<-cancelled(cancel, got)
			return nil, ctx.Err()
		case <-s.prove:
		case <-idle.C:
		}
		if pinged {
			<-cancelled(cancel, got)
			return nil, &Error{cause: errors.New("the room socket is silent")}
		}
		pinged = true
		idle.Reset(pongTimeout)
		writeCtx, stop := context.WithTimeout(ctx, pongTimeout)
		err := s.conn.Write(writeCtx, websocket.MessageText, []byte("ping"))
		stop()
		if err != nil {
			<-cancelled(cancel, got)
			return nil, &Error{cause: errors.New(clean(unwrapAll(err)))}
		}
	}
}

// cancelled ends the pending read and returns what it leaves.
func cancelled(cancel context.CancelFunc, got chan frame) chan frame {
	cancel()
	return got
}

func (s *Socket) judge(ctx context.Context, f frame) ([]byte, error) {
	switch {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case websocket.CloseStatus(f.err) == websocket.StatusPolicyViolation:
		return nil, ErrRemoved
	case f.err != nil:
		return nil, &Error{cause: errors.New(clean(unwrapAll(f.err)))}
	case f.kind != websocket.MessageText:
		return nil, nil
	}
	return f.data, nil
}
