package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"flag"
	"log/slog"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

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
func newRig(tb testing.TB, address, key string, change ...func(*tools.Config)) *rig {
	tb.Helper()
	return newRigWith(tb, address, remote.Key(key), tb.TempDir(), change...)
}

func newRigWith(tb testing.TB, address string, tokens remote.Tokens, dir string, change ...func(*tools.Config)) *rig {
	tb.Helper()
	return newRigOver(tb, nil, address, tokens, dir, change...)
}

// newRigOver is newRigWith on a network of its own, when dial is set.
func newRigOver(tb testing.TB, dial func(context.Context, string, string) (net.Conn, error), address string, tokens remote.Tokens, dir string, change ...func(*tools.Config)) *rig {
	tb.Helper()
	server, err := url.Parse(address)
	if err != nil {
		tb.Fatal(err)
	}
	r := &rig{t: tb, notes: make(chan note, 4096)}
	log := slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	r.who.Store(&jesse)
	if r.queue, err = queue.Open(tb.Context(), filepath.Join(dir, "queue.db"), log); err != nil {
		tb.Fatal(err)
	}
	r.remote = remote.New(remote.Options{
		Server: server, Tokens: tokens, Version: "test", Log: log, Dial: dial,
		Notify: func(method string, params json.RawMessage) {
			if method == "notifications/tools/list_changed" {
				r.ToolsChanged(context.WithoutCancel(tb.Context()))
				return
			}
			r.notes <- note{method, params}
		},
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
				tb.Errorf("notification %s: %v", method, err)
			}
			r.notes <- note{method, raw}
		},
	}
	for _, f := range change {
		f(&r.cfg)
	}
	r.Bridge = tools.New(r.cfg)
	tb.Cleanup(func() {
		r.Close()
		r.remote.Close()
		if err := r.queue.Close(); err != nil {
			tb.Errorf("close queue: %v", err)
		}
		if tb.Failed() {
			tb.Logf("log:\n%s", r.log.String())
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

func readResult(tb testing.TB, a tools.Answer) result {
	tb.Helper()
	if a.Error != nil {
		tb.Fatalf("protocol error %d: %s", a.Error.Code, a.Error.Message)
	}
	var m struct {
		Content []struct{ Type, Text string }
		Data    json.RawMessage `json:"structuredContent"`
		IsError bool
	}
	if err := json.Unmarshal(a.Result, &m); err != nil {
		tb.Fatalf("no tool result: %v in %.300s", err, a.Result)
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

// eventually waits until ok says so.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			tb.Fatalf("it did not come about: %s", what)
		}
	}
}
