package hub_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// dial opens a room socket.
func dial(t *testing.T, s *hubtest.Server, token, room, cursor string) (*websocket.Conn, int, error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	conn, response, err := websocket.Dial(ctx, "ws"+strings.TrimPrefix(s.URL, "http")+"/ws?session="+room+"&cursor="+cursor,
		&websocket.DialOptions{HTTPHeader: http.Header{"Authorization": {"Bearer " + token}}})
	status := 0
	if response != nil {
		status = response.StatusCode
		if response.Body != nil {
			_ = response.Body.Close() // The library has read what it wants of it.
		}
	}
	if err == nil {
		t.Cleanup(func() { _ = conn.CloseNow() })
	}
	return conn, status, err
}

// next reads one event.
func next(t *testing.T, conn *websocket.Conn) bellman.Event {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	_, frame, err := conn.Read(ctx)
	if err != nil {
		t.Fatalf("read socket: %v", err)
	}
	var e bellman.Event
	if err := json.Unmarshal(frame, &e); err != nil || !e.Valid() {
		t.Fatalf("frame %s: %v", frame, err)
	}
	return e
}

func closing(t *testing.T, conn *websocket.Conn) websocket.StatusCode {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for {
		if _, _, err := conn.Read(ctx); err != nil {
			return websocket.CloseStatus(err)
		}
	}
}

// A socket replays what was missed and goes on live, the own events included,
// each once and in order, without an envelope.
func TestSocketDelivers(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	a.Say(t, "before")
	conn, _, err := dial(t, s, hubtest.Peer, b.Room, itoa(b.Cursor))
	if err != nil {
		t.Fatal(err)
	}
	if e := next(t, conn); e.Cursor != b.Cursor+1 || e.From.MemberID != a.Member {
		t.Errorf("replay %+v", e)
	}
	b.Say(t, "mine")
	a.Say(t, "theirs")
	for i, from := range []string{b.Member, a.Member} {
		if e := next(t, conn); e.Cursor != b.Cursor+2+int64(i) || e.From.MemberID != from {
			t.Errorf("live %d: %+v, want from %s", i, e, from)
		}
	}
}

// Case 52: an event appended while a socket connects is delivered exactly
// once, on whichever side of the handshake it falls.
func TestSocketMissesNothingWhileConnecting(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	const events = 60
	sent := make(chan error, 1)
	go func() {
		ctx := context.WithoutCancel(t.Context())
		for range events {
			if _, err := a.Call(ctx, bellman.ToolSend, sending(a, "message", args{"text": "n"})); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	conns := make([]*websocket.Conn, 8)
	for i := range conns {
		conn, _, err := dial(t, s, hubtest.Peer, b.Room, "0")
		if err != nil {
			t.Fatal(err)
		}
		conns[i] = conn
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for i, conn := range conns {
		for want := int64(1); want <= b.Cursor+events; want++ {
			if e := next(t, conn); e.Cursor != want {
				t.Fatalf("socket %d: cursor %d, want %d", i, e.Cursor, want)
			}
		}
	}
}

// The refusals of a handshake, in their order.
func TestSocketRefusals(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	closed := s.As(hubtest.Jesse).Open(t, nil)
	closed.OK(t, bellman.ToolLeave, closed.Ref(), nil)
	cases := []struct {
		name, token, room, cursor string
		want                      int
	}{
		{"bad cursor before credential", "wrong", a.Room, "-1", http.StatusBadRequest},
		{"no cursor", hubtest.Peer, a.Room, "", http.StatusBadRequest},
		{"unsafe cursor", hubtest.Peer, a.Room, "9007199254740992", http.StatusBadRequest},
		{"no room", hubtest.Peer, "", "0", http.StatusBadRequest},
		{"credential", "wrong", a.Room, "0", http.StatusUnauthorized},
		{"unknown room", hubtest.Peer, "qs_unknown", "0", http.StatusNotFound},
		{"stranger", hubtest.Outsider, a.Room, "0", http.StatusForbidden},
		{"stranger of a closed room", hubtest.Outsider, closed.Room, "0", http.StatusNotFound},
		{"closed", hubtest.Jesse, closed.Room, "0", http.StatusConflict},
	}
	for _, c := range cases {
		_, status, err := dial(t, s, c.token, c.room, c.cursor)
		if err == nil || status != c.want {
			t.Errorf("%s: %d %v, want %d", c.name, status, err, c.want)
		}
	}
	if response, _ := do(t, s, http.MethodPost, "/ws", "", nil); response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "GET" {
		t.Errorf("POST: %d", response.StatusCode)
	}
	if response, _ := do(t, s, http.MethodGet, "/ws?session=x&cursor=0", "", nil); response.StatusCode != http.StatusUpgradeRequired || response.Header.Get("Upgrade") != "websocket" {
		t.Errorf("no upgrade: %d", response.StatusCode)
	}
	// Who left may watch on.
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	if _, _, err := dial(t, s, hubtest.Peer, a.Room, "0"); err != nil {
		t.Errorf("who left: %v", err)
	}
}

// Case 52: a removed member's socket gets the event that removed it, then is
// closed with 1008, and cannot be opened again.
func TestSocketOfRemovedMember(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	conn, _, err := dial(t, s, hubtest.Peer, b.Room, itoa(b.Cursor))
	if err != nil {
		t.Fatal(err)
	}
	a.OK(t, bellman.ToolEvict, b.Ref(), nil)
	if e := next(t, conn); !e.Removes(b.Member) {
		t.Errorf("got %+v, want the removal", e)
	}
	if code := closing(t, conn); code != websocket.StatusPolicyViolation {
		t.Errorf("closed with %d, want 1008", code)
	}
	if _, status, err := dial(t, s, hubtest.Peer, b.Room, "0"); err == nil || status != http.StatusForbidden {
		t.Errorf("opened again: %v", err)
	}
}

// A socket answers exactly ping, and takes nothing else.
func TestSocketTakesOnlyPing(t *testing.T) {
	s := hubtest.Start(t)
	_, b := pair(t, s)
	conn, _, err := dial(t, s, hubtest.Peer, b.Room, itoa(b.Cursor))
	if err != nil {
		t.Fatal(err)
	}
	if err := conn.Write(t.Context(), websocket.MessageText, []byte("ping")); err != nil {
		t.Fatal(err)
	}
	if _, pong, err := conn.Read(t.Context()); err != nil || string(pong) != "pong" {
		t.Errorf("got %q, %v, want pong", pong, err)
	}
	for _, frame := range []struct {
		kind websocket.MessageType
		text string
	}{{websocket.MessageText, "Ping"}, {websocket.MessageText, "ping\n"}, {websocket.MessageBinary, "ping"}, {websocket.MessageText, `{"type":"message"}`}} {
		conn, _, err := dial(t, s, hubtest.Peer, b.Room, itoa(b.Cursor))
		if err != nil {
			t.Fatal(err)
		}
		if err := conn.Write(t.Context(), frame.kind, []byte(frame.text)); err != nil {
			t.Fatal(err)
		}
		var ce websocket.CloseError
		if _, _, err := conn.Read(t.Context()); !errors.As(err, &ce) || ce.Code != websocket.StatusUnsupportedData || !strings.Contains(ce.Reason, "/mcp") {
			t.Errorf("%q: %v, want 1003", frame.text, err)
		}
	}
}

// An open socket vouches for its person's seats, and closing it counts as
// being heard from.
func TestSocketIsPresence(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	conn, _, err := dial(t, s, hubtest.Peer, b.Room, itoa(b.Cursor))
	if err != nil {
		t.Fatal(err)
	}
	presence := func() string {
		var l struct {
			Rooms []struct {
				Members []struct{ Label, Presence string }
			} `json:"rooms"`
		}
		a.OK(t, bellman.ToolRooms, args{}, &l)
		for _, m := range l.Rooms[0].Members {
			if m.Label == "peer@codenerd" {
				return m.Presence
			}
		}
		return ""
	}
	s.Clock.Advance(time.Hour)
	if got := presence(); got != "present" {
		t.Errorf("on a socket: %s", got)
	}
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Fatal(err)
	}
	for { // Until the hub has noticed.
		if _, body := do(t, s, http.MethodGet, "/metrics", "", nil); strings.Contains(body, "\nbellman_hub_sockets 0\n") {
			break
		}
	}
	if got := presence(); got != "present" {
		t.Errorf("just off a socket: %s", got)
	}
	s.Clock.Advance(11 * time.Minute)
	if got := presence(); got != "stale" {
		t.Errorf("eleven minutes later: %s", got)
	}
}

// A stopping hub closes its sockets, so that clients reconnect at once.
func TestSocketWhenTheHubStops(t *testing.T) {
	s := hubtest.Start(t)
	_, b := pair(t, s)
	conn, _, err := dial(t, s, hubtest.Peer, b.Room, itoa(b.Cursor))
	if err != nil {
		t.Fatal(err)
	}
	stopped := make(chan struct{})
	go func() { defer close(stopped); s.Stop(t) }()
	if code := closing(t, conn); code != websocket.StatusGoingAway {
		t.Errorf("closed with %d, want 1001", code)
	}
	<-stopped
}
