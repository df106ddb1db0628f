package hub_test

import (
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// Case 50: a frozen room keeps its history and its members and takes nothing
// new; a thaw brings everything back.
func TestFreeze(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, swarm)
	b := s.As(hubtest.Peer).Join(t, a.Code)
	a.Say(t, "before")
	token := preview(t, s.As(hubtest.Outsider), a.Code)
	if err := s.Hub.Freeze(t.Context(), a.Room); err != nil {
		t.Fatal(err)
	}
	for tool, call := range map[string]args{
		bellman.ToolSend:   sending(a, "message", args{"text": "x"}),
		bellman.ToolInvite: a.Ref(),
		bellman.ToolEvict:  b.Ref(),
	} {
		a.Refused(t, tool, call, "frozen", "plan")
	}
	s.As(hubtest.Outsider).Refused(t, bellman.ToolConfirm, confirming(token), "frozen", "plan")
	s.As(hubtest.Outsider).OK(t, bellman.ToolConnect, args{"join_code": a.Code}, nil)
	if got := b.Sync(t, b.Cursor); got.SessionStatus != "frozen" || len(got.Events) != 1 {
		t.Errorf("sync of a frozen room: %s %v", got.SessionStatus, got.Types())
	}
	if status, _ := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "x", "", "x"); status != http.StatusConflict {
		t.Errorf("upload: %d, want 409", status)
	}
	if got := b.OK(t, bellman.ToolLeave, b.Ref(), nil); !strings.Contains(string(got.Structured), "frozen") {
		t.Errorf("leave: %s, want frozen", got.Structured)
	}
	s.Clock.Advance(time.Hour)
	if err := s.Hub.Thaw(t.Context(), a.Room); err != nil {
		t.Fatal(err)
	}
	c := s.As(hubtest.Peer).Join(t, a.Invite(t, ""))
	a.Say(t, "after")
	if got := c.Sync(t, c.Cursor); got.SessionStatus != "active" || len(got.Events) != 1 {
		t.Errorf("after the thaw: %s %v", got.SessionStatus, got.Types())
	}
}

// A freeze does not wake a poll: it runs out its time and then says frozen.
func TestFreezeDoesNotWakeAPoll(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	answers := make(chan hubtest.Result, 1)
	go func() {
		r, _ := b.Call(t.Context(), bellman.ToolSync, b.Ref().With(args{"since_cursor": b.Cursor, "wait_seconds": 2}))
		answers <- r
	}()
	time.Sleep(100 * time.Millisecond)
	if err := s.Hub.Freeze(t.Context(), a.Room); err != nil {
		t.Fatal(err)
	}
	select {
	case r := <-answers:
		t.Errorf("woken with %s", r.Structured)
	case <-time.After(300 * time.Millisecond):
	}
	if r := <-answers; !strings.Contains(string(r.Structured), `"session_status":"frozen"`) {
		t.Errorf("ended with %s", r.Structured)
	}
}

// reporting is a room in which the creator and its helpers report.
var reporting = args{
	"room": "r", "mode": "swarm", "heartbeat": "10m", "default_role": "helper", "creator_role": "lead",
	"roles": args{
		"lead":   args{"can": []string{"send", "invite", "revoke"}, "heartbeat_on": true},
		"helper": args{"can": []string{"send"}, "heartbeat_on": "say what you are at"},
		"guest":  args{"can": []string{}},
	},
}

// beats are the heartbeats a seat sees.
func beats(t *testing.T, s *hubtest.Seat) []bellman.Event {
	t.Helper()
	var found []bellman.Event
	for _, e := range s.Sync(t, 0).Events {
		if e.Data.Type == "heartbeat" {
			found = append(found, e.Data)
		}
	}
	return found
}

// A reporting member is asked when its cadence has passed, once for each; a
// report puts it off.
func TestHeartbeat(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, reporting)
	b := s.As(hubtest.Peer).Join(t, a.Code)
	tick := func(d time.Duration) int {
		t.Helper()
		s.Clock.Advance(d)
		if err := s.Hub.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		return len(beats(t, a))
	}
	if n := tick(9 * time.Minute); n != 0 {
		t.Fatalf("%d heartbeats before anybody is due", n)
	}
	if n := tick(2 * time.Minute); n != 1 {
		t.Fatalf("%d heartbeats after 11 minutes, want 1", n)
	}
	if n := tick(5 * time.Minute); n != 1 {
		t.Fatalf("%d heartbeats while the asked ones have time, want 1", n)
	}
	b.Send(t, "progress", args{"note": "at it"})
	if n := tick(6 * time.Minute); n != 2 {
		t.Fatalf("%d heartbeats one cadence later, want 2", n)
	}
	var p struct {
		Cadence      int                                  `json:"cadence_seconds"`
		Ask          string                               `json:"ask"`
		Instructions *bellman.Envelope[map[string]string] `json:"instructions"`
		Members      []struct {
			ID     string  `json:"member_id"`
			Last   *string `json:"last_report_at"`
			For    int     `json:"silent_for_seconds"`
			Silent bool    `json:"silent"`
		} `json:"members"`
	}
	e := beats(t, a)[1]
	decode(t, string(e.Payload), &p)
	if p.Cadence != 600 || p.Ask == "" || p.Instructions == nil || p.Instructions.Data["helper"] != "say what you are at" ||
		p.Instructions.Origin.MemberID != a.Member || e.Ambient || e.From.MemberID != "system" {
		t.Errorf("heartbeat %s", e.Payload)
	}
	if len(p.Members) != 2 || !p.Members[0].Silent || p.Members[0].Last != nil || p.Members[1].Silent || p.Members[1].Last == nil {
		t.Errorf("members %+v, want the creator silent for 22 minutes and the helper not", p.Members)
	}
	if err := s.Hub.Freeze(t.Context(), a.Room); err != nil {
		t.Fatal(err)
	}
	if n := tick(time.Hour); n != 2 {
		t.Errorf("%d heartbeats in a frozen room, want 2", n)
	}
}

// Housekeeping points out each silence once, and again while it lasts.
func TestHousekeeping(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, args{
		"room": "r", "preset": "pair", "housekeeping": args{"quiet_after": "20m", "answer_within": "10m", "idle_after": "1h", "repeat_after": "1h"},
	}, args{"capabilities": []string{"receive_messages", "request_actions"}})
	b := s.As(hubtest.Peer).Join(t, a.Code, args{"capabilities": []string{"receive_messages", "request_actions"}})
	ask := a.Send(t, "action_request", args{"ask": "x"})
	found := func(d time.Duration) []string {
		t.Helper()
		s.Clock.Advance(d)
		a.Sync(t, 0) // The creator is there all the time.
		if err := s.Hub.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
		var list []string
		for _, e := range a.Sync(t, ask).Events {
			var p struct {
				Finding string
				About   json.RawMessage
				Repeat  int
			}
			decode(t, string(e.Data.Payload), &p)
			list = append(list, p.Finding+" "+string(p.About)+" "+itoa(int64(p.Repeat)))
		}
		return list
	}
	if got := found(9 * time.Minute); len(got) != 0 {
		t.Fatalf("after 9 minutes: %v", got)
	}
	unanswered := `request_unanswered {"cursor":` + itoa(ask) + `} 1`
	if got := found(2 * time.Minute); !slices.Equal(got, []string{unanswered}) {
		t.Fatalf("after 11 minutes: %v", got)
	}
	quiet := `member_quiet {"member_id":"` + b.Member + `"} 1`
	if got := found(10 * time.Minute); !slices.Equal(got, []string{unanswered, quiet}) {
		t.Fatalf("after 21 minutes: %v", got)
	}
	want := []string{unanswered, quiet, "room_idle  1"}
	if got := found(40 * time.Minute); !slices.Equal(got, want) {
		t.Fatalf("after 61 minutes: %v, want %v", got, want)
	}
	if got := found(15 * time.Minute); !slices.Equal(got, append(want, strings.Replace(unanswered, "} 1", "} 2", 1))) {
		t.Fatalf("after 76 minutes: %v", got)
	}
}

// Nobody seen for ninety days closes a room with an event; a closed one is
// forgotten after its plan's time, with its files, but not its audit rows.
func TestAbandonedAndPurged(t *testing.T) {
	data := t.TempDir()
	s := hubtest.Start(t, func(c *hub.Config) { c.Data = data })
	a := s.As(hubtest.Peer).Open(t, nil)
	_, shown := uploadTo(t, s, hubtest.Peer, a.Room, a.Member, "shown", "", "x")
	_, lost := uploadTo(t, s, hubtest.Peer, a.Room, a.Member, "lost", "", "y")
	a.Send(t, "surface", args{"key": "f", "kind": "file", "blob": args{"id": shown.ID}})
	sweep := func(d time.Duration) {
		t.Helper()
		s.Clock.Advance(d)
		if err := s.Hub.Sweep(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	sweep(89 * 24 * time.Hour)
	if got := a.Sync(t, 0); got.SessionStatus != "active" {
		t.Fatalf("after 89 days: %s", got.SessionStatus)
	}
	sweep(90*24*time.Hour + time.Minute)
	got := a.Sync(t, 0)
	if got.SessionStatus != "closed" || !slices.Contains(got.Types(), "session_expired") {
		t.Fatalf("abandoned: %s %v", got.SessionStatus, got.Types())
	}
	files := func() int {
		found, err := filepath.Glob(filepath.Join(data, "blobs", "*", "*"))
		if err != nil {
			t.Fatal(err)
		}
		return len(found)
	}
	path := "/rooms/" + a.Room + "/blobs/"
	as := map[string]string{"Authorization": "Bearer " + hubtest.Peer}
	if response, _ := do(t, s, http.MethodGet, path+lost.ID, "", as); response.StatusCode != 404 || files() != 1 {
		t.Errorf("a file no item shows: %d, %d files", response.StatusCode, files())
	}
	if response, _ := do(t, s, http.MethodGet, path+shown.ID, "", as); response.StatusCode != 200 {
		t.Errorf("a file that is shown: %d", response.StatusCode)
	}
	sweep(7 * 24 * time.Hour)
	a.Refused(t, bellman.ToolSync, a.Ref(), "not found")
	if files() != 0 {
		t.Errorf("%d files are left", files())
	}
	audit := s.As(hubtest.Jesse).OK(t, bellman.ToolAudit, args{}, nil)
	for _, action := range []string{"session_created", "room_purged"} {
		if !strings.Contains(audit.Text, action) {
			t.Errorf("audit lacks %s", action)
		}
	}
}

// A closed room can be deleted at once by who created it; the sockets still
// open on it are told.
func TestDeleteRoom(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	conn, _, err := dial(t, s, hubtest.Peer, b.Room, "0")
	if err != nil {
		t.Fatal(err)
	}
	del := func(token string) int {
		response, _ := do(t, s, http.MethodDelete, "/rooms/"+a.Room, "", map[string]string{"Authorization": "Bearer " + token})
		return response.StatusCode
	}
	for token, want := range map[string]int{hubtest.Jesse: 409, hubtest.Peer: 403, hubtest.Outsider: 404} {
		if got := del(token); got != want {
			t.Errorf("open room, %s: %d, want %d", token, got, want)
		}
	}
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	a.OK(t, bellman.ToolLeave, a.Ref(), nil)
	if got := del(hubtest.Jesse); got != http.StatusAccepted {
		t.Fatalf("closed room: %d, want 202", got)
	}
	if code := closing(t, conn); code != 1000 {
		t.Errorf("socket closed with %d, want 1000", code)
	}
	a.Refused(t, bellman.ToolSync, a.Ref(), "not found")
	a.Refused(t, bellman.ToolLeave, a.Ref(), "not found")
	if got := del(hubtest.Jesse); got != http.StatusNotFound {
		t.Errorf("again: %d, want 404", got)
	}
}

// Too many requests with one credential are refused, and another's go on.
func TestRate(t *testing.T) {
	s := hubtest.Start(t, func(c *hub.Config) { c.Rate = 2 })
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	refused := 0
	for range 15 {
		response, _ := post(t, s, hubtest.Peer, ping)
		if response.StatusCode == http.StatusTooManyRequests {
			refused++
			if response.Header.Get("Retry-After") == "" {
				t.Error("no Retry-After")
			}
		}
	}
	if refused == 0 {
		t.Error("no request was refused")
	}
	if response, _ := post(t, s, hubtest.Jesse, ping); response.StatusCode != http.StatusOK {
		t.Errorf("another credential: %d", response.StatusCode)
	}
}

// What an operator watches counts calls, and names nothing of theirs.
func TestMetrics(t *testing.T) {
	s := hubtest.Start(t)
	a, _ := pair(t, s)
	a.Say(t, "x")
	a.Refused(t, bellman.ToolSync, args{"session_id": "qs_secret_name", "member_id": a.Member})
	_, body := do(t, s, http.MethodGet, "/metrics", "", nil)
	for _, line := range []string{
		`bellman_hub_tool_calls_total{outcome="ok",tool="bellman_send"} 1`,
		`bellman_hub_tool_calls_total{outcome="error",tool="bellman_sync"} 1`,
		`bellman_hub_requests_total{code="200",route="mcp"}`,
	} {
		if !strings.Contains(body, line) {
			t.Errorf("metrics lack %s", line)
		}
	}
	if strings.Contains(body, a.Room) || strings.Contains(body, "secret_name") {
		t.Error("metrics name a room")
	}
	public := hubtest.Start(t, func(c *hub.Config) { c.PublicURL = "https://bell.example.com" })
	for token, want := range map[string]int{"wrong": 403, hubtest.Peer: 403, hubtest.Jesse: 200} {
		response, _ := do(t, public, http.MethodGet, "/metrics", "", map[string]string{"Host": "bell.example.com", "Authorization": "Bearer " + token})
		if response.StatusCode != want {
			t.Errorf("on a public hub as %s: %d, want %d", token, response.StatusCode, want)
		}
	}
}
