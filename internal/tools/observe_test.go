package tools_test

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// seats is what the queue has been told of, with where each watch starts.
func (r *rig) seats() map[queue.Member]int64 {
	r.t.Helper()
	all, err := r.queue.Memberships(r.t.Context(), jesse)
	if err != nil {
		r.t.Fatal(err)
	}
	seats := map[queue.Member]int64{}
	for _, m := range all {
		seats[m.Member] = m.Fetched
	}
	return seats
}

// A room is noted by the calls that show a seat in it, each from its own
// cursor, and by no other.
func TestWhichCallsNoteARoom(t *testing.T) {
	h := hubtest.Start(t)
	owner := h.As(hubtest.Peer).Open(t, nil)
	owner.Send(t, "progress", hubtest.Args{"note": "alone so far"})
	r := newRig(t, h.URL+"/mcp", hubtest.Jesse)
	var preview struct {
		Token string `json:"connect_token"`
	}
	r.ok("bellman_connect", args{"join_code": owner.Code}, &preview)
	if n := len(r.seats()); n != 0 {
		t.Fatalf("a preview noted %d rooms", n)
	}
	var seat struct {
		SessionID string `json:"session_id"`
		MemberID  string `json:"member_id"`
		Cursor    int64
	}
	r.ok("bellman_confirm", args{"connect_token": preview.Token, "brief": hubtest.Brief("g")}, &seat)
	m := queue.Member{Room: seat.SessionID, ID: seat.MemberID}
	if at, known := r.seats()[m]; !known || at != seat.Cursor || at == 0 {
		t.Errorf("confirmed at %d, noted %v from %d", seat.Cursor, known, at)
	}

	other := newRig(t, h.URL+"/mcp", hubtest.Jesse) // a machine that has not seen the seat
	ref := args{"room_id": m.Room, "member_id": m.ID}
	for _, tool := range []string{"bellman_rooms", "bellman_surface", "bellman_audit"} {
		other.ok(tool, ref, nil)
	}
	other.call("bellman_invite", ref)
	other.call("bellman_evict", args{"session_id": m.Room, "member_id": owner.Member})
	other.refused("bellman_send", args{"session_id": m.Room, "member_id": m.ID, "type": "message", "payload": args{}, "ref_id": 7})
	if n := len(other.seats()); n != 0 {
		t.Fatalf("calls that show no seat noted %v", other.seats())
	}
	var sent struct{ Cursor int64 }
	other.ok("bellman_send", args{"room_id": m.Room, "member_id": m.ID, "type": "message", "payload": args{"text": "x"}}, &sent)
	if at, known := other.seats()[m]; !known || at != sent.Cursor {
		t.Errorf("sent at %d, noted %v from %d", sent.Cursor, known, at)
	}
	owner.Say(t, "y")
	other.ok("bellman_send", args{"session_id": m.Room, "member_id": m.ID, "type": "message", "payload": args{"text": "z"}}, nil)
	if at := other.seats()[m]; at != sent.Cursor {
		t.Errorf("a second send moved the watch to %d", at)
	}
}

// Whatever arguments a local tool gets, it answers with JSON a host can read.
func FuzzLocalArguments(f *testing.F) {
	for _, seed := range []string{
		`{}`, `null`, `[]`, `{"wait_seconds":0}`, `{"wait_seconds":-1e308,"session_id":null}`, `{"path":"../../etc/passwd","key":"k","member_id":"m","room_id":"r"}`,
		`{"path":"/","path":7}`, `{"placement":{"x":1e999}}`,
	} {
		f.Add(seed)
	}
	root := f.TempDir()
	r := offline(f, func(c *tools.Config) { c.Upload.Root = root })
	r.who.Store(nil) // so that no wait waits
	f.Fuzz(func(t *testing.T, given string) {
		if !json.Valid([]byte(given)) {
			return
		}
		for _, tool := range []string{"bellman_wait", "bellman_whoami", "bellman_upload"} {
			p := json.RawMessage(`{"name":"` + tool + `","arguments":` + given + `}`)
			a := r.Handle(t.Context(), tools.Call{Method: "tools/call", Tool: tool, Params: p})
			if a.Error != nil || !json.Valid(a.Result) {
				t.Fatalf("%s %s: %s %+v", tool, given, a.Result, a.Error)
			}
		}
	})
}

// Who was removed learns of it from the event as well as from the flag; only
// the service's own record of one's own seat counts.
func TestARemovalIsReadFromItsEvent(t *testing.T) {
	r, fixed, _ := answering(t)
	for seat, c := range map[string]struct {
		kind, of string
		ends     bool
	}{
		"m_1": {"message", "m_1", false},
		"m_2": {"member_evicted", "m_1", false},
		"m_3": {"member_timed_out", "m_1", false},
		"m_4": {"member_evicted", "m_4", true},
		"m_5": {"member_timed_out", "m_5", true},
	} {
		m := queue.Member{Room: "qs_1", ID: seat}
		if _, err := r.queue.Touch(t.Context(), jesse, m, 0); err != nil {
			t.Fatal(err)
		}
		page := `{"content":[],"structuredContent":{"cursor":1,"session_status":"active","events":[{"trust":"untrusted","origin":{},"data":` +
			`{"cursor":1,"type":"` + c.kind + `","from":{"member_id":"system","label":"s"},"payload":{"member_id":"` + c.of + `"},"ref_id":null,"at":"t"}}]}}`
		fixed.Store(&page)
		r.ok("bellman_sync", args{"session_id": m.Room, "member_id": m.ID}, nil)
		all, err := r.queue.Memberships(t.Context(), jesse)
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range all {
			if k.Member == m && (k.Ended != "") != c.ends {
				t.Errorf("%s, after %s of %s: ended %q", seat, c.kind, c.of, k.Ended)
			}
		}
	}
}

// Whatever call concerns a room keeps it watched: the time after which nobody
// wants it begins anew.
func TestCallsKeepARoomWatched(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := inBubble(t, http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			body, _ := io.ReadAll(req.Body)
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"protocolVersion":"2025-06-18","content":[],"structuredContent":{"cursor":1,"events":[]}}}`, readRequest(body).ID)
		}))
		m := queue.Member{Room: "qs_1", ID: "m_1"}
		if _, err := r.queue.Touch(t.Context(), jesse, m, 1); err != nil {
			t.Fatal(err)
		}
		for _, tool := range []string{"bellman_sync", "bellman_send", "bellman_confirm", "bellman_start"} {
			time.Sleep(2 * time.Minute) // a touch sooner than that is not written down
			began := time.Now()
			r.ok(tool, args{"session_id": m.Room, "member_id": m.ID, "since_cursor": 1}, nil)
			all, err := r.queue.Memberships(t.Context(), jesse)
			if err != nil || len(all) != 1 || all[0].Touched.Before(began) {
				t.Errorf("%s at %s: %+v, %v", tool, began, all, err)
			}
		}
	})
}

// A refusal shows no seat, whatever handles it holds.
func TestARefusalNotesNoRoom(t *testing.T) {
	r, fixed, _ := answering(t)
	refusal := `{"isError":true,"content":[{"type":"text","text":"Error: no"}],"structuredContent":{"session_id":"qs_1","member_id":"m_1","cursor":7}}`
	fixed.Store(&refusal)
	for _, tool := range []string{"bellman_start", "bellman_confirm", "bellman_send", "bellman_sync", "bellman_leave"} {
		r.call(tool, args{"session_id": "qs_1", "member_id": "m_1"})
		if seats := r.seats(); len(seats) != 0 {
			t.Errorf("%s noted %v", tool, seats)
		}
	}
}
