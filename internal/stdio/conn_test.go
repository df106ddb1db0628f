package stdio_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bellman.sh/desktop/internal/stdio"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// host plays the host's end of a connection.
type host struct {
	t     *testing.T
	in    *io.PipeWriter
	lines chan string
	done  chan error
	conn  *stdio.Conn
}

func connect(t *testing.T, h stdio.Handler) *host {
	t.Helper()
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	p := &host{t: t, in: inW, lines: make(chan string, 64), done: make(chan error, 1)}
	p.conn = stdio.New(inR, outW, slog.New(slog.DiscardHandler))
	ctx, cancel := context.WithCancel(t.Context())
	go func() { p.done <- p.conn.Run(ctx, h); outW.Close() }()
	go func() {
		defer close(p.lines)
		r := bufio.NewReader(outR)
		for {
			line, err := r.ReadString('\n')
			if err != nil {
				return
			}
			p.lines <- line
		}
	}()
	t.Cleanup(func() { inW.Close(); cancel(); outR.Close() })
	return p
}

func (p *host) send(format string, args ...any) {
	p.t.Helper()
	if _, err := fmt.Fprintf(p.in, format+"\n", args...); err != nil {
		p.t.Fatal(err)
	}
}

func (p *host) reply() map[string]json.RawMessage {
	p.t.Helper()
	select {
	case line := <-p.lines:
		var m map[string]json.RawMessage
		if err := json.Unmarshal([]byte(line), &m); err != nil {
			p.t.Fatalf("not JSON: %q", line)
		}
		return m
	case <-time.After(10 * time.Second):
		p.t.Fatal("no reply in 10 s")
		return nil
	}
}

func (p *host) end() error {
	p.t.Helper()
	p.in.Close()
	select {
	case err := <-p.done:
		return err
	case <-time.After(10 * time.Second):
		p.t.Fatal("Run did not return")
		return nil
	}
}

func echo(_ context.Context, r *stdio.Request) stdio.Reply {
	return stdio.Reply{Result: r.Params}
}

func TestTheIDAndTheBytesComeBackAsTheyWere(t *testing.T) {
	p := connect(t, echo)
	for _, id := range []string{`"a\u0062"`, `1.0`, `-7`, `900719925474099312345`} {
		p.send(`{"jsonrpc":"2.0","id":%s,"method":"x","params":{"b":1e2,"a":"<&>","n":12345678901234567890.10}}`, id)
		m := p.reply()
		if string(m["id"]) != id {
			t.Errorf("id: got %s, want %s", m["id"], id)
		}
		if got, want := string(m["result"]), `{"b":1e2,"a":"<&>","n":12345678901234567890.10}`; got != want {
			t.Errorf("result: got %s, want %s", got, want)
		}
	}
}

func TestABadLineIsAnsweredAndTheLoopGoesOn(t *testing.T) {
	p := connect(t, echo)
	for _, c := range []struct{ line, code string }{
		{`garbage`, "-32700"},
		{`[{"jsonrpc":"2.0","id":1,"method":"x"}]`, "-32600"},
		{`{"id":1,"method":"x"}`, "-32600"},
		{`{"jsonrpc":"2.0"}`, "-32600"},
		{`{"jsonrpc":"2.0","id":{},"method":"x"}`, "-32600"},
		{`{"jsonrpc":"2.0","id":1,"method":5}`, "-32600"},
		{`{"jsonrpc":2,"id":1,"method":"x"}`, "-32600"},
		{strings.Repeat("x", 16<<20+1), "-32600"},
	} {
		p.send("%s", c.line)
		if m := p.reply(); !strings.Contains(string(m["error"]), `"code":`+c.code) {
			t.Errorf("%.60s: error %s, want code %s", c.line, m["error"], c.code)
		}
	}
	p.send("\r\n  ")
	p.send(`{"jsonrpc":"2.0","id":2,"method":"x","params":{}}` + "\r")
	if m := p.reply(); string(m["id"]) != "2" {
		t.Errorf("after the bad lines: id %s, want 2", m["id"])
	}
}

func TestAnEightMiBLinePassesBothWays(t *testing.T) {
	p := connect(t, echo)
	body := `{"s":"` + strings.Repeat("a", 8<<20) + `"}`
	p.send(`{"jsonrpc":"2.0","id":1,"method":"x","params":%s}`, body)
	if m := p.reply(); string(m["result"]) != body {
		t.Errorf("got %d bytes back, want %d", len(m["result"]), len(body))
	}
}

// Sixty-four waiting calls must not hold up a quick one.
func TestAWaitingCallDoesNotBlockAnother(t *testing.T) {
	p := connect(t, func(ctx context.Context, r *stdio.Request) stdio.Reply {
		if r.Tool == "wait" {
			<-ctx.Done()
		}
		return stdio.Reply{Result: json.RawMessage(`{}`)}
	})
	for i := range 64 {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"tools/call","params":{"name":"wait"}}`, i)
	}
	p.send(`{"jsonrpc":"2.0","id":"quick","method":"tools/call","params":{"name":"quick"}}`)
	if m := p.reply(); string(m["id"]) != `"quick"` {
		t.Errorf("first reply is for %s, want the quick call", m["id"])
	}
	if err := p.end(); err != nil {
		t.Errorf("Run: %v", err)
	}
}

func TestRepliesAreNotLostWhenTheInputEndsRightAfterTheCall(t *testing.T) {
	for range 50 {
		var out bytes.Buffer
		in := strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"initialize"}
{"jsonrpc":"2.0","id":2,"method":"tools/list"}
{"jsonrpc":"2.0","id":3,"method":"tools/call","params":{"name":"x"}}`)
		c := stdio.New(in, &out, slog.New(slog.DiscardHandler))
		if err := c.Run(t.Context(), func(context.Context, *stdio.Request) stdio.Reply {
			time.Sleep(time.Millisecond)
			return stdio.Reply{Result: json.RawMessage(`{}`)}
		}); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(out.String(), "\n"); n != 3 {
			t.Fatalf("%d replies, want 3: %s", n, out.String())
		}
	}
}

// fates records what a reply was told.
type fates struct {
	mu  sync.Mutex
	all []stdio.Fate
	ch  chan stdio.Fate
}

func newFates() *fates { return &fates{ch: make(chan stdio.Fate, 8)} }

func (f *fates) settle(x stdio.Fate) {
	f.mu.Lock()
	f.all = append(f.all, x)
	f.mu.Unlock()
	f.ch <- x
}

func (f *fates) want(t *testing.T, want stdio.Fate) {
	t.Helper()
	select {
	case got := <-f.ch:
		if got != want {
			t.Fatalf("fate %d, want %d", got, want)
		}
	case <-time.After(10 * time.Second):
		t.Fatalf("not settled, want %d", want)
	}
}

func TestACancelledCallIsNotAnsweredAndIsTold(t *testing.T) {
	f := newFates()
	p := connect(t, func(ctx context.Context, r *stdio.Request) stdio.Reply {
		if r.Tool != "wait" {
			return stdio.Reply{}
		}
		<-ctx.Done()
		return stdio.Reply{Result: json.RawMessage(`{"lost":true}`), Settle: f.settle}
	})
	p.send(`{"jsonrpc":"2.0","id":5,"method":"tools/call","params":{"name":"wait"}}`)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":5}}`)
	f.want(t, stdio.Cancelled)
	p.send(`{"jsonrpc":"2.0","id":6,"method":"ping"}`)
	if m := p.reply(); string(m["id"]) != "6" {
		t.Errorf("reply for %s: a cancelled call was answered", m["id"])
	}
}

func TestACancellationThatCrossedTheReplyRecallsIt(t *testing.T) {
	f := newFates()
	p := connect(t, func(context.Context, *stdio.Request) stdio.Reply {
		return stdio.Reply{Settle: f.settle}
	})
	p.send(`{"jsonrpc":"2.0","id":"w","method":"tools/call"}`)
	p.reply()
	f.want(t, stdio.Written)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}`)
	f.want(t, stdio.Recalled)
	p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"w"}}`)
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	if len(f.all) != 2 {
		t.Errorf("fates %v, want written and recalled once", f.all)
	}
}

func TestTheEndOfInputRecallsWhatWasWrittenJustNow(t *testing.T) {
	f := newFates()
	p := connect(t, func(context.Context, *stdio.Request) stdio.Reply {
		return stdio.Reply{Settle: f.settle}
	})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`)
	p.reply()
	f.want(t, stdio.Written)
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	f.want(t, stdio.Recalled)
}

type brokenPipe struct{}

func (brokenPipe) Write(b []byte) (int, error) { return len(b) / 2, errors.New("broken pipe") }

func TestAFailedWriteIsTold(t *testing.T) {
	f := newFates()
	c := stdio.New(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call"}`), brokenPipe{}, slog.New(slog.DiscardHandler))
	if err := c.Run(t.Context(), func(context.Context, *stdio.Request) stdio.Reply {
		return stdio.Reply{Settle: f.settle}
	}); err != nil {
		t.Fatal(err)
	}
	f.want(t, stdio.Failed)
}

func TestTheSameIDTwiceAtOnceIsRefused(t *testing.T) {
	p := connect(t, func(ctx context.Context, _ *stdio.Request) stdio.Reply {
		<-ctx.Done()
		return stdio.Reply{}
	})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	if m := p.reply(); m["error"] == nil {
		t.Errorf("second use of an id in flight: got %v, want an error", m)
	}
}

func FuzzLine(f *testing.F) {
	f.Add([]byte(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"x","_meta":{"progressToken":1}}}`))
	f.Add([]byte("[]\n\x00{}\n"))
	f.Fuzz(func(t *testing.T, in []byte) {
		var out bytes.Buffer
		c := stdio.New(bytes.NewReader(in), &out, slog.New(slog.DiscardHandler))
		if err := c.Run(t.Context(), echoSafe); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(out.String()) {
			if !json.Valid([]byte(line)) {
				t.Fatalf("stdout carries %q", line)
			}
		}
	})
}

func echoSafe(_ context.Context, r *stdio.Request) stdio.Reply {
	return stdio.Reply{Result: r.Params}
}
