package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/room"
	"bellman.sh/desktop/internal/tools"
)

var update = flag.Bool("update", false, "write the golden files anew")

func TestMain(m *testing.M) {
	flag.Parse()
	goleak.VerifyTestMain(m)
}

// golden compares got with a file in testdata.
func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// args are the arguments of a call.
type args = map[string]any

// note is a notification to the host.
type note struct {
	method string
	params json.RawMessage
}

// rig is a bridge with a queue of its own, driven as the connection drives it.
type rig struct {
	*tools.Bridge
	t      testing.TB
	cfg    tools.Config
	queue  *queue.Queue
	remote *remote.Client
	notes  chan note
	who    atomic.Pointer[queue.Identity] // nil: nobody is signed in
	log    syncBuffer
}

type syncBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (s *syncBuffer) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.Write(p)
}

func (s *syncBuffer) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.b.String()
}

var jesse = queue.Identity{Server: "https://example.com/mcp", User: "jesse"}

// newRig returns a bridge in front of the service at address, signed in with
// a key as jesse.
func newRig(t testing.TB, address, key string, change ...func(*tools.Config)) *rig {
	t.Helper()
	return newRigWith(t, address, remote.Key(key), t.TempDir(), change...)
}

func newRigWith(t testing.TB, address string, tokens remote.Tokens, dir string, change ...func(*tools.Config)) *rig {
	t.Helper()
	server, err := url.Parse(address)
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, notes: make(chan note, 4096)}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.who.Store(&jesse)
	if r.queue, err = queue.Open(t.Context(), filepath.Join(dir, "queue.db"), log); err != nil {
		t.Fatal(err)
	}
	r.remote = remote.New(remote.Options{
		Server: server, Tokens: tokens, Version: "test", Log: log,
		Notify: func(method string, params json.RawMessage) { r.notes <- note{method, params} },
	})
	r.cfg = tools.Config{
		Queue: func(context.Context) (*queue.Queue, error) { return r.queue, nil }, Remote: r.remote,
		Identity: func() (queue.Identity, bool) {
			if who := r.who.Load(); who != nil {
				return *who, true
			}
			return queue.Identity{}, false
		},
		Whoami: func() tools.Whoami { return tools.Whoami{Source: tools.SourceEnv} },
		Dir:    dir, Server: address, Version: "test", Notice: true, Log: log,
		Notify: func(method string, params any) {
			raw, err := json.Marshal(params)
			if err != nil {
				t.Errorf("notification %s: %v", method, err)
			}
			r.notes <- note{method, raw}
		},
	}
	for _, f := range change {
		f(&r.cfg)
	}
	r.Bridge = tools.New(r.cfg)
	t.Cleanup(func() {
		r.Close()
		r.remote.Close()
		if err := r.queue.Close(); err != nil {
			t.Errorf("close queue: %v", err)
		}
		if t.Failed() {
			t.Logf("log:\n%s", r.log.String())
		}
	})
	return r
}

// watch keeps the queue filled from the rooms until the test ends.
func (r *rig) watch() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	w := room.New(room.Config{Queue: r.queue, Remote: r.remote, Identity: r.cfg.Identity, Log: r.cfg.Log})
	done := make(chan struct{})
	go func() { defer close(done); w.Run(ctx) }()
	r.t.Cleanup(func() { cancel(); <-done })
}

// result is a tool result as a host reads it.
type result struct {
	raw     json.RawMessage
	texts   []string
	data    json.RawMessage
	isError bool
}

func (r result) text() string { return strings.Join(r.texts, "\n") }

func readResult(t testing.TB, a tools.Answer) result {
	t.Helper()
	if a.Error != nil {
		t.Fatalf("protocol error %d: %s", a.Error.Code, a.Error.Message)
	}
	var m struct {
		Content []struct{ Type, Text string }
		Data    json.RawMessage `json:"structuredContent"`
		IsError bool
	}
	if err := json.Unmarshal(a.Result, &m); err != nil {
		t.Fatalf("no tool result: %v in %.300s", err, a.Result)
	}
	res := result{raw: a.Result, data: m.Data, isError: m.IsError}
	for _, c := range m.Content {
		if c.Type == "text" {
			res.texts = append(res.texts, c.Text)
		}
	}
	return res
}

func params(tool string, a any) json.RawMessage {
	raw, err := json.Marshal(args{"name": tool, "arguments": a})
	if err != nil {
		return json.RawMessage("null")
	}
	return raw
}

// begin makes the call; its answer has not been written.
func (r *rig) begin(ctx context.Context, tool string, a any) tools.Answer {
	return r.Handle(ctx, tools.Call{Method: "tools/call", Tool: tool, Params: params(tool, a)})
}

// write does what the connection does with an answer that goes out whole.
func (r *rig) write(a tools.Answer) result {
	r.t.Helper()
	if a.Receipt.Leaving != nil {
		a.Receipt.Leaving()
	}
	if a.Receipt.Written != nil {
		if err := a.Receipt.Written(r.t.Context()); err != nil {
			r.t.Errorf("written: %v", err)
		}
	}
	return readResult(r.t, a)
}

// lose does what the connection does with an answer that does not go out, or
// not whole.
func (r *rig) lose(a tools.Answer, left bool) {
	r.t.Helper()
	if left && a.Receipt.Leaving != nil {
		a.Receipt.Leaving()
	}
	if a.Receipt.Lost != nil {
		if err := a.Receipt.Lost(r.t.Context(), left); err != nil {
			r.t.Errorf("lost: %v", err)
		}
	}
}

func (r *rig) call(tool string, a any) result {
	r.t.Helper()
	return r.write(r.begin(r.t.Context(), tool, a))
}

// ok makes a call that must succeed and decodes its structured content.
func (r *rig) ok(tool string, a, into any) result {
	r.t.Helper()
	res := r.call(tool, a)
	if res.isError {
		r.t.Fatalf("%s: %s", tool, res.text())
	}
	if into != nil {
		if err := json.Unmarshal(res.data, into); err != nil {
			r.t.Fatalf("%s: %v in %s", tool, err, res.data)
		}
	}
	return res
}

// refused makes a call that must fail, saying each of the words.
func (r *rig) refused(tool string, a any, words ...string) string {
	r.t.Helper()
	res := r.call(tool, a)
	if !res.isError || res.data != nil || !strings.HasPrefix(res.text(), "Error: ") {
		r.t.Fatalf("%s: got %.400s, want a refusal", tool, res.raw)
	}
	for _, w := range words {
		if !strings.Contains(res.text(), w) {
			r.t.Errorf("%s says %q, want %q in it", tool, res.text(), w)
		}
	}
	return res.text()
}

// waited is what bellman_wait returns.
type waited struct {
	Count     int
	Remaining int
	Events    []struct {
		Trust       string
		SessionID   string `json:"session_id"`
		MemberID    string `json:"member_id"`
		Cursor      int64
		Type        string
		FromLabel   string `json:"from_label"`
		Redelivered bool
		Ambient     bool
		Payload     struct{ Text string }
	}
	Next []struct {
		SessionID   string `json:"session_id"`
		MemberID    string `json:"member_id"`
		SinceCursor int64  `json:"since_cursor"`
	}
}

func (w waited) texts() []string {
	all := []string{}
	for _, e := range w.Events {
		all = append(all, e.Payload.Text)
	}
	return all
}

func (r *rig) wait(seconds float64, more ...args) waited {
	r.t.Helper()
	a := args{"wait_seconds": seconds}
	for _, m := range more {
		for k, v := range m {
			a[k] = v
		}
	}
	var w waited
	r.ok("bellman_wait", a, &w)
	return w
}

func wantTexts(t testing.TB, w waited, want ...string) {
	t.Helper()
	if got := w.texts(); !slices.Equal(got, want) {
		t.Fatalf("events %q, want %q", got, want)
	}
}

// joined is a room with the rig's agent in one seat and a peer in the other.
type joined struct {
	*rig
	hub    *hubtest.Server
	peer   *hubtest.Seat
	room   string
	member string
	last   int64 // the cursor that the agent knows
}

// join starts a hub and a rig in front of it, or of what front makes of it,
// with the rig's agent in a room that a peer has joined. The agent has synced.
func join(t *testing.T, front func(hub string) string, change ...func(*tools.Config)) *joined {
	t.Helper()
	h := hubtest.Start(t)
	address := h.URL
	if front != nil {
		address = front(h.URL)
	}
	j := &joined{rig: newRig(t, address+"/mcp", hubtest.Jesse, change...), hub: h}
	j.enter()
	return j
}

func (j *joined) enter() {
	j.t.Helper()
	var started struct {
		SessionID string `json:"session_id"`
		MemberID  string `json:"member_id"`
		JoinCode  string `json:"join_code"`
	}
	j.ok("bellman_start", args{"manifest": args{"room": "r", "preset": "pair"}, "brief": hubtest.Brief("g")}, &started)
	j.room, j.member = started.SessionID, started.MemberID
	j.peer = j.hub.As(hubtest.Peer).Join(j.t, started.JoinCode)
	j.sync(0)
}

// seat are the arguments that name the agent's seat, and more.
func (j *joined) seat(more ...args) args {
	a := args{"session_id": j.room, "member_id": j.member}
	for _, m := range more {
		for k, v := range m {
			a[k] = v
		}
	}
	return a
}

type synced struct {
	Cursor int64
	Events []struct {
		Data struct {
			Cursor  int64
			Type    string
			Payload struct{ Text string }
		}
	}
}

func (s synced) texts() []string {
	all := []string{}
	for _, e := range s.Events {
		all = append(all, e.Data.Payload.Text)
	}
	return all
}

func (j *joined) sync(since int64) synced {
	j.t.Helper()
	var s synced
	j.ok("bellman_sync", j.seat(args{"since_cursor": since}), &s)
	j.last = s.Cursor
	return s
}

// put stores an event in the queue as a watch does.
func (r *rig) put(m queue.Member, events ...queue.Event) {
	r.t.Helper()
	id := *r.who.Load()
	if _, err := r.queue.Touch(r.t.Context(), id, m, 0); err != nil {
		r.t.Fatal(err)
	}
	lease, err := r.queue.Lease(r.t.Context(), id, m.Room)
	if err != nil {
		r.t.Fatal(err)
	}
	if _, err := r.queue.Put(r.t.Context(), lease, m.ID, events, events[len(events)-1].Cursor); err != nil {
		r.t.Fatal(err)
	}
	if err := r.queue.Unlease(r.t.Context(), lease); err != nil {
		r.t.Fatal(err)
	}
}

// event is an event as the room socket brings it.
func event(cursor int64, kind, label string, payload any) queue.Event {
	at := time.UnixMilli(1_800_000_000_000 + cursor*1000).UTC()
	body, err := json.Marshal(args{
		"cursor": cursor, "type": kind, "from": args{"member_id": "m_aaaaaaaa", "label": label},
		"payload": payload, "ref_id": nil, "at": at.Format("2006-01-02T15:04:05.000Z"),
	})
	if err != nil {
		body = nil
	}
	return queue.Event{Cursor: cursor, Type: kind, At: at, Body: body}
}

func message(cursor int64, text string) queue.Event {
	return event(cursor, "message", "peer@example.com", args{"text": text})
}

// waitNote returns the next notification of the method.
func (r *rig) waitNote(method string) note {
	r.t.Helper()
	for {
		select {
		case n := <-r.notes:
			if n.method == method {
				return n
			}
		case <-time.After(20 * time.Second):
			r.t.Fatalf("no %s", method)
		}
	}
}

// eventually waits until ok says so.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("it did not come about: %s", what)
		}
	}
}

// request is one MCP request at a service.
type request struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
	Tool   string
}

func readRequest(body []byte) request {
	var q request
	_ = json.Unmarshal(body, &q)
	var p struct{ Name string }
	if json.Unmarshal(q.Params, &p) == nil && q.Method == "tools/call" {
		q.Tool = p.Name
	}
	return q
}

// front stands between a bridge and a hub and lets a fault happen to what its
// rule chooses.
type front struct {
	*httptest.Server
	mu   sync.Mutex
	rule func(request) fault
	seen []request
}

// fault is what happens to a request: forward carries it out at the hub.
type fault func(w http.ResponseWriter, forward func() *httptest.ResponseRecorder)

// dropped is a connection that breaks after the hub has acted.
func dropped(_ http.ResponseWriter, forward func() *httptest.ResponseRecorder) {
	forward()
	panic(http.ErrAbortHandler)
}

// cutOff is a connection that breaks before the hub hears of the request.
func cutOff(http.ResponseWriter, func() *httptest.ResponseRecorder) { panic(http.ErrAbortHandler) }

// unavailable is a gateway whose service is down.
func unavailable(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
	http.Error(w, "upstream is down", http.StatusServiceUnavailable)
}

func newFront(t testing.TB, hub string) *front {
	t.Helper()
	target, err := url.Parse(hub)
	if err != nil {
		t.Fatal(err)
	}
	pass := &httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) {
		p.SetURL(target)
		p.Out.Host = target.Host
	}, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelDebug)}
	f := &front{}
	f.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.Method != http.MethodPost || !strings.HasSuffix(req.URL.Path, "/mcp") {
			pass.ServeHTTP(w, req)
			return
		}
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return
		}
		req.Body = io.NopCloser(bytes.NewReader(body))
		q := readRequest(body)
		f.mu.Lock()
		f.seen = append(f.seen, q)
		rule := f.rule
		f.mu.Unlock()
		if rule != nil {
			if happens := rule(q); happens != nil {
				happens(w, func() *httptest.ResponseRecorder {
					rec := httptest.NewRecorder()
					pass.ServeHTTP(rec, req)
					return rec
				})
				return
			}
		}
		pass.ServeHTTP(w, req)
	}))
	t.Cleanup(f.Close)
	return f
}

func (f *front) set(rule func(request) fault) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.rule, f.seen = rule, nil
}

// calls returns what of a tool has come since the rule was set.
func (f *front) calls(tool string) []request {
	f.mu.Lock()
	defer f.mu.Unlock()
	var some []request
	for _, q := range f.seen {
		if q.Tool == tool {
			some = append(some, q)
		}
	}
	return some
}

// behindFront is a joined room with a front between bridge and hub.
func behindFront(t *testing.T, change ...func(*tools.Config)) (*joined, *front) {
	t.Helper()
	var f *front
	j := join(t, func(hub string) string {
		f = newFront(t, hub)
		return f.URL
	}, change...)
	return j, f
}

// onTool is a rule: the fault happens to calls of the tool, the first n of them
// when n is positive.
func onTool(tool string, n int, happens fault) func(request) fault {
	var left atomic.Int64
	left.Store(int64(n))
	return func(q request) fault {
		if q.Tool == tool && (n <= 0 || left.Add(-1) >= 0) {
			return happens
		}
		return nil
	}
}

// service is a service of our own making, for answers that no hub would give.
type service struct {
	*httptest.Server
	mu     sync.Mutex
	answer func(ctx context.Context, q request) string // a result, an error after "!", or "" for 500
	seen   []request
}

func newService(t testing.TB, answer func(ctx context.Context, q request) string) *service {
	t.Helper()
	s := &service{answer: answer}
	s.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, err := io.ReadAll(req.Body)
		q := readRequest(body)
		if err != nil || req.Method != http.MethodPost || q.Method == "" {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		s.mu.Lock()
		s.seen = append(s.seen, q)
		s.mu.Unlock()
		if q.ID == nil {
			w.WriteHeader(http.StatusAccepted)
			return
		}
		res := s.answer(req.Context(), q)
		if q.Method == "initialize" && res == "" {
			res = `{"protocolVersion":"2025-06-18","capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"}}`
		}
		if res == "" {
			w.WriteHeader(http.StatusInternalServerError)
			return
		}
		member := "result"
		if rest, failed := strings.CutPrefix(res, "!"); failed {
			member, res = "error", rest
		}
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%q:%s}`, q.ID, member, res)
	}))
	t.Cleanup(s.Close)
	return s
}

// calls returns the requests of a method that have come.
func (s *service) calls(method string) []request {
	s.mu.Lock()
	defer s.mu.Unlock()
	var some []request
	for _, q := range s.seen {
		if q.Method == method {
			some = append(some, q)
		}
	}
	return some
}
