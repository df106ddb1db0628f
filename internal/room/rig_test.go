package room_test

import (
	"bytes"
	"context"
	"database/sql"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/room"
)

// service is a hub behind a proxy, and before it a gate that may answer in its
// place. It can be stopped and started again at the same address.
type service struct {
	hubtest.Server
	*proxy
	data  string
	gate  atomic.Pointer[func(http.ResponseWriter, *http.Request) bool]
	addr  string
	http  *http.Server
	done  chan struct{}
	calls atomic.Int64 // requests that reached it through the proxy, by kind
	opens atomic.Int64
}

func startService(tb testing.TB) *service {
	tb.Helper()
	return startServiceOn(tb, "127.0.0.1:0")
}

// startServiceOn starts a service that bridges reach at this address.
func startServiceOn(tb testing.TB, address string) *service {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	s := &service{data: tb.TempDir(), addr: l.Addr().String()}
	s.Clock = &hubtest.Clock{}
	s.URL = "http://" + s.addr
	s.proxy = startProxy(tb, address, s.addr)
	s.serve(tb, l)
	tb.Cleanup(func() { s.stop(tb) })
	return s
}

func (s *service) serve(tb testing.TB, l net.Listener) {
	tb.Helper()
	h, err := hub.Open(context.WithoutCancel(tb.Context()), hub.Config{Data: s.data, DevKeys: true, Now: s.Clock.Now, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		tb.Fatal(err)
	}
	front := "http://" + s.Addr().String()
	direct, behind := h.Handler(s.URL), h.Handler(front)
	s.Hub, s.done = h, make(chan struct{})
	s.http = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if "http://"+r.Host != front {
			direct.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == "/ws" {
			s.opens.Add(1)
		} else {
			s.calls.Add(1)
		}
		if gate := s.gate.Load(); gate == nil || !(*gate)(w, r) {
			behind.ServeHTTP(w, r)
		}
	})}
	server, done := s.http, s.done
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
}

// answer puts a gate before the hub for what comes through the proxy.
func (s *service) answer(gate func(w http.ResponseWriter, r *http.Request) bool) { s.gate.Store(&gate) }

// noSocket makes the gate refuse the room socket with a status.
func (s *service) noSocket(status int, header ...string) {
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Path != "/ws" {
			return false
		}
		for i := 0; i+1 < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		http.Error(w, "no", status)
		return true
	})
}

// stop ends the hub as a kill would: no goodbye to anybody.
func (s *service) stop(tb testing.TB) {
	tb.Helper()
	if s.http == nil {
		return
	}
	_ = s.http.Close()
	<-s.done
	if err := s.Hub.Close(); err != nil {
		tb.Errorf("close hub: %v", err)
	}
	s.http = nil
	http.DefaultClient.CloseIdleConnections()
}

func (s *service) restart(tb testing.TB) {
	tb.Helper()
	s.serve(tb, listenAgain(tb, s.addr))
}

// listenAgain listens where somebody has listened before. For a moment the port
// may be taken by a client that, calling there meanwhile, reached itself.
func listenAgain(tb testing.TB, address string) net.Listener {
	tb.Helper()
	for deadline := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", address)
		if err == nil {
			return l
		}
		if time.Now().After(deadline) {
			tb.Fatal(err)
		}
	}
}

// pair opens a room of two and returns both seats: ours, and the peer's, which
// speaks to the hub directly.
func (s *service) pair(tb testing.TB) (ours, peer *hubtest.Seat) {
	tb.Helper()
	ours = s.As(hubtest.Jesse).Open(tb, nil)
	return ours, s.As(hubtest.Peer).Join(tb, ours.Code)
}

// jesse is who the bridges act for.
const jesse = "u_jesse"

// bridge is what of a bridge watches rooms.
type bridge struct {
	queue   *queue.Queue
	watcher *room.Watcher
	client  *remote.Client
	id      queue.Identity
	dir     string
	log     *syncBuffer
	stop    func()
	slept   atomic.Int64 // how far the wall clock has run ahead

	mu       sync.Mutex
	identity *queue.Identity // who is signed in
}

type syncBuffer struct {
	mu  sync.Mutex
	buf bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buf.String()
}

// bridgeOf makes a bridge on the profile in dir. Nothing runs before start.
func (s *service) bridgeOf(tb testing.TB, dir string, creds remote.Tokens) *bridge {
	tb.Helper()
	return newBridge(tb, dir, remote.Options{Server: &url.URL{Scheme: "http", Host: s.Addr().String(), Path: "/mcp"}, Tokens: creds})
}

// newBridge makes a bridge on the profile in dir with a client of its own.
func newBridge(tb testing.TB, dir string, o remote.Options) *bridge {
	tb.Helper()
	var err error
	b := &bridge{dir: dir, log: &syncBuffer{}}
	log := slog.New(slog.NewTextHandler(b.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	if b.queue, err = queue.Open(tb.Context(), filepath.Join(dir, "queue.db"), log); err != nil {
		tb.Fatal(err)
	}
	b.id = queue.Identity{Server: o.Server.String(), User: jesse}
	b.identity = &b.id
	o.Log, o.Version = log, "test"
	b.client = remote.New(o)
	b.watcher = room.New(room.Config{Queue: b.queue, Remote: b.client, Identity: b.who, Log: log})
	b.watcher.Sleep(func() time.Duration { return time.Duration(b.slept.Load()) })
	return b
}

func (b *bridge) who() (queue.Identity, bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.identity == nil {
		return queue.Identity{}, false
	}
	return *b.identity, true
}

// signIn changes who is signed in; nil is nobody.
func (b *bridge) signIn(id *queue.Identity) {
	b.become(id)
	b.watcher.Kick()
}

// become is signIn of which the watcher has not been told yet.
func (b *bridge) become(id *queue.Identity) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.identity = id
}

// start runs the watcher until stop or the end of the test.
func (b *bridge) start(tb testing.TB) *bridge {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		b.watcher.Run(ctx)
	}()
	b.stop = sync.OnceFunc(func() {
		cancel()
		<-done
		b.client.Close()
		if err := b.queue.Close(); err != nil {
			tb.Errorf("close queue: %v", err)
		}
		if tb.Failed() {
			tb.Logf("log of the bridge:\n%s", b.log)
		}
	})
	tb.Cleanup(b.stop)
	return b
}

// watching runs a bridge of ours on a profile of its own.
func (s *service) watching(tb testing.TB, seats ...*hubtest.Seat) *bridge {
	tb.Helper()
	b := s.bridgeOf(tb, tb.TempDir(), remote.Key(hubtest.Jesse))
	b.join(tb, seats...)
	return b.start(tb)
}

// join makes the queue know seats, as a tool call does.
func (b *bridge) join(tb testing.TB, seats ...*hubtest.Seat) {
	tb.Helper()
	for _, seat := range seats {
		if _, err := b.queue.Touch(tb.Context(), b.id, queue.Member{Room: seat.Room, ID: seat.Member}, seat.Cursor); err != nil {
			tb.Fatal(err)
		}
	}
}

// patience is how long a test waits for what must happen.
const patience = time.Minute

// take takes n events as bellman_wait does, in order.
func (b *bridge) take(tb testing.TB, n int) []queue.Delivery {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), patience)
	defer cancel()
	var got []queue.Delivery
	for len(got) < n {
		batch, err := b.queue.Await(ctx, b.id, queue.Filter{}, queue.Limit{})
		if err != nil || batch.Token == "" {
			tb.Fatalf("got %d of %d events (%v); log:\n%s", len(got), n, err, b.log)
		}
		b.queue.Sent(batch.Token)
		if err := b.queue.Ack(tb.Context(), batch.Token); err != nil {
			tb.Fatal(err)
		}
		got = append(got, batch.Deliveries...)
	}
	return got
}

// texts are what the messages among deliveries say, and the types of the rest.
func texts(tb testing.TB, list []queue.Delivery) []string {
	tb.Helper()
	var said []string
	for _, d := range list {
		var e struct {
			Type    string `json:"type"`
			Payload struct {
				Text string `json:"text"`
			} `json:"payload"`
		}
		if err := json.Unmarshal(d.Event.Body, &e); err != nil {
			tb.Fatalf("body %s: %v", d.Event.Body, err)
		}
		if e.Payload.Text == "" {
			e.Payload.Text = e.Type
		}
		said = append(said, e.Payload.Text)
	}
	return said
}

// membership returns what the queue knows of a seat.
func (b *bridge) membership(tb testing.TB, seat *hubtest.Seat) queue.Membership {
	tb.Helper()
	list, err := b.queue.Memberships(tb.Context(), b.id)
	if err != nil {
		tb.Fatal(err)
	}
	for _, m := range list {
		if m.Room == seat.Room && m.ID == seat.Member {
			return m
		}
	}
	tb.Fatal("no such membership")
	return queue.Membership{}
}

// eventually waits until cond holds.
func (b *bridge) eventually(tb testing.TB, what string, cond func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(patience); !cond(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("not within %v: %s; log:\n%s", patience, what, b.log)
		}
	}
}

// openFile opens the bridge's queue file beside it.
func openFile(tb testing.TB, b *bridge) *sql.DB {
	tb.Helper()
	path := (&url.URL{Scheme: "file", Path: filepath.ToSlash(filepath.Join(b.dir, "queue.db"))}).String()
	for _, driver := range sql.Drivers() {
		if driver == "sqlite3" || driver == "sqlite" {
			db, err := sql.Open(driver, path+"?_busy_timeout=5000&_txlock=immediate")
			if err != nil {
				tb.Fatal(err)
			}
			tb.Cleanup(func() { _ = db.Close() })
			return db
		}
	}
	tb.Fatal("no driver")
	return nil
}

// holdWriteLock makes every write to the bridge's queue fail until release.
func holdWriteLock(tb testing.TB, b *bridge) (release func()) {
	tb.Helper()
	tx, err := openFile(tb, b).BeginTx(tb.Context(), nil)
	if err != nil {
		tb.Fatal(err)
	}
	return func() { _ = tx.Rollback() }
}

// cursorOf is the cursor a send was given.
func cursorOf(tb testing.TB, r hubtest.Result) int64 {
	tb.Helper()
	var sent struct {
		Cursor int64 `json:"cursor"`
	}
	if err := json.Unmarshal(r.Structured, &sent); err != nil || sent.Cursor == 0 {
		tb.Errorf("send answered %s", r.Structured)
	}
	return sent.Cursor
}
