package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"
)

// asBridge makes the test binary be the bridge, so that tests start the real
// program as a process of its own.
const asBridge = "BELLMAN_TEST_AS_BRIDGE"

func TestMain(m *testing.M) {
	if os.Getenv(asBridge) != "" {
		main()
		return
	}
	testscript.Main(m, map[string]func(){"bellman-bridge": main})
}

func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir: "testdata/script",
		Setup: func(e *testscript.Env) error {
			e.Setenv("HOME", e.WorkDir)
			e.Setenv("XDG_STATE_HOME", "")
			e.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
			return nil
		},
	})
}

// bridge is the program under test as a host sees it.
type bridge struct {
	t   testing.TB
	cmd *exec.Cmd
	in  io.WriteCloser
	err syncBuffer

	reading sync.Mutex // held by a test that plays a host that does not read

	mu      sync.Mutex
	id      int
	replies map[string]chan reply
	notes   chan string   // methods of notifications
	asked   chan question // requests of the bridge's own
	done    chan struct{}
}

// question is what the bridge asks the host.
type question struct {
	ID     json.RawMessage
	Method string
	Params json.RawMessage
}

type reply struct {
	Result json.RawMessage
	Error  *struct {
		Code    int
		Message string
	}
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

// profile is what the bridges of one person share.
type profile struct {
	dir string
	env []string
}

func newProfile(tb testing.TB, url, key string, env ...string) profile {
	tb.Helper()
	dir := tb.TempDir()
	return profile{dir: dir, env: append([]string{
		asBridge + "=1", "BELLMAN_URL=" + url, "BELLMAN_KEY=" + key, "BELLMAN_STATE_DIR=" + filepath.Join(dir, "state"),
		"BELLMAN_NO_BROWSER=1", "DBUS_SESSION_BUS_ADDRESS=unix:path=/nonexistent", "HOME=" + dir,
	}, env...)}
}

func (p profile) command(tb testing.TB, args ...string) *exec.Cmd {
	tb.Helper()
	self, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), p.env...)
	cmd.Dir = p.dir
	return cmd
}

// start starts a bridge without a word to it.
func (p profile) start(tb testing.TB, args ...string) *bridge {
	tb.Helper()
	b := &bridge{t: tb, cmd: p.command(tb, args...), replies: map[string]chan reply{}, notes: make(chan string, 1000), asked: make(chan question, 10), done: make(chan struct{})}
	var err error
	if b.in, err = b.cmd.StdinPipe(); err != nil {
		tb.Fatal(err)
	}
	out, err := b.cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	b.cmd.Stderr = &b.err
	if err := b.cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	go b.read(out)
	tb.Cleanup(func() {
		_ = b.cmd.Process.Kill()
		<-b.done
		if tb.Failed() {
			tb.Logf("the bridge said:\n%s", b.err.String())
		}
	})
	return b
}

// open starts a bridge and completes the handshake.
func (p profile) open(tb testing.TB) *bridge {
	tb.Helper()
	return p.openIn(tb, `{}`)
}

// openIn starts a bridge in a host with these capabilities.
func (p profile) openIn(tb testing.TB, capabilities string) *bridge {
	tb.Helper()
	b := p.start(tb)
	if r := b.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":`+capabilities+`,"clientInfo":{"name":"test","version":"1"}}`); r.Error != nil {
		tb.Fatalf("initialize: %+v", r.Error)
	}
	b.write(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
	return b
}

// read hands replies to those who wait and insists that standard output
// carries nothing but JSON-RPC.
func (b *bridge) read(out io.Reader) {
	defer close(b.done)
	r := bufio.NewReader(gated{out, &b.reading})
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			_ = b.cmd.Wait()
			return
		}
		var m struct {
			JSONRPC string
			question
			reply
		}
		if err := json.Unmarshal([]byte(line), &m); err != nil || m.JSONRPC != "2.0" {
			b.t.Errorf("standard output carries %.200q", line)
			continue
		}
		switch {
		case m.Method != "" && m.ID != nil:
			b.asked <- m.question
			continue
		case m.Method != "":
			b.notes <- m.Method
			continue
		}
		b.mu.Lock()
		ch := b.replies[string(m.ID)]
		b.mu.Unlock()
		if ch != nil {
			ch <- m.reply
		}
	}
}

// gated begins no read while somebody holds the gate.
type gated struct {
	r    io.Reader
	gate *sync.Mutex
}

func (g gated) Read(p []byte) (int, error) {
	g.gate.Lock()
	g.gate.Unlock() //nolint:staticcheck // an empty section: it only waits
	return g.r.Read(p)
}

func (b *bridge) write(line string) {
	b.t.Helper()
	if _, err := io.WriteString(b.in, line+"\n"); err != nil {
		b.t.Fatalf("write to the bridge: %v", err)
	}
}

// send writes a request and returns where its reply will come.
func (b *bridge) send(method, params string) (id string, ch chan reply) {
	b.t.Helper()
	b.mu.Lock()
	b.id++
	id, ch = fmt.Sprint(b.id), make(chan reply, 1)
	b.replies[id] = ch
	b.mu.Unlock()
	b.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,"method":%q,"params":%s}`, id, method, params))
	return id, ch
}

func (b *bridge) receive(ch chan reply) reply {
	b.t.Helper()
	select {
	case r := <-ch:
		return r
	case <-b.done:
		b.t.Fatal("the bridge ended")
	case <-time.After(55 * time.Second):
		b.t.Fatal("no reply in 55 s")
	}
	return reply{}
}

func (b *bridge) request(method, params string) reply {
	b.t.Helper()
	_, ch := b.send(method, params)
	return b.receive(ch)
}

// result is a tool's answer.
type result struct {
	Content []struct{ Type, Text string }
	Data    json.RawMessage `json:"structuredContent"`
	IsError bool
}

func (r result) text() string {
	var all []string
	for _, c := range r.Content {
		all = append(all, c.Text)
	}
	return strings.Join(all, "\n")
}

func toolParams(tool string, args any) string {
	params, _ := json.Marshal(map[string]any{"name": tool, "arguments": args})
	return string(params)
}

func (b *bridge) tool(ch chan reply) result {
	b.t.Helper()
	r := b.receive(ch)
	if r.Error != nil {
		b.t.Fatalf("protocol error %d: %s", r.Error.Code, r.Error.Message)
	}
	var res result
	if err := json.Unmarshal(r.Result, &res); err != nil {
		b.t.Fatalf("no tool result: %s", r.Result)
	}
	return res
}

func (b *bridge) call(tool string, args map[string]any) result {
	b.t.Helper()
	_, ch := b.send("tools/call", toolParams(tool, args))
	return b.tool(ch)
}

// ok calls a tool that must succeed and decodes its structured content.
func (b *bridge) ok(tool string, args map[string]any, into any) result {
	b.t.Helper()
	r := b.call(tool, args)
	if r.IsError {
		b.t.Fatalf("%s: %s", tool, r.text())
	}
	if into != nil {
		if err := json.Unmarshal(r.Data, into); err != nil {
			b.t.Fatalf("%s: %v in %s", tool, err, r.Data)
		}
	}
	return r
}

// waited is what bellman_wait returns.
type waited struct {
	Count     int
	Remaining int
	Events    []struct {
		SessionID   string `json:"session_id"`
		MemberID    string `json:"member_id"`
		Cursor      int64
		Type        string
		Redelivered bool
		Payload     struct{ Text string }
	}
	Next []struct {
		SinceCursor int64 `json:"since_cursor"`
	}
}

func (w waited) texts() []string {
	var all []string
	for _, e := range w.Events {
		all = append(all, e.Payload.Text)
	}
	return all
}

func (b *bridge) wait(seconds int) waited {
	b.t.Helper()
	var w waited
	b.ok("bellman_wait", map[string]any{"wait_seconds": seconds}, &w)
	return w
}

// collect waits until n events have come.
func (b *bridge) collect(n int) waited {
	b.t.Helper()
	var all waited
	for len(all.Events) < n {
		w := b.wait(20)
		if w.Count == 0 {
			b.t.Fatalf("%d of %d events came: %v", len(all.Events), n, all.texts())
		}
		all.Events = append(all.Events, w.Events...)
	}
	return all
}

// exit waits for the end of the process. How long that takes is measured in the
// benchmarks.
func (b *bridge) exit() {
	b.t.Helper()
	const limit = 10 * time.Second
	select {
	case <-b.done:
	case <-time.After(limit):
		b.t.Fatalf("the bridge is still there after %s", limit)
	}
}

func (b *bridge) kill() {
	b.t.Helper()
	if err := b.cmd.Process.Signal(syscall.SIGKILL); err != nil {
		b.t.Fatal(err)
	}
	<-b.done
}
