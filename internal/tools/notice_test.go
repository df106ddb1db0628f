package tools_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"bellman.sh/desktop/internal/tools"
)

// streaming is a service that answers a call with a stream: before first, the
// result once more is closed.
func streaming(t *testing.T, before func(q request) string, more <-chan struct{}) string {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		body, _ := io.ReadAll(req.Body)
		q := readRequest(body)
		result := `{"content":[]}`
		switch {
		case q.ID == nil:
			w.WriteHeader(http.StatusAccepted)
			return
		case q.Method == "initialize":
			result = `{"protocolVersion":"2025-06-18","capabilities":{},"serverInfo":{"name":"s","version":"1"}}`
		}
		w.Header().Set("Content-Type", "text/event-stream")
		if q.Method == "tools/call" {
			_, _ = fmt.Fprintf(w, "data: %s\n\n", before(q))
			http.NewResponseController(w).Flush()
			<-more
		}
		_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", q.ID, result)
	}))
	t.Cleanup(s.Close)
	return s.URL + "/mcp"
}

// Progress of the service reaches the host while the call goes on, under the
// token the host gave, whatever number that is.
func TestProgressPasses(t *testing.T) {
	for _, token := range []string{`"tok"`, `12345678901234567890123`, `1.0`} {
		more := make(chan struct{})
		r := newRig(t, streaming(t, func(q request) string {
			var p struct {
				Meta struct {
					Token json.RawMessage `json:"progressToken"`
				} `json:"_meta"`
			}
			_ = json.Unmarshal(q.Params, &p)
			return `{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":` + string(p.Meta.Token) + `,"progress":1.0,"message":"half"}}`
		}, more), "key")
		done := make(chan tools.Answer, 1)
		go func() {
			done <- r.Handle(t.Context(), tools.Call{Method: "tools/call", Tool: "slow_tool", Params: json.RawMessage(`{"name":"slow_tool","_meta":{"progressToken":` + token + `}}`)})
		}()
		n := r.waitNote("notifications/progress")
		close(more)
		if want := `{"progressToken":` + token + `,"progress":1.0,"message":"half"}`; string(n.params) != want {
			t.Errorf("progress %s, want %s", n.params, want)
		}
		if a := <-done; a.Error != nil {
			t.Errorf("token %s: %+v", token, a.Error)
		}
	}
}

// A service that says its tools are others is asked for them, and the host is
// told; one that says so with every answer is not asked again and again.
func TestANoticeOfOtherToolsRefreshesTheList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		names, asked := "first", 0
		h := http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			q := readRequest(body)
			result := `{"protocolVersion":"2025-06-18","content":[]}`
			if q.ID == nil {
				w.WriteHeader(http.StatusAccepted)
				return
			}
			if q.Method == "tools/list" {
				result = toolJSON("bellman_sync", names)
				asked++
			}
			w.Header().Set("Content-Type", "text/event-stream")
			if q.Method != "initialize" {
				_, _ = fmt.Fprint(w, `data: {"jsonrpc":"2.0","method":"notifications/tools/list_changed"}`+"\n\n")
			}
			_, _ = fmt.Fprintf(w, "data: {\"jsonrpc\":\"2.0\",\"id\":%s,\"result\":%s}\n\n", q.ID, result)
		})
		r := inBubble(t, h)
		for turn, want := range []string{"first", "second", "third"} {
			names = want
			for range 20 {
				r.ok("some_tool", nil, nil)
			}
			synctest.Wait()
			if _, listed := r.tools()[want]; !listed || asked != turn+1 || len(r.notes) != turn+1 {
				t.Errorf("turn %d: listed %v, the service asked %d times, the host told %d times", turn, r.names(), asked, len(r.notes))
			}
			time.Sleep(11 * time.Second)
		}
	})
}

// A service that cannot tell its tools is asked again after a while, not with
// every call.
func TestAServiceThatCannotListIsLeftAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		asked := 0
		r := inBubble(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			w.Header().Set("Content-Type", "application/json")
			q := readRequest(body)
			if q.Method == "tools/list" {
				asked++
			}
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","content":[],"tools":[]}}`, q.ID)
		}))
		for turn := range 3 {
			for range 5 {
				r.ok("some_tool", nil, nil)
				synctest.Wait()
			}
			if asked != turn+1 {
				t.Errorf("turn %d: asked %d times", turn, asked)
			}
			time.Sleep(61 * time.Second)
		}
	})
}
