package tools_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/tools"
)

// browser is a sign-in without a browser: the test is the person. It implements
// tools.SignIn and remote.Tokens.
type browser struct {
	mu     sync.Mutex
	token  string        // what the person brought, "" before
	starts int           // calls of SignIn
	opened bool          // whether a browser is open on the attempt
	done   chan struct{} // closed when the person is through
	err    error         // why they came back with nothing
	start  error         // why it cannot start
}

const link = "http://127.0.0.1:51004/start/nonce"

func newBrowser(opened bool) *browser { return &browser{opened: opened, done: make(chan struct{})} }

func (b *browser) Token(context.Context) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.token == "" {
		return "", remote.ErrSignInNeeded
	}
	return b.token, nil
}

func (b *browser) Replace(context.Context, string) (string, error) {
	return "", remote.ErrSignInNeeded
}

func (b *browser) SignIn(context.Context) (tools.Attempt, error) { //nolint:ireturn // what tools asks for
	b.mu.Lock()
	defer b.mu.Unlock()
	b.starts++
	return b, b.start
}

func (b *browser) Link() string { return link }
func (b *browser) Opened() bool { return b.opened }

func (b *browser) Wait(ctx context.Context) error {
	select {
	case <-b.done:
		return b.err
	case <-ctx.Done():
		return ctx.Err()
	}
}

// approve ends the sign-in with a token, or with nothing.
func (b *browser) approve(token string, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.token, b.err = token, err
	close(b.done)
}

func signedOut(t *testing.T, address string, b *browser) *rig {
	t.Helper()
	r := newRigWith(t, address, b, t.TempDir(), func(c *tools.Config) { c.SignIn = b })
	r.who.Store(nil)
	return r
}

// The first call that needs it signs the person in and goes on; what needs
// none starts none.
func TestACallSignsInAndGoesOn(t *testing.T) {
	h := hubtest.Start(t)
	b := newBrowser(true)
	r := signedOut(t, h.URL+"/mcp", b)
	r.list()
	r.call("bellman_wait", args{"wait_seconds": 0})
	r.call("bellman_whoami", nil)
	r.prompts()
	r.Handle(t.Context(), tools.Call{Method: "resources/list"})
	if b.starts != 0 {
		t.Fatalf("%d sign-ins started unasked", b.starts)
	}
	done := make(chan tools.Answer, 1)
	go func() {
		done <- r.Handle(t.Context(), tools.Call{Method: "tools/call", Tool: "bellman_start", Progress: json.RawMessage(`7`), Params: params("bellman_start",
			args{"manifest": args{"room": "r", "preset": "pair"}, "brief": hubtest.Brief("g")})})
	}()
	n := r.waitNote("notifications/progress")
	if !strings.Contains(string(n.params), `"progressToken":7`) || !strings.Contains(string(n.params), "sign-in") {
		t.Errorf("progress %s", n.params)
	}
	r.who.Store(&jesse)
	b.approve(hubtest.Jesse, nil)
	if got := readResult(t, <-done); got.isError {
		t.Fatal(got.text())
	}
	if all, err := r.queue.Memberships(t.Context(), jesse); err != nil || len(all) != 1 {
		t.Errorf("the room is whose? %+v, %v", all, err)
	}
	if b.starts != 1 {
		t.Errorf("%d sign-ins", b.starts)
	}
}

// A first sync through a sign-in hands over like any other.
func TestASyncThatSignsInHandsOver(t *testing.T) {
	h := hubtest.Start(t)
	seat := h.As(hubtest.Jesse).Open(t, nil)
	peer := h.As(hubtest.Peer).Join(t, seat.Code)
	b := newBrowser(true)
	r := signedOut(t, h.URL+"/mcp", b)
	j := &joined{rig: r, hub: h, peer: peer, room: seat.Room, member: seat.Member}
	r.who.Store(&jesse)
	if _, err := r.queue.Touch(t.Context(), jesse, queue.Member{Room: seat.Room, ID: seat.Member}, 0); err != nil {
		t.Fatal(err)
	}
	r.who.Store(nil)
	approved := make(chan struct{})
	go func() {
		defer close(approved)
		eventually(t, "the call asks for a sign-in", func() bool { b.mu.Lock(); defer b.mu.Unlock(); return b.starts == 1 })
		r.who.Store(&jesse)
		b.approve(hubtest.Jesse, nil)
	}()
	j.sync(0)
	<-approved
	if next, err := r.queue.Next(t.Context(), jesse, queue.Member{Room: seat.Room, ID: seat.Member}); err != nil || next < 0 {
		t.Errorf("next %d, %v", next, err)
	}
	j.watch()
	peer.Say(t, "later")
	w := j.wait(20)
	wantTexts(t, w, "later") // and not the arrival, which the sync handed over
}

// Unapproved, the call returns the link after 45 s and before 50; a browser that
// was not opened is not waited for.
func TestAnUnapprovedSignInReturnsTheLink(t *testing.T) {
	for _, opened := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			b := newBrowser(opened)
			r := signedOut(t, nowhere, b)
			began := time.Now()
			r.refused("bellman_rooms", nil, "sign-in needed", "Nothing was sent", link, "call again")
			took := time.Since(began)
			if opened && (took < 44*time.Second || took > 46*time.Second) || !opened && took > 2*time.Second {
				t.Errorf("opened %v: took %s", opened, took)
			}
			began = time.Now()
			r.refused("bellman_sync", args{"session_id": "qs_1", "member_id": "m_1"}, link, "Nothing was sent")
			if took := time.Since(began); took > 50*time.Second {
				t.Errorf("a sync took %s", took)
			}
		})
	}
}

// Progress is told at once and every five seconds while the person is at it.
func TestProgressIsToldWhileThePersonSignsIn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := signedOut(t, nowhere, newBrowser(true))
		r.Handle(t.Context(), tools.Call{Method: "tools/call", Tool: "bellman_rooms", Params: params("bellman_rooms", nil), Progress: json.RawMessage(`"p"`)})
		last, n := 0.0, 0
		for len(r.notes) > 0 {
			var p struct{ Progress float64 }
			if err := json.Unmarshal((<-r.notes).params, &p); err != nil || p.Progress <= last {
				t.Fatalf("progress %v after %v (%v)", p.Progress, last, err)
			}
			last, n = p.Progress, n+1
		}
		if n < 9 || n > 10 {
			t.Errorf("told %d times in 45 s", n)
		}
	})
}

// What the sign-in took of a call's time is taken off the wait it asked for.
func TestASignInLowersTheWait(t *testing.T) {
	var got atomic.Pointer[string]
	s := newService(t, func(_ context.Context, q request) string {
		if q.Method != "tools/call" {
			return ""
		}
		p := string(q.Params)
		got.Store(&p)
		return `{"content":[],"structuredContent":{"events":[],"cursor":3}}`
	})
	synctest.Test(t, func(t *testing.T) {
		b := newBrowser(true)
		r := signedOut(t, s.URL+"/mcp", b)
		time.AfterFunc(40*time.Second, func() { b.approve("token", nil) })
		r.ok("bellman_sync", args{"session_id": "qs_1", "member_id": "m_1", "since_cursor": 3, "wait_seconds": 25, "n": json.RawMessage("1.50")}, nil)
		var p struct {
			Arguments struct {
				Wait int `json:"wait_seconds"`
				N    json.Number
			}
		}
		if err := json.Unmarshal([]byte(*got.Load()), &p); err != nil || p.Arguments.Wait < 4 || p.Arguments.Wait > 6 || p.Arguments.N != "1.50" {
			t.Errorf("asked for %s (%v)", *got.Load(), err)
		}
	})
}

func TestASignInThatFailsSaysSo(t *testing.T) {
	b := newBrowser(true)
	b.approve("", errors.New("the person said <no>\n\u202e"))
	signedOut(t, nowhere, b).refused("bellman_rooms", nil, `did not succeed: the person said \u003cno>\n\u202e`, "Nothing was sent", "Call again")
	b = newBrowser(true)
	b.approve("", fmt.Errorf("exchange the code: %w", context.DeadlineExceeded)) // its own time ran out, not ours
	if text := signedOut(t, nowhere, b).refused("bellman_rooms", nil, "did not succeed", "in time", "Call again"); strings.Contains(text, link) {
		t.Errorf("shows the link of an attempt that is over: %q", text)
	}
	b = newBrowser(true)
	b.start = errors.New("no free port")
	signedOut(t, nowhere, b).refused("bellman_rooms", nil, "could not start: no free port", "Nothing was sent", "Call again")
}

// A token that the service refuses although it was just brought starts no loop.
func TestARefusedTokenIsNoLoop(t *testing.T) {
	h := hubtest.Start(t)
	b := newBrowser(true)
	b.approve("wrong", nil)
	r := signedOut(t, h.URL+"/mcp", b)
	r.refused("bellman_rooms", nil, "refused the sign-in it just accepted", "Nothing was sent")
	if b.starts != 1 {
		t.Errorf("%d sign-ins for one call", b.starts)
	}
}

func TestACallCancelledDuringTheSignInEnds(t *testing.T) {
	b := newBrowser(true)
	r := signedOut(t, nowhere, b)
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	if got := readResult(t, r.begin(ctx, "bellman_rooms", nil)); !got.isError || !strings.Contains(got.text(), "cancelled") {
		t.Errorf("got %s", got.raw)
	}
}

// An upload signs in, too, and sends the file after it.
func TestAnUploadSignsIn(t *testing.T) {
	d := newDesk(t)
	d.file("a.md", []byte("x"))
	b := newBrowser(true)
	b.token = ""
	r := newRigWith(t, d.hub.URL+"/mcp", b, t.TempDir(), func(c *tools.Config) { c.SignIn, c.Upload.Root = b, d.root })
	b.mu.Lock()
	b.mu.Unlock() //nolint:staticcheck // only to be sure nobody is at it
	go b.approve(hubtest.Jesse, nil)
	r.ok("bellman_upload", d.args("a.md", nil), nil)
	again := newRigWith(t, d.hub.URL+"/mcp", newBrowser(false), t.TempDir(), func(c *tools.Config) { c.SignIn, c.Upload.Root = newBrowser(false), d.root })
	again.refused("bellman_upload", d.args("a.md", nil), link, "Nothing was sent")
}
