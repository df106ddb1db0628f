package remote_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bellman.sh/desktop/internal/remote"
)

const secret = "tok_never_to_be_seen"

// Requests and results travel as they are, numbers and unknown fields included.
func TestACallTravelsByteForByte(t *testing.T) {
	const result = `{"content":[],"unknown":{"n":12345678901234567890,"f":1.50}}`
	s := start(t, after(func(w http.ResponseWriter, _ *http.Request, m request) { reply(w, m, result) }))
	got, err := call(t, client(t, s.URL, remote.Key(secret)))
	if err != nil || string(got) != result {
		t.Errorf("got %s, %v", got, err)
	}
	sent := s.requests("tools/call")[0]
	if !strings.Contains(string(sent.Params), `{"n":12345678901234567890}`) || sent.token != secret {
		t.Errorf("sent %s with token %q", sent.Params, sent.token)
	}
}

// The status has the last word, whatever the body says; nothing in an error
// holds the token.
func TestTheStatusHasTheLastWord(t *testing.T) {
	result := func(w http.ResponseWriter, m request) {
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{}}`, m.ID)
	}
	for _, row := range []struct {
		status int
		body   func(w http.ResponseWriter, m request)
		sent   bool
		detail string
	}{
		{400, result, false, ""},
		{403, func(w http.ResponseWriter, _ request) { _, _ = io.WriteString(w, "no\x1b[31m way\n") }, false, "no [31m way"},
		{405, result, false, ""},
		{302, result, false, ""},
		{429, result, false, ""},
		{500, result, true, ""},
		{502, func(w http.ResponseWriter, _ request) { _, _ = io.WriteString(w, "<html>") }, true, "<html>"},
		{503, func(w http.ResponseWriter, m request) {
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32002,"message":"not configured"}}`, m.ID)
		}, true, "not configured"},
		{504, result, true, ""},
	} {
		t.Run(fmt.Sprint(row.status), func(t *testing.T) {
			s := start(t, after(func(w http.ResponseWriter, _ *http.Request, m request) {
				w.Header().Set("Content-Type", "application/json")
				w.Header().Set("Retry-After", "7")
				w.Header().Set("Location", "http://127.0.0.1:9/")
				w.WriteHeader(row.status)
				row.body(w, m)
			}))
			_, err := call(t, client(t, s.URL, remote.Key(secret)))
			e := serviceError(t, err)
			if e.Status != row.status || e.Sent != row.sent || e.Detail != row.detail || e.RetryAfter != 7*time.Second {
				t.Errorf("got %+v", e)
			}
			if strings.Contains(err.Error(), secret) {
				t.Errorf("the token is in %q", err)
			}
			if n := s.count("tools/call"); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// A 200 that is no answer is an error that leaves open whether the service
// acted: HTML of a captive portal, another request's answer, half an answer. It
// says what is wrong with it, and not that nothing answered.
func TestA200ThatIsNoAnswerIsAnError(t *testing.T) {
	for name, row := range map[string]struct{ kind, body, words string }{
		"captive portal":      {"text/html; charset=utf-8", "<html>log in</html>", "it is text/html and no JSON; the sign-in page of a network, or a proxy, may stand in the service's place"},
		"no content type":     {"", "{}", "it names no content type"},
		"nothing":             {"application/json", "", "it ended too early"},
		"not JSON":            {"application/json", "hello", "it is no JSON-RPC answer"},
		"a batch":             {"application/json", `[{"jsonrpc":"2.0","id":%s,"result":{}}]`, "it is no JSON-RPC answer"},
		"cut short":           {"application/json", `{"jsonrpc":"2.0","id":%s,"resu`, "it ended too early"},
		"neither":             {"application/json", `{"jsonrpc":"2.0","id":%s}`, "it has neither result nor error"},
		"another request's":   {"application/json", `{"jsonrpc":"2.0","id":999999,"result":{}}`, "it belongs to another request"},
		"a notification":      {"application/json", `{"jsonrpc":"2.0","method":"x"}`, "it is no JSON-RPC answer"},
		"an empty stream":     {"text/event-stream", "", "it ended too early"},
		"a stream of nothing": {"text/event-stream", ": hello\n\n", "it ended too early"},
		"a stream, unread":    {"text/event-stream", "data: not json\n\n", "it ended too early"},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, after(func(w http.ResponseWriter, _ *http.Request, m request) {
				w.Header().Set("Content-Type", row.kind)
				_, _ = io.WriteString(w, strings.Replace(row.body, "%s", string(m.ID), 1))
			}))
			got, err := call(t, client(t, s.URL, remote.Key(secret)))
			e := serviceError(t, err)
			if !e.Sent || got != nil {
				t.Errorf("got %s, %+v", got, e)
			}
			if want := "the service's answer cannot be used: " + row.words; e.Error() != want {
				t.Errorf("said %q, want %q", e.Error(), want)
			}
			if n := s.count("tools/call"); n != 1 {
				t.Errorf("sent %d times", n)
			}
		})
	}
}

// An answer may come as a stream, with notifications before it. They are handed
// on in their order and with their bytes, however the stream is cut and its
// lines end; what is no notification is not.
func TestAStreamedAnswer(t *testing.T) {
	const first = `{"progressToken":12345678901234567890123,"progress":1.0,"z":null,"a":"\u003c"}`
	pad := strings.Repeat("x", 300<<10)
	for _, end := range []string{"\n", "\r\n", "\r"} {
		for _, step := range []int{1, 7, 64 << 10} {
			var text strings.Builder
			for _, line := range []string{
				": a comment", "",
				"event: message", "id: 1", `data: {"jsonrpc":"2.0","method":"notifications/progress","params":` + first + `}`, "",
				`data: {"jsonrpc":"2.0",`, `data:"method":"notifications/tools/list_changed"}`, "",
				"data: no JSON", "", `data: {"jsonrpc":"2.0","id":77,"method":"ping"}`, "", "",
			} {
				text.WriteString(line + end)
			}
			s := start(t, after(func(w http.ResponseWriter, _ *http.Request, m request) {
				w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
				for rest := text.String(); rest != ""; {
					n := min(step, len(rest))
					_, _ = io.WriteString(w, rest[:n])
					rest = rest[n:]
					http.NewResponseController(w).Flush()
				}
				_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"too/long\",\"params\":{\"pad\":%q}}\n\n", pad)
				_, _ = fmt.Fprint(w, "data: {\"jsonrpc\":\"2.0\",\"method\":\"last\"}\n\n")
				_, _ = fmt.Fprintf(w, "event: message\ndata: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":{\"pad\":%q}}\n\n", m.ID, pad)
			}))
			var heard []string
			c := client(t, s.URL, remote.Key(secret), func(o *remote.Options) {
				o.Notify = func(method string, params json.RawMessage) { heard = append(heard, method+" "+string(params)) }
			})
			got, err := call(t, c)
			if err != nil || len(got) < len(pad) {
				t.Errorf("got %d bytes, %v", len(got), err)
			}
			if want := []string{"notifications/progress " + first, "notifications/tools/list_changed ", "last "}; !slices.Equal(heard, want) {
				t.Errorf("lines that end in %q, %d bytes at a time: heard %q", end, step, heard)
			}
		}
	}
}

// What a service sends behind its answer is for nobody, and no goroutine stays
// behind to wait for somebody: the end of these tests sees to that.
func TestTheFirstAnswerOfAStreamCounts(t *testing.T) {
	for _, pad := range []string{"", strings.Repeat("x", 300<<10)} {
		for _, end := range []string{"\n", "\r\n"} {
			gone := make(chan struct{})
			s := start(t, after(func(w http.ResponseWriter, r *http.Request, m request) {
				w.Header().Set("Content-Type", "text/event-stream")
				for n := range 5 {
					_, _ = fmt.Fprintf(w, `data: {"jsonrpc":"2.0","id":%s,"result":{"n":%d,"pad":%q}}%s%s`, m.ID, n, pad, end, end)
					http.NewResponseController(w).Flush()
				}
				<-r.Context().Done() // the stream itself never ends
				close(gone)
			}))
			c := client(t, s.URL, remote.Key(secret), func(o *remote.Options) { o.Notify = func(string, json.RawMessage) {} })
			got, err := call(t, c)
			if err != nil || !strings.HasPrefix(string(got), `{"n":0,`) {
				t.Errorf("got %.50s, %v", got, err)
			}
			<-gone
		}
	}
}

// Nothing that a service sends fills the memory.
func TestAnAnswerWithoutEndIsGivenUp(t *testing.T) {
	s := start(t, after(func(w http.ResponseWriter, r *http.Request, m request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":"`, m.ID)
		chunk := strings.Repeat("x", 1<<20)
		for r.Context().Err() == nil {
			if _, err := io.WriteString(w, chunk); err != nil {
				return
			}
		}
	}))
	_, err := call(t, client(t, s.URL, remote.Key(secret)))
	if e := serviceError(t, err); !e.Sent || !strings.Contains(e.Error(), "larger than") {
		t.Errorf("got %v", e)
	}
}

// An error of the protocol is passed on with its code and data.
func TestAnErrorOfTheProtocolIsPassedOn(t *testing.T) {
	s := start(t, after(func(w http.ResponseWriter, _ *http.Request, m request) {
		w.Header().Set("Content-Type", "application/json")
		_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"error":{"code":-32602,"message":"bad","data":{"a":1}}}`, m.ID)
	}))
	_, err := call(t, client(t, s.URL, remote.Key(secret)))
	e, ok := errors.AsType[*remote.RPCError](err)
	if !ok || e.Code != -32602 || e.Message != "bad" || e.Data == nil {
		t.Errorf("got %v", err)
	}
}

// A connection the service no longer knows is made anew, once, and the call
// repeated: it was not processed. 404, or 400 that names the session
// (peers.md E8).
func TestALostConnectionIsMadeAnewOnce(t *testing.T) {
	for name, lost := range map[string]func(w http.ResponseWriter, m request){
		"404": func(w http.ResponseWriter, _ request) { w.WriteHeader(http.StatusNotFound) },
		"400 as text": func(w http.ResponseWriter, _ request) {
			http.Error(w, "Bad Request: no valid session ID provided", http.StatusBadRequest)
		},
		"400 as JSON": func(w http.ResponseWriter, _ request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(http.StatusBadRequest)
			_, _ = io.WriteString(w, `{"jsonrpc":"2.0","error":{"code":-32000,"message":"Session expired"},"id":null}`)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var session atomic.Int64
			s := start(t, func(w http.ResponseWriter, r *http.Request, m request) {
				if m.Method == "initialize" {
					w.Header().Set("Mcp-Session-Id", fmt.Sprint(session.Add(1)))
					welcome(w, m)
					return
				}
				if r.Header.Get("Mcp-Session-Id") != "2" {
					lost(w, m)
					return
				}
				reply(w, m, `{}`)
			})
			c := client(t, s.URL, remote.Key(secret))
			var calls sync.WaitGroup
			for range 8 {
				calls.Go(func() {
					if _, err := call(t, c); err != nil {
						t.Error(err)
					}
				})
			}
			calls.Wait()
			if n := s.count("initialize"); n != 2 {
				t.Errorf("%d handshakes", n)
			}
		})
	}
}

// A service that keeps forgetting is not asked for ever.
func TestAServiceThatAlwaysForgetsIsAskedTwice(t *testing.T) {
	s := start(t, after(func(w http.ResponseWriter, _ *http.Request, _ request) { w.WriteHeader(http.StatusNotFound) }))
	_, err := call(t, client(t, s.URL, remote.Key(secret)))
	if e := serviceError(t, err); e.Status != http.StatusNotFound || e.Sent {
		t.Errorf("got %+v", e)
	}
	if n := s.count("tools/call"); n != 2 {
		t.Errorf("asked %d times", n)
	}
}

// What fails before the handshake is done has sent nothing of the call.
func TestAFailedHandshakeHasSentNothing(t *testing.T) {
	for name, answer := range map[string]func(w http.ResponseWriter, m request){
		"404":            func(w http.ResponseWriter, _ request) { w.WriteHeader(http.StatusNotFound) },
		"500":            func(w http.ResponseWriter, _ request) { w.WriteHeader(http.StatusInternalServerError) },
		"captive portal": func(w http.ResponseWriter, _ request) { _, _ = io.WriteString(w, "<html>") },
		"no MCP":         func(w http.ResponseWriter, m request) { reply(w, m, `{"hello":1}`) },
		"a version that fits no header": func(w http.ResponseWriter, m request) {
			reply(w, m, `{"protocolVersion":"2025-06-18\r\nX: y","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`)
		},
		"redirect": func(w http.ResponseWriter, _ request) {
			w.Header().Set("Location", "http://127.0.0.1:9/mcp")
			w.WriteHeader(http.StatusTemporaryRedirect)
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(w http.ResponseWriter, _ *http.Request, m request) { answer(w, m) })
			c := client(t, s.URL, remote.Key(secret))
			_, err := call(t, c)
			if e := serviceError(t, err); e.Sent {
				t.Errorf("got %+v", e)
			}
			if n := s.count("tools/call"); n != 0 {
				t.Errorf("%d calls were sent", n)
			}
			s.answer = after(func(w http.ResponseWriter, _ *http.Request, m request) { reply(w, m, `{}`) })
			if _, err := call(t, c); err != nil {
				t.Errorf("the next call: %v", err)
			}
		})
	}
}

// A port nobody listens on is said at once, and nothing was sent.
func TestAServiceThatIsDownIsSaidAtOnce(t *testing.T) {
	l := listen(t)
	address := l.Addr().String()
	_ = l.Close()
	_, err := call(t, client(t, "http://"+address, remote.Key(secret)))
	if e := serviceError(t, err); e.Sent || e.Status != 0 || !strings.Contains(e.Error(), "refused") {
		t.Errorf("got %v", e)
	}
}

// A reply that is lost after the service acted is not asked for again.
func TestALostReplyIsNotRepeated(t *testing.T) {
	s := start(t, after(func(http.ResponseWriter, *http.Request, request) { panic(http.ErrAbortHandler) }))
	_, err := call(t, client(t, s.URL, remote.Key(secret)))
	if e := serviceError(t, err); !e.Sent || e.Error() != "the service cannot be reached: the connection ended without an answer" {
		t.Errorf("got %+v", e)
	}
	if n := s.count("tools/call"); n != 1 {
		t.Errorf("sent %d times", n)
	}
}

// The end of a call's context is told to the service by the request's id.
func TestACancelledCallIsCancelledUpstream(t *testing.T) {
	got := make(chan request, 1)
	s := start(t, after(func(w http.ResponseWriter, r *http.Request, m request) {
		if m.Method == "notifications/cancelled" {
			w.WriteHeader(http.StatusAccepted)
			got <- m
			return
		}
		<-r.Context().Done()
	}))
	c := client(t, s.URL, remote.Key(secret))
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	_, err := c.Call(ctx, "tools/call", nil)
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
	m := <-got
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if err := json.Unmarshal(m.Params, &p); err != nil || string(p.RequestID) != string(s.requests("tools/call")[0].ID) {
		t.Errorf("cancelled %s of %s", m.Params, s.requests("tools/call")[0].ID)
	}
}

// Calls that share a handshake leave it one by one; the last takes it along.
func TestAHandshakeEndsWithItsLastWaiter(t *testing.T) {
	arrived, gone := make(chan struct{}), make(chan struct{})
	s := start(t, func(_ http.ResponseWriter, r *http.Request, _ request) {
		close(arrived)
		<-r.Context().Done()
		close(gone)
	})
	c := client(t, s.URL, remote.Key(secret))
	first, leave := context.WithCancel(t.Context())
	second, cancel := context.WithCancel(t.Context())
	defer cancel()
	done := make(chan error, 2)
	go func() { _, err := c.Call(first, "tools/list", nil); done <- err }()
	<-arrived
	go func() { _, err := c.Call(second, "tools/list", nil); done <- err }()
	time.Sleep(50 * time.Millisecond)
	leave()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	select {
	case <-gone:
		t.Error("the handshake ended although a call waits for it")
	case <-time.After(100 * time.Millisecond):
	}
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	<-gone
}
