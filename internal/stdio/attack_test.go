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
	"sync/atomic"
	"testing"
	"time"
	"unicode/utf8"

	"bellman.sh/desktop/internal/stdio"
)

func newConn(in io.Reader, out io.Writer) *stdio.Conn {
	return stdio.New(in, out, slog.New(slog.DiscardHandler))
}

// drip is a reader that gives one byte at a time, and a writer of the same.
type drip struct{ io.Reader }

func (d drip) Read(p []byte) (int, error) { return d.Reader.Read(p[:min(1, len(p))]) }

// Lines that come in pieces, in the middle of a character too, are whole lines.
func TestALineMayComeByteByByte(t *testing.T) {
	var out bytes.Buffer
	in := `{"jsonrpc":"2.0","id":1,"method":"x","params":{"s":"語😀é"}}` + "\r\n\n" + `{"jsonrpc":"2.0","id":2,"method":"x","params":{}}`
	if err := newConn(drip{strings.NewReader(in)}, &out).Run(t.Context(), echo); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(out.String(), `"id":1,"result":{"s":"語😀é"}`) || !strings.Contains(out.String(), `"id":2,"result":{}`) {
		t.Errorf("answered %s", out.String())
	}
}

// What is no UTF-8 does not reach the host, nor does it end anything.
func TestStdoutIsUTF8WhateverComesIn(t *testing.T) {
	var out bytes.Buffer
	in := "{\"jsonrpc\":\"2.0\",\"id\":\"\xff\xfe\",\"method\":\"x\",\"params\":{\"s\":\"\xc3\x28 \xed\xa0\x80\"}}\n\x00\x01\x02\n\"\xff\"\n"
	bad := func(_ context.Context, r *stdio.Request) stdio.Reply {
		return stdio.Reply{Result: append(append(json.RawMessage(`{"in":`), r.Params...), []byte(",\"mine\":\"\xf8\"}")...)}
	}
	if err := newConn(strings.NewReader(in), &out).Run(t.Context(), bad); err != nil {
		t.Fatal(err)
	}
	if n := strings.Count(out.String(), "\n"); !utf8.ValidString(out.String()) || n != 3 {
		t.Errorf("%d lines: %q", n, out.String())
	}
	for line := range strings.Lines(out.String()) {
		if !json.Valid([]byte(line)) {
			t.Errorf("not JSON: %q", line)
		}
	}
}

// An answer that is no JSON becomes an error for the host, and whoever made it
// hears that nothing left.
func TestAnAnswerThatIsNoJSON(t *testing.T) {
	var out bytes.Buffer
	f := newFates()
	if err := newConn(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`), &out).Run(t.Context(), func(context.Context, *stdio.Request) stdio.Reply {
		return stdio.Reply{Result: json.RawMessage(`{"a":`), Leaving: func() { t.Error("told that it leaves") }, Settle: f.settle}
	}); err != nil {
		t.Fatal(err)
	}
	f.want(t, stdio.Cancelled)
	if !strings.Contains(out.String(), `"code":-32603`) || len(f.all) != 1 {
		t.Errorf("answered %s, fates %v", out.String(), f.all)
	}
}

// A thousand and twenty-four calls may be in flight; the next is told so and
// the others go on.
func TestAThousandCallsInFlight(t *testing.T) {
	const limit = 1024
	release := make(chan struct{})
	var running atomic.Int64
	p := connect(t, func(ctx context.Context, r *stdio.Request) stdio.Reply {
		if r.Method == "wait" {
			running.Add(1)
			select {
			case <-release:
			case <-ctx.Done():
			}
		}
		return stdio.Reply{}
	})
	for i := range limit {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"wait"}`, i)
	}
	for running.Load() < limit {
		time.Sleep(time.Millisecond)
	}
	p.send(`{"jsonrpc":"2.0","id":"over","method":"x"}`)
	if m := p.reply(); string(m["id"]) != `"over"` || !strings.Contains(string(m["error"]), "too many calls") {
		t.Errorf("beyond the limit: %s %s", m["id"], m["error"])
	}
	close(release)
	for range limit {
		if m := p.reply(); m["error"] != nil {
			t.Fatalf("error %s", m["error"])
		}
	}
	p.send(`{"jsonrpc":"2.0","id":"again","method":"x"}`)
	if m := p.reply(); string(m["id"]) != `"again"` || m["error"] != nil {
		t.Errorf("afterwards: %s", m)
	}
}

// In a storm of calls and cancellations every call is settled exactly once,
// recalled at most once and only after it was written, and answered at most
// once.
func TestAStormOfCancellations(t *testing.T) {
	const calls = 3000
	var mu sync.Mutex
	fates := map[string][]stdio.Fate{}
	leaving := map[string]int{}
	p := connect(t, func(ctx context.Context, r *stdio.Request) stdio.Reply {
		if len(r.ID)%2 == 0 {
			select {
			case <-ctx.Done():
			case <-time.After(time.Millisecond):
			}
		}
		id := string(r.ID)
		return stdio.Reply{
			Leaving: func() { mu.Lock(); defer mu.Unlock(); leaving[id]++ },
			Settle:  func(f stdio.Fate) { mu.Lock(); defer mu.Unlock(); fates[id] = append(fates[id], f) },
		}
	})
	answered := map[string]int{}
	read := make(chan struct{})
	go func() {
		defer close(read)
		for line := range p.lines {
			var m struct{ ID json.RawMessage }
			_ = json.Unmarshal([]byte(line), &m)
			answered[string(m.ID)]++
		}
	}()
	for i := range calls {
		p.send(`{"jsonrpc":"2.0","id":%d,"method":"x"}`, i)
		if i%3 != 0 {
			p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i)
		}
		p.send(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%d}}`, i-50)
	}
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	<-read
	for i := range calls {
		id := fmt.Sprint(i)
		got := fates[id]
		ok := len(got) == 1 && (got[0] == stdio.Written || got[0] == stdio.Cancelled) ||
			len(got) == 2 && got[0] == stdio.Written && got[1] == stdio.Recalled
		if !ok {
			t.Errorf("call %s: fates %v", id, got)
			continue
		}
		if wrote := got[0] == stdio.Written; wrote != (answered[id] == 1) || wrote != (leaving[id] == 1) || answered[id] > 1 {
			t.Errorf("call %s: fates %v, answered %d times, left %d times", id, got, answered[id], leaving[id])
		}
	}
}

// stuck is a host that reads nothing: writes to it never end, until released.
type stuck struct {
	release chan struct{}
	began   chan struct{}
	once    sync.Once
}

func newStuck(t *testing.T) *stuck {
	t.Helper()
	s := &stuck{release: make(chan struct{}), began: make(chan struct{})}
	t.Cleanup(func() { close(s.release) })
	return s
}

func (s *stuck) Write(p []byte) (int, error) {
	s.once.Do(func() { close(s.began) })
	<-s.release
	return len(p), nil
}

// A host that does not read holds up nobody: at the end of input Run returns in
// time, the reply in the pipe is settled as failed, those behind it as not
// begun, and nobody waits on to tell the host something.
func TestAHostThatDoesNotReadHoldsUpNobody(t *testing.T) {
	for name, end := range map[string]func(in *io.PipeWriter, cancel func()){
		"the input ends": func(in *io.PipeWriter, _ func()) { in.Close() },
		"a signal comes": func(_ *io.PipeWriter, cancel func()) { cancel() },
	} {
		t.Run(name, func(t *testing.T) {
			inR, inW := io.Pipe()
			t.Cleanup(func() { inW.Close() })
			out := newStuck(t)
			c := newConn(inR, out)
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			var mu sync.Mutex
			fates := map[stdio.Fate]int{}
			var settled sync.WaitGroup
			settled.Add(5)
			done := make(chan error, 1)
			go func() {
				done <- c.Run(ctx, func(_ context.Context, r *stdio.Request) stdio.Reply {
					if r.Method == "initialize" { // which a signal may overtake
						return stdio.Reply{}
					}
					return stdio.Reply{Settle: func(f stdio.Fate) {
						mu.Lock()
						fates[f]++
						mu.Unlock()
						settled.Done()
					}}
				})
			}()
			for i := range 5 {
				fmt.Fprintf(inW, `{"jsonrpc":"2.0","id":%d,"method":"x"}`+"\n", i)
			}
			<-out.began
			// And what must not keep the end of input from being seen: more
			// refusals than can wait, and a request that others wait for.
			for range 200 {
				fmt.Fprint(inW, "garbage\n")
			}
			fmt.Fprintln(inW, `{"jsonrpc":"2.0","id":"i","method":"initialize"}`)
			told := make(chan error, 1)
			go func() { told <- c.Notify("notifications/x", nil) }()
			end(inW, cancel)
			select {
			case err := <-done:
				if err != nil {
					t.Error(err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("Run waits for a host that does not read")
			}
			settled.Wait()
			if mu.Lock(); fates[stdio.Failed] != 1 || fates[stdio.Cancelled] != 4 {
				t.Errorf("fates %v, want one failed and four never begun", fates)
			}
			mu.Unlock()
			if err := <-told; err == nil {
				t.Error("a notification that nobody read was taken for told")
			}
			if err := c.Notify("notifications/x", nil); err == nil {
				t.Error("told after the end")
			}
		})
	}
}

// A reply that waits for its turn can still be withdrawn.
func TestACancellationReachesAReplyThatWaitsForItsTurn(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	defer outR.Close()
	c := newConn(inR, outW)
	f := newFates()
	ready := make(chan struct{})
	done := make(chan error, 1)
	go func() {
		done <- c.Run(t.Context(), func(_ context.Context, r *stdio.Request) stdio.Reply {
			if string(r.ID) == "2" {
				defer close(ready)
				return stdio.Reply{Settle: f.settle, Leaving: func() { t.Error("it left") }}
			}
			return stdio.Reply{}
		})
	}()
	fmt.Fprint(inW, `{"jsonrpc":"2.0","id":1,"method":"x"}`+"\n")
	first := make([]byte, 1)
	if _, err := outR.Read(first); err != nil { // the first reply is stuck in the pipe
		t.Fatal(err)
	}
	fmt.Fprint(inW, `{"jsonrpc":"2.0","id":2,"method":"x"}`+"\n")
	<-ready
	fmt.Fprint(inW, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":2}}`+"\n")
	fmt.Fprint(inW, `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":"none"}}`+"\n")
	r := bufio.NewReader(outR)
	if line, err := r.ReadString('\n'); err != nil || !strings.Contains(line, `"id":1`) {
		t.Fatalf("%q, %v", line, err)
	}
	f.want(t, stdio.Cancelled)
	inW.Close()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}

// A handler that ignores its ctx does not keep Run.
func TestAHandlerThatIgnoresTheEndIsLeftBehind(t *testing.T) {
	release := make(chan struct{})
	ended := make(chan struct{})
	p := connect(t, func(context.Context, *stdio.Request) stdio.Reply {
		<-release
		return stdio.Reply{Settle: func(stdio.Fate) { close(ended) }}
	})
	p.send(`{"jsonrpc":"2.0","id":1,"method":"x"}`)
	if err := p.end(); err != nil {
		t.Fatal(err)
	}
	close(release)
	<-ended
}

// Input that breaks is an error; calls made before it are answered.
func TestInputThatBreaks(t *testing.T) {
	broken := errors.New("broken")
	var out bytes.Buffer
	in := io.MultiReader(strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"x"}`+"\n"+`{"half`), &failing{broken})
	if err := newConn(in, &out).Run(t.Context(), echo); !errors.Is(err, broken) {
		t.Errorf("Run: %v", err)
	}
	if !strings.Contains(out.String(), `"id":1`) {
		t.Errorf("answered %q", out.String())
	}
}

type failing struct{ err error }

func (f *failing) Read([]byte) (int, error) { return 0, f.err }

// Params of any shape are passed on; the name and the progress token are read
// each by itself.
func TestWhatIsReadOfParams(t *testing.T) {
	for params, want := range map[string]string{
		`{"name":"t","_meta":{"progressToken":1.50}}`:           "t 1.50",
		`{"name":"t","_meta":{"progressToken":"a"}}`:            `t "a"`,
		`{"name":"t","_meta":{"progressToken":null}}`:           "t ",
		`{"name":"t","_meta":{"progressToken":{}}}`:             "t ",
		`{"name":"t","_meta":5}`:                                "t ",
		`{"name":7,"_meta":{"progressToken":9007199254740993}}`: " 9007199254740993",
		`{"name":null}`: " ", `[]`: " ", `"x"`: " ", `null`: " ",
	} {
		var got string
		h := func(_ context.Context, r *stdio.Request) stdio.Reply {
			got = r.Tool + " " + string(r.Progress)
			if string(r.Params) != params {
				t.Errorf("params %s became %s", params, r.Params)
			}
			return stdio.Reply{}
		}
		in := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":` + params + "}\n"
		if err := newConn(strings.NewReader(in), io.Discard).Run(t.Context(), h); err != nil {
			t.Fatal(err)
		}
		if got != want {
			t.Errorf("%s: read %q, want %q", params, got, want)
		}
	}
}

// A line just at the limit passes; one over it is refused and skipped, whether
// or not it ends.
func TestLinesAtTheLimit(t *testing.T) {
	const limit = 16 << 20
	var out bytes.Buffer
	frame := `{"jsonrpc":"2.0","id":1,"method":"x","params":""}`
	fits := strings.Replace(frame, `""`, `"`+strings.Repeat("a", limit-len(frame)-1)+`"`, 1)
	in := fits + "\n" + fits + "aa\n" + `{"jsonrpc":"2.0","id":2,"method":"x"}` + "\n" + strings.Repeat("b", 3*limit)
	if err := newConn(strings.NewReader(in), &out).Run(t.Context(), func(_ context.Context, r *stdio.Request) stdio.Reply {
		return stdio.Reply{Result: json.RawMessage(fmt.Sprint(len(r.Params)))}
	}); err != nil {
		t.Fatal(err)
	}
	if got := out.String(); strings.Count(got, `"code":-32600`) != 2 || !strings.Contains(got, fmt.Sprintf(`"id":1,"result":%d`, limit-len(frame)+1)) || !strings.Contains(got, `"id":2`) {
		t.Errorf("answered %s", got)
	}
}
