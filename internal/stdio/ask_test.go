package stdio_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/stdio"
)

// asked is what came of one Ask.
type asked struct {
	result json.RawMessage
	err    error
}

// ask asks the host in the background and returns the id it was asked under.
func (p *host) ask(ctx context.Context) (id string, came <-chan asked) {
	p.t.Helper()
	ch := make(chan asked, 1)
	go func() {
		result, err := p.conn.Ask(ctx, "elicitation/create", map[string]string{"a": "<&>"})
		ch <- asked{result, err}
	}()
	m := p.reply()
	if string(m["method"]) != `"elicitation/create"` || string(m["params"]) != `{"a":"<&>"}` || string(m["jsonrpc"]) != `"2.0"` {
		p.t.Fatalf("the host was asked %v", m)
	}
	if err := json.Unmarshal(m["id"], &id); err != nil {
		p.t.Fatal(err)
	}
	return id, ch
}

func (p *host) came(ch <-chan asked) asked {
	p.t.Helper()
	select {
	case a := <-ch:
		return a
	case <-time.After(10 * time.Second):
		p.t.Fatal("Ask did not return in 10 s")
		return asked{}
	}
}

// Two questions at once get each its own answer, in whatever order and however
// the host writes the id, while calls go on.
func TestAnAnswerFindsWhoAsked(t *testing.T) {
	p := connect(t, echo)
	first, one := p.ask(t.Context())
	second, two := p.ask(t.Context())
	if first == second {
		t.Fatalf("both were asked under %s", first)
	}
	p.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`)
	if m := p.reply(); string(m["id"]) != "1" {
		t.Errorf("a call meanwhile: %v", m)
	}
	p.send(`{"jsonrpc":"2.0","id":"\u0062%s","result":{"n":12345678901234567890}}`, second[1:])
	p.send(`{"jsonrpc":"2.0","id":"%s","error":{"code":-32602,"message":"no such mode"}}`, first)
	if got := p.came(two); got.err != nil || string(got.result) != `{"n":12345678901234567890}` {
		t.Errorf("the second: %s, %v", got.result, got.err)
	}
	got := p.came(one)
	if refusal, ok := errors.AsType[*stdio.Error](got.err); !ok || refusal.Code != -32602 {
		t.Errorf("the first: %s, %v; want the host's error", got.result, got.err)
	}
	if err := p.end(); err != nil {
		t.Error(err)
	}
}

// Replies that nobody waits for, that come twice or make no sense are answered
// with nothing, and change nothing.
func TestHostileAnswersDoNoHarm(t *testing.T) {
	p := connect(t, echo)
	id, came := p.ask(t.Context())
	for _, line := range []string{
		`{"jsonrpc":"2.0","id":"bellman-999","result":{}}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"parse error"}}`,
		`{"jsonrpc":"2.0","id":{"bellman-1":1},"result":{}}`,
		`{"jsonrpc":"2.0","id":["` + id + `"],"result":{}}`,
		`{"jsonrpc":"2.0","result":{}}`,
		`{"jsonrpc":"2.0","id":"","error":5}`,
		`{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 1<<20) + `","result":{}}`,
	} {
		p.send("%s", line)
	}
	p.send(`{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}`)
	if m := p.reply(); string(m["id"]) != "7" {
		t.Errorf("an answer was answered: %v", m)
	}
	select {
	case got := <-came:
		t.Fatalf("a foreign answer ended the question: %s, %v", got.result, got.err)
	default:
	}
	p.send(`{"jsonrpc":"2.0","id":"%s","error":"no"}`, id)
	if got := p.came(came); got.err == nil || got.result != nil {
		t.Errorf("an error that is none: %s, %v", got.result, got.err)
	}
	for range 3 {
		p.send(`{"jsonrpc":"2.0","id":"%s","result":{"action":"accept"}}`, id)
	}
	again, came := p.ask(t.Context())
	if again == id {
		t.Error("an id is used again, so a late answer would count for another question")
	}
	p.send(`{"jsonrpc":"2.0","id":"%s","result":{},"error":null}`, again)
	if got := p.came(came); got.err != nil || string(got.result) != `{}` {
		t.Errorf("afterwards: %s, %v", got.result, got.err)
	}
}

// Who gives up waiting goes at once, and the host is told; its late answer is
// ignored.
func TestAQuestionThatIsGivenUpIsWithdrawn(t *testing.T) {
	p := connect(t, echo)
	ctx, cancel := context.WithCancel(t.Context())
	id, came := p.ask(ctx)
	cancel()
	if got := p.came(came); !errors.Is(got.err, context.Canceled) {
		t.Errorf("got %v", got.err)
	}
	m := p.reply()
	if string(m["method"]) != `"notifications/cancelled"` || string(m["params"]) != `{"requestId":"`+id+`"}` {
		t.Errorf("the host is told %v", m)
	}
	p.send(`{"jsonrpc":"2.0","id":"%s","result":{}}`, id)
	p.send(`{"jsonrpc":"2.0","id":1,"method":"ping","params":{}}`)
	if m := p.reply(); string(m["id"]) != "1" {
		t.Errorf("after a late answer: %v", m)
	}
}

// At the end of input no answer can come any more: questions end, and a new
// one is not asked.
func TestTheEndOfInputEndsQuestions(t *testing.T) {
	p := connect(t, echo)
	_, came := p.ask(t.Context())
	p.in.Close()
	if got := p.came(came); got.err == nil {
		t.Errorf("got %s", got.result)
	}
	if err := <-p.done; err != nil {
		t.Error(err)
	}
	if _, err := p.conn.Ask(t.Context(), "elicitation/create", nil); err == nil {
		t.Error("asked after the end")
	}
}

// A host that does not read what it is asked holds up neither who asks nor the
// end.
func TestAHostThatDoesNotReadIsNotWaitedForByAQuestion(t *testing.T) {
	inR, inW := io.Pipe()
	outR, outW := io.Pipe()
	conn := stdio.New(inR, outW, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- conn.Run(t.Context(), echo) }()
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := conn.Ask(ctx, "elicitation/create", nil); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	inW.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	outR.Close()
}

// A question whose ctx ended before its turn to be written came is not asked.
func TestAQuestionNobodyWaitsForIsNotWritten(t *testing.T) {
	inR, inW := io.Pipe()
	out := &slowWriter{free: make(chan struct{})}
	conn := stdio.New(inR, out, slog.New(slog.DiscardHandler))
	done := make(chan error, 1)
	go func() { done <- conn.Run(t.Context(), echo) }()
	var busy sync.WaitGroup
	busy.Go(func() { _ = conn.Notify("busy", nil) })
	for out.begun() == 0 {
		time.Sleep(time.Millisecond)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := conn.Ask(ctx, "elicitation/create", nil); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	close(out.free)
	busy.Wait()
	inW.Close()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := out.text(); strings.Contains(got, "elicitation") {
		t.Errorf("written: %s", got)
	}
}

// slowWriter takes nothing until free is closed.
type slowWriter struct {
	free chan struct{}

	mu   sync.Mutex
	n    int
	took bytes.Buffer
}

func (w *slowWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.n++
	w.mu.Unlock()
	<-w.free
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took.Write(p)
}

func (w *slowWriter) begun() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.n
}

func (w *slowWriter) text() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.took.String()
}
