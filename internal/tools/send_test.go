package tools_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// A send whose answer is lost is repeated under a key and stored once.
func TestASendWhoseAnswerIsLostIsStoredOnce(t *testing.T) {
	for name, happens := range map[string]fault{"after the hub acted": dropped, "before": cutOff, "at a gateway": unavailable} {
		t.Run(name, func(t *testing.T) {
			j, f := behindFront(t)
			f.set(onTool("bellman_send", 1, happens))
			var sent struct{ Cursor int64 }
			j.ok("bellman_send", j.seat(args{"type": "message", "payload": args{"text": "once"}}), &sent)
			if got := j.peer.Sync(t, j.peer.Cursor); len(got.Events) != 1 || got.Events[0].Data.Cursor != sent.Cursor {
				t.Errorf("the peer sees %+v, want the one message", got.Events)
			}
			calls := f.calls("bellman_send")
			if len(calls) != 2 || key(t, calls[0]) == "" || key(t, calls[0]) != key(t, calls[1]) {
				t.Errorf("the hub was called %d times", len(calls))
			}
		})
	}
}

func key(tb testing.TB, q request) string {
	tb.Helper()
	var p struct {
		Arguments struct {
			Key string `json:"idempotency_key"`
		}
	}
	if err := json.Unmarshal(q.Params, &p); err != nil {
		tb.Fatal(err)
	}
	return p.Arguments.Key
}

func TestTheAgentsOwnKeyIsKept(t *testing.T) {
	j, f := behindFront(t)
	f.set(nil)
	j.ok("bellman_send", j.seat(args{"type": "message", "payload": args{"text": "x"}, "idempotency_key": "mine-0001"}), nil)
	if calls := f.calls("bellman_send"); len(calls) != 1 || key(t, calls[0]) != "mine-0001" {
		t.Errorf("calls %s", calls)
	}
	for _, odd := range []any{nil, 7} { // the service refuses it; no key of ours stands in
		f.set(nil)
		j.call("bellman_send", j.seat(args{"type": "message", "payload": args{"text": "x"}, "idempotency_key": odd}))
		if calls := f.calls("bellman_send"); len(calls) != 1 || strings.Contains(string(calls[0].Params), "bridge-") {
			t.Errorf("with key %v: %s", odd, calls)
		}
	}
}

// An outcome that stays unknown gives the key, and the same call with it is
// stored once.
func TestAnUnknownOutcomeReturnsTheKeyToUseAgain(t *testing.T) {
	j, f := behindFront(t)
	f.set(onTool("bellman_send", 2, dropped))
	send := j.seat(args{"type": "message", "payload": args{"text": "once"}})
	text := j.refused("bellman_send", send, "not known", "bellman_sync", "idempotency_key")
	if n := len(f.calls("bellman_send")); n != 2 {
		t.Fatalf("%d calls, want two", n)
	}
	given := key(t, f.calls("bellman_send")[0])
	if !strings.Contains(text, given) {
		t.Fatalf("%q does not name the key %s", text, given)
	}
	send["idempotency_key"] = given
	var again struct{ Replayed bool }
	j.ok("bellman_send", send, &again)
	if got := j.peer.Sync(t, j.peer.Cursor); len(got.Events) != 1 || !again.Replayed {
		t.Errorf("%d events, replayed %v; want one, repeated", len(got.Events), again.Replayed)
	}
}

// A refusal of the repeat does not say that nothing was stored.
func TestARefusedRepeatIsToldAsPerhapsStored(t *testing.T) {
	for name, refusal := range map[string]string{
		"a result":         `"result":{"isError":true,"content":[{"type":"text","text":"Error: the room is frozen"}]}`,
		"a protocol error": `"error":{"code":-32000,"message":"the room is frozen"}`,
	} {
		t.Run(name, func(t *testing.T) {
			j, f := behindFront(t)
			var n atomic.Int64
			f.set(func(q request) fault {
				switch {
				case q.Tool != "bellman_send":
					return nil
				case n.Add(1) == 1:
					return dropped
				}
				return func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
					w.Header().Set("Content-Type", "application/json")
					_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,%s}`, q.ID, refusal)
				}
			})
			text := j.refused("bellman_send", j.seat(args{"type": "message", "payload": args{"text": "x"}}), "stored", "bellman_sync", "the room is frozen")
			if strings.Contains(text, "Nothing was") {
				t.Errorf("says %q", text)
			}
		})
	}
}

// No other call is sent again once it may have been carried out, and the words
// say which it was.
func TestNoOtherCallIsRepeated(t *testing.T) {
	j, f := behindFront(t)
	for tool, words := range map[string]string{
		"bellman_rooms": "Nothing was changed", "bellman_surface": "Nothing was changed", "bellman_sync": "Nothing was read or lost",
		"bellman_invite": "may have been carried out", "bellman_start": "may have been carried out", "bellman_leave": "may have been carried out",
	} {
		for name, happens := range map[string]fault{"dropped": dropped, "unavailable": unavailable} {
			f.set(onTool(tool, 0, happens))
			a := j.seat(args{"role": "peer_b", "manifest": args{"room": "r", "preset": "pair"}, "brief": hubtest.Brief("g")})
			if tool == "bellman_leave" {
				a["member_id"] = "m_00000000"
			}
			j.refused(tool, a, words)
			if n := len(f.calls(tool)); n != 1 {
				t.Errorf("%s, %s: sent %d times", tool, name, n)
			}
		}
	}
}

func TestAnOutageIsSaidPlainlyAndEndsWithoutARestart(t *testing.T) {
	h := hubtest.Start(t)
	f := newFront(t, h.URL)
	r := newRig(t, nowhere, hubtest.Jesse)
	r.refused("bellman_rooms", nil, "cannot be reached", "Nothing was sent")
	r.refused("bellman_send", args{"session_id": "qs_1", "member_id": "m_1", "type": "message", "payload": args{}}, "Nothing was sent")
	if n := len(r.list()); n != 14 {
		t.Errorf("%d tools listed during an outage", n)
	}
	q := newRig(t, f.URL+"/mcp", hubtest.Jesse)
	f.set(func(request) fault { return unavailable })
	q.refused("bellman_rooms", nil, "503")
	f.set(func(request) fault {
		return func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			http.Error(w, "slow down", http.StatusTooManyRequests)
		}
	})
	q.refused("bellman_rooms", nil, "pause (429)", "Nothing was sent")
	f.set(nil)
	q.ok("bellman_rooms", nil, nil)
}

// A status tells whether to call again: what stands in the way now may be gone
// in a moment, what the call itself is refused for is not.
func TestWhatToDoAfterAStatus(t *testing.T) {
	j, f := behindFront(t)
	for status, words := range map[int][]string{
		http.StatusFound:           {"something else answers in the service's place (302)", "sign-in page of a network", "Nothing was sent."},
		http.StatusBadRequest:      {"400 Bad Request: \\u003cb>no", "Nothing was done", "would be refused again"},
		http.StatusForbidden:       {"403 Forbidden", "Nothing was done", "would be refused again", "bellman_whoami"},
		http.StatusNotFound:        {"no Bellman service answers at the configured URL (404)", "Nothing was sent."},
		http.StatusRequestTimeout:  {"408 Request Timeout", "Nothing was sent. Try again in a moment."},
		http.StatusTooManyRequests: {"pause (429)", "Nothing was sent. Try again in a moment."},
		http.StatusBadGateway:      {"502 Bad Gateway", "Nothing was changed; call again."},
	} {
		f.set(onTool("bellman_rooms", 0, func(w http.ResponseWriter, _ func() *httptest.ResponseRecorder) {
			http.Error(w, "<b>no", status)
		}))
		text := j.refused("bellman_rooms", nil, words...)
		if again := strings.Contains(text, "gain in a moment") || strings.Contains(text, "call again"); again != (status == 408 || status == 429 || status == 502) {
			t.Errorf("%d: %s", status, text)
		}
	}
}

func TestARefusedKeyIsSaidToBeRefused(t *testing.T) {
	h := hubtest.Start(t)
	r := newRig(t, h.URL+"/mcp", "qk_wrong")
	r.refused("bellman_rooms", nil, "refused BELLMAN_KEY", "Nothing was sent")
	if strings.Contains(r.log.String(), "qk_wrong") {
		t.Error("the key is in the log")
	}
}
