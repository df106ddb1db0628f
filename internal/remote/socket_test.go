package remote_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/remote"
)

// A refused handshake is told by its own status, without a second request.
func TestARefusedHandshakeIsToldByItsStatus(t *testing.T) {
	for _, status := range []int{200, 302, 400, 403, 404, 405, 409, 426, 429, 500, 503} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			asked := 0
			s := start(t, func(w http.ResponseWriter, _ *http.Request, _ request) {
				asked++
				w.Header().Set("Retry-After", "11")
				w.WriteHeader(status)
			})
			_, err := client(t, s.URL, remote.Key(secret)).OpenSocket(t.Context(), "qs_1", 0)
			e := serviceError(t, err)
			if e.Status != status || e.RetryAfter != 11*time.Second || asked != 1 || strings.Contains(e.Error(), secret) {
				t.Errorf("got %+v after %d requests", e, asked)
			}
		})
	}
	s := start(t, accept("none"))
	if _, err := client(t, s.URL, remote.Key(secret)).OpenSocket(t.Context(), "qs_1", 0); !errors.Is(err, remote.ErrSignInNeeded) {
		t.Errorf("401: got %v", err)
	}
}

// The address is the service's own, beside its MCP endpoint; the credential
// travels in the header (case 149), and one with a line break never leaves
// (case 150).
func TestTheHandshakeNamesRoomAndCursor(t *testing.T) {
	var path, auth string
	s := start(t, func(w http.ResponseWriter, r *http.Request, _ request) {
		path, auth = r.URL.String(), r.Header.Get("Authorization")
		w.WriteHeader(http.StatusTeapot)
	})
	for _, base := range []struct{ server, want string }{
		{"/mcp", "/ws?"}, {"/mcp/", "/ws?"}, {"/deep/mcp", "/deep/ws?"}, {"", "/ws?"}, {"/mcp?x=1#y", "/ws?"},
	} {
		u, err := url.Parse(s.URL + base.server)
		if err != nil {
			t.Fatal(err)
		}
		c := remote.New(remote.Options{Server: u, Tokens: remote.Key("k")})
		_, _ = c.OpenSocket(t.Context(), "qs &1", 3)
		c.Close()
		if want := base.want + "cursor=3&session=qs+%261"; path != want || auth != "Bearer k" {
			t.Errorf("%s: asked for %s with %q", base.server, path, auth)
		}
	}
	path = ""
	if _, err := client(t, s.URL, remote.Key("a\r\nX: y")).OpenSocket(t.Context(), "qs_1", 0); err == nil || path != "" {
		t.Errorf("a credential with a line break went out (%v)", err)
	}
}

// A handshake that is never answered ends with its caller.
func TestAHandshakeEndsWithItsCaller(t *testing.T) {
	l := listen(t)
	c := client(t, "http://"+l.Addr().String(), remote.Key(secret))
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := c.OpenSocket(ctx, "qs_1", 0); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// Against the real hub: the replay first, then what is said, in order; the end
// of ctx ends a read at once; a removed identity is told apart.
func TestASocketToTheHub(t *testing.T) {
	s := hubtest.Start(t)
	creator := s.As(hubtest.Jesse).Open(t, nil)
	peer := s.As(hubtest.Peer).Join(t, creator.Code)
	creator.Say(t, "replayed")
	c := client(t, s.URL, remote.Key(hubtest.Peer))
	socket, err := c.OpenSocket(t.Context(), peer.Room, peer.Cursor)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	creator.Say(t, "live")
	for _, want := range []string{"replayed", "live"} {
		e, raw, err := socket.Read(t.Context())
		if err != nil || !strings.Contains(string(raw), want) || e.Cursor <= peer.Cursor {
			t.Fatalf("got %s, %v; want %s", raw, err, want)
		}
	}
	socket.Prove() // is answered, and nothing comes of it
	creator.OK(t, "bellman_evict", peer.Ref(), nil)
	if e, _, err := socket.Read(t.Context()); err != nil || !e.Removes(peer.Member) {
		t.Errorf("got %v, %v", e, err)
	}
	for {
		if _, _, err = socket.Read(t.Context()); err != nil {
			break
		}
	}
	if !errors.Is(err, remote.ErrRemoved) {
		t.Errorf("got %v", err)
	}
}

func TestAReadEndsWithItsContext(t *testing.T) {
	s := hubtest.Start(t)
	seat := s.As(hubtest.Jesse).Open(t, nil)
	c := client(t, s.URL, remote.Key(hubtest.Jesse))
	socket, err := c.OpenSocket(t.Context(), seat.Room, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for err == nil {
		_, _, err = socket.Read(ctx)
	}
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	socket.Close() // twice is as good as once
}

// A frame larger than any honest one ends the socket, not the program.
func TestAFrameTooLargeEndsTheSocket(t *testing.T) {
	s := start(t, func(w http.ResponseWriter, r *http.Request, _ request) {
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		_ = c.Write(r.Context(), websocket.MessageText, make([]byte, 5<<20))
	})
	socket, err := client(t, s.URL, remote.Key(secret)).OpenSocket(t.Context(), "qs_1", 0)
	if err != nil {
		t.Fatal(err)
	}
	defer socket.Close()
	if _, _, err := socket.Read(t.Context()); err == nil {
		t.Error("it was read")
	}
}

// A credential with a line break in it never reaches the wire, by call or by
// socket, and no error shows it (case 150).
func TestACredentialWithALineBreakIsNotSent(t *testing.T) {
	s := start(t, friendly)
	c := client(t, s.URL, remote.Key("qk_split\r\nX-More: header"))
	_, errCall := call(t, c)
	_, errSocket := c.OpenSocket(t.Context(), "qs_1", 0)
	for _, err := range []error{errCall, errSocket} {
		if err == nil || strings.Contains(err.Error(), "qk_split") {
			t.Errorf("error %v", err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.seen) != 0 {
		t.Errorf("%d requests were sent", len(s.seen))
	}
}
