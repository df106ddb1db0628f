package room_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/room"
)

// wire is a network in memory, so that a bubble's time can pass while somebody
// waits on it.
type wire struct {
	conns chan net.Conn
	once  sync.Once
	done  chan struct{}
}

func (w *wire) dial(ctx context.Context, _, _ string) (net.Conn, error) {
	near, far := net.Pipe()
	select {
	case w.conns <- far:
		return near, nil
	case <-w.done:
		return nil, errors.New("connection refused")
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// Accept implements net.Listener.
func (w *wire) Accept() (net.Conn, error) {
	select {
	case c := <-w.conns:
		return c, nil
	case <-w.done:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (w *wire) Close() error {
	w.once.Do(func() { close(w.done) })
	return nil
}

// Addr implements net.Listener.
func (w *wire) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 1} }

// script is a service in a bubble: what it answers, and when it was asked.
type script struct {
	socket func(w http.ResponseWriter, r *http.Request, n int)
	sync   func(n int) string // result of the n-th bellman_sync

	mu    sync.Mutex
	began time.Time
	opens []time.Duration
	syncs []time.Duration
	pings []time.Duration
}

// ServeHTTP implements http.Handler.
func (s *script) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/ws" {
		s.socket(w, r, s.note(&s.opens))
		return
	}
	id, ok := called(r)
	if ok {
		n := s.note(&s.syncs)
		if result := s.sync(n); result != "" {
			replyTool(w, id, result)
			return
		}
		select {
		case <-time.After(25 * time.Second):
		case <-r.Context().Done():
		}
		replyTool(w, id, syncActive)
		return
	}
	greet(w, r)
}

// greet answers the MCP handshake.
func greet(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	var m struct {
		ID json.RawMessage `json:"id"`
	}
	if json.Unmarshal(body, &m) != nil || m.ID == nil {
		w.WriteHeader(http.StatusAccepted)
		return
	}
	replyTool(w, m.ID, `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
}

// note writes down when something happened, and returns how often it had.
func (s *script) note(list *[]time.Duration) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	*list = append(*list, time.Since(s.began))
	return len(*list)
}

func (s *script) times(list *[]time.Duration) []time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Duration(nil), *list...)
}

func gaps(at []time.Duration) []time.Duration {
	var list []time.Duration
	for i := 1; i < len(at); i++ {
		list = append(list, at[i]-at[i-1])
	}
	return list
}

// bubble runs a bridge that watches rooms of a scripted service for a time
// that passes at once, and then what looks at it.
func bubble(t *testing.T, s *script, rooms int, creds remote.Tokens, run func(b *bridge)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		s.began = time.Now()
		w := &wire{conns: make(chan net.Conn), done: make(chan struct{})}
		server := &http.Server{Handler: s}
		served := make(chan struct{})
		go func() {
			defer close(served)
			_ = server.Serve(w)
		}()
		b := newBridge(t, t.TempDir(), remote.Options{
			Server: &url.URL{Scheme: "http", Host: "127.0.0.1:1", Path: "/mcp"}, Tokens: creds, Dial: w.dial,
		})
		for i := range rooms {
			b.join(t, &hubtest.Seat{Room: fmt.Sprint("qs_", i), Member: "m_ours"})
		}
		b.start(t)
		run(b)
		b.stop()
		_ = server.Close()
		<-served
		time.Sleep(time.Minute) // for what the service still had to do
	})
}

func status(code int, header ...string) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, _ *http.Request, _ int) {
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
	}
}

// hold opens the socket and reads until it is closed, answering pings or not.
func (s *script) hold(pong bool) func(http.ResponseWriter, *http.Request, int) {
	return func(w http.ResponseWriter, r *http.Request, _ int) {
		sayThen(w, r, "", func(c *websocket.Conn) {
			ctx := context.WithoutCancel(r.Context())
			for {
				_, data, err := c.Read(ctx)
				if err != nil {
					return
				}
				if string(data) == "ping" {
					s.note(&s.pings)
				}
				if pong && c.Write(ctx, websocket.MessageText, []byte("pong")) != nil {
					return
				}
			}
		})
	}
}

func held(int) string { return "" } // every poll is held for its 25 s

const key = remote.Key("k")

// An open socket is asked for a sign of life after 30 s of silence, each time,
// and kept while it answers.
func TestASilentSocketIsPingedEvery30SecondsAndKept(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	bubble(t, s, 1, key, func(*bridge) { time.Sleep(5 * time.Minute) })
	if n := len(s.times(&s.opens)); n != 1 {
		t.Errorf("%d sockets were opened", n)
	}
	pings := s.times(&s.pings)
	if len(pings) != 9 && len(pings) != 10 {
		t.Errorf("%d pings in 5 minutes: %v", len(pings), pings)
	}
	for _, gap := range gaps(pings) {
		if gap < 30*time.Second || gap > 31*time.Second {
			t.Errorf("%v between two pings", gap)
		}
	}
}

// A socket that is half open is given up 10 s after the ping.
func TestAHalfOpenSocketIsGivenUpAfter40Seconds(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(false)
	bubble(t, s, 1, key, func(*bridge) { time.Sleep(50 * time.Second) })
	opens := s.times(&s.opens)
	if len(opens) != 2 {
		t.Fatalf("sockets were opened at %v", opens)
	}
	// 30 s of silence, 10 s for an answer, at most 1 s of jitter.
	if gap := gaps(opens)[0]; gap < 40*time.Second || gap > 41*time.Second+time.Millisecond {
		t.Errorf("replaced after %v", gap)
	}
}

// A handshake that stalls is abandoned after 10 s, and the third failure in a
// row starts the polling.
func TestAStalledHandshakeIsAbandonedAfter10Seconds(t *testing.T) {
	s := &script{sync: held}
	s.socket = func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }
	bubble(t, s, 1, key, func(*bridge) { time.Sleep(time.Minute) })
	opens, syncs := s.times(&s.opens), s.times(&s.syncs)
	if len(opens) < 3 || len(syncs) == 0 {
		t.Fatalf("opened at %v, polled at %v", opens, syncs)
	}
	for i, gap := range gaps(opens[:3]) {
		if most := 10*time.Second + time.Second<<i; gap < 10*time.Second || gap > most+time.Millisecond {
			t.Errorf("try %d came %v after the one before, want 10 s to %v", i+2, gap, most)
		}
	}
	if syncs[0] < opens[2]+10*time.Second || syncs[0] > opens[2]+11*time.Second {
		t.Errorf("polling began at %v, the third try at %v", syncs[0], opens[2])
	}
}

// The pauses double up to 120 s once polling serves, and are never much less
// than half of that: a service that is down is not hammered.
func TestTheSocketIsTriedEverMoreRarely(t *testing.T) {
	s := &script{sync: held, socket: status(http.StatusServiceUnavailable)}
	bubble(t, s, 1, key, func(*bridge) { time.Sleep(20 * time.Minute) })
	all := gaps(s.times(&s.opens))
	for i, gap := range all {
		most := min(time.Second<<min(i, 10), 120*time.Second)
		least := time.Duration(0)
		if i >= 2 {
			least = most / 2
		}
		if gap < least || gap > most+time.Second {
			t.Errorf("pause %d is %v, want %v to %v", i+1, gap, least, most)
		}
	}
	if n := len(all); n < 12 || n > 30 {
		t.Errorf("%d tries in 20 minutes", n)
	}
	if n := len(s.times(&s.syncs)); n < 40 || n > 60 {
		t.Errorf("%d polls of 25 s in 20 minutes", n)
	}
}

// A socket that opens and closes at once is a failure like any other: no busy
// loop, whatever closes it (case 155).
func TestASocketThatClosesAtOnceIsNotForgiven(t *testing.T) {
	for _, code := range []websocket.StatusCode{websocket.StatusNormalClosure, websocket.StatusPolicyViolation, websocket.StatusGoingAway} {
		t.Run(code.String(), func(t *testing.T) {
			s := &script{sync: func(int) string { return syncActive }}
			s.socket = func(w http.ResponseWriter, r *http.Request, _ int) {
				sayThen(w, r, "", func(c *websocket.Conn) { _ = c.Close(code, "") })
			}
			bubble(t, s, 1, key, func(*bridge) { time.Sleep(10 * time.Minute) })
			if n := len(s.times(&s.opens)); n < 5 || n > 20 {
				t.Errorf("%d sockets in 10 minutes", n)
			}
			if n := len(s.times(&s.syncs)); n > 640 {
				t.Errorf("%d polls in 10 minutes: under a second apart", n)
			}
		})
	}
}

// A connection that was held for 30 s is forgiven: the next pause is a second
// at most again.
func TestASocketThatWasHeldIsForgiven(t *testing.T) {
	s := &script{sync: held}
	s.socket = func(w http.ResponseWriter, r *http.Request, n int) {
		if n <= 4 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		sayThen(w, r, "", func(c *websocket.Conn) {
			go answerPings(context.WithoutCancel(r.Context()), c)
			time.Sleep(31 * time.Second)
			_ = c.CloseNow()
		})
	}
	bubble(t, s, 1, key, func(*bridge) { time.Sleep(3 * time.Minute) })
	all := gaps(s.times(&s.opens))
	for _, gap := range all[4:] {
		if gap < 31*time.Second || gap > 32*time.Second+time.Millisecond {
			t.Errorf("%v between two sockets that were held for 31 s", gap)
		}
	}
}

// Retry-After is honoured, even when the network changes meanwhile.
func TestRetryAfterIsHonoured(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := &script{sync: held, socket: status(code, "Retry-After", "90")}
			bubble(t, s, 1, key, func(b *bridge) {
				for range 8 {
					time.Sleep(20 * time.Second)
					b.watcher.Kick()
				}
			})
			opens := s.times(&s.opens)
			if len(opens) != 2 {
				t.Fatalf("tried at %v within 3 minutes", opens)
			}
			for _, gap := range gaps(opens) {
				if gap < 90*time.Second {
					t.Errorf("tried again after %v", gap)
				}
			}
		})
	}
}

// Polls that bring nothing are a second apart at least; refused ones back off
// further.
func TestPollsAreNeverABusyLoop(t *testing.T) {
	for name, row := range map[string]struct {
		result string
		most   int
	}{
		"empty at once":      {syncActive, 310},
		"refused":            {refusal("something new"), 40},
		"no answer at all":   {`{}`, 40},
		"cursor without end": {`{"content":[],"structuredContent":{"events":[],"cursor":9007199254740991,"session_status":"active"}}`, 310},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{sync: func(int) string { return row.result }, socket: status(http.StatusUpgradeRequired)}
			bubble(t, s, 1, key, func(*bridge) { time.Sleep(5 * time.Minute) })
			if n := len(s.times(&s.syncs)); n < 5 || n > row.most {
				t.Errorf("%d polls in 5 minutes, want at most %d", n, row.most)
			}
		})
	}
}

// Without a credential a watch waits quietly, and a Kick ends the wait.
func TestWithoutACredentialTheWatchWaitsQuietly(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	creds := &tokens{}
	bubble(t, s, 1, creds, func(b *bridge) {
		time.Sleep(10 * time.Minute)
		if n := creds.count(); n < 5 || n > 25 {
			t.Errorf("the credential was asked for %d times in 10 minutes", n)
		}
		creds.set("k")
		b.watcher.Kick()
		synctest.Wait()
		if n := len(s.times(&s.opens)); n != 1 {
			t.Errorf("%d sockets after the sign-in", n)
		}
	})
}

// hasty are tokens that come while the first is asked for, which is told.
type hasty struct {
	tokens
	told func()
}

// Token implements remote.Tokens.
func (h *hasty) Token(ctx context.Context) (string, error) {
	token, err := h.tokens.Token(ctx)
	if err != nil {
		h.set("k")
		h.told()
	}
	return token, err
}

// A sign-in that is told while a try without it is under way is not missed.
func TestASignInDuringATryIsNotMissed(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	creds := &hasty{}
	var watcher atomic.Pointer[room.Watcher]
	creds.told = func() {
		for watcher.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		watcher.Load().Kick()
	}
	bubble(t, s, 1, creds, func(b *bridge) {
		watcher.Store(b.watcher)
		time.Sleep(2 * time.Second)
		if n := len(s.times(&s.opens)); n != 1 {
			t.Errorf("%d sockets 2 s after the sign-in", n)
		}
	})
}

// A thousand reconnects do not arrive in one second, and all rooms are watched
// again within a quarter of a minute.
func TestReconnectsAreSpreadOverTime(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	const rooms = 600
	bubble(t, s, rooms, key, func(*bridge) { time.Sleep(15 * time.Second) })
	opens := s.times(&s.opens)
	if len(opens) != rooms {
		t.Fatalf("%d of %d rooms are watched after 15 s", len(opens), rooms)
	}
	for i := range opens[:rooms-151] {
		if opens[i+151]-opens[i] < time.Second {
			t.Fatalf("more than 151 handshakes within a second, from %v on", opens[i])
		}
	}
}
