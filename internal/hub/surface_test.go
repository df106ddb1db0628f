package hub_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// text is a text item.
func text(key string) args { return args{"key": key, "kind": "text", "body": "x"} }

// surface reads the whole surface of a seat's room.
func surface(t *testing.T, s *hubtest.Seat) (int64, []map[string]any) {
	t.Helper()
	var v struct {
		Surface struct {
			Cursor int64 `json:"cursor"`
			Items  []struct {
				Data map[string]any `json:"data"`
			} `json:"items"`
		} `json:"surface"`
	}
	s.OK(t, bellman.ToolSurface, args{"session_id": s.Room}, &v)
	items := make([]map[string]any, len(v.Surface.Items))
	for i, item := range v.Surface.Items {
		items[i] = item.Data
	}
	return v.Surface.Cursor, items
}

// Cases 26 and 29: a creator alone can write; the event has every optional
// field, the row says when and by whom it was written.
func TestSurfaceWrite(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	var sent struct {
		Members []string `json:"room_members"`
		Cursor  int64    `json:"cursor"`
	}
	a.OK(t, bellman.ToolSend, sending(a, "surface", text("plan")), &sent)
	if sent.Cursor != 1 || sent.Members == nil || len(sent.Members) != 0 {
		t.Errorf("sent %+v", sent)
	}
	b := s.As(hubtest.Peer).Join(t, a.Code)
	got := b.Sync(t, 0)
	want := `{"key":"plan","kind":"text","title":null,"body":"x","ends":null,"placement":null,"blob":null,"shape":null}`
	if e := got.Events[0].Data; string(e.Payload) != want || !e.Ambient || e.Type != "surface" {
		t.Errorf("event %s ambient %t, want %s", e.Payload, e.Ambient, want)
	}
	cursor, items := surface(t, a)
	if cursor != 1 || len(items) != 1 || items[0]["cursor"] != 1.0 || items[0]["at"] == nil || items[0]["title"] != nil {
		t.Errorf("surface at %d: %v", cursor, items)
	}
	audit := a.OK(t, bellman.ToolAudit, args{"limit": 3}, nil)
	if !strings.Contains(audit.Text, "sent_surface") || !strings.Contains(string(audit.Structured), `{"chars":1,"key":"plan","kind":"text"}`) {
		t.Errorf("audit %s", audit.Structured)
	}
}

// Case 27: the last write of a key wins, a removal leaves no row, and removing
// what is not there moves nothing.
func TestSurfaceReplaceAndRemove(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	a.Send(t, "surface", text("plan"))
	second := a.Send(t, "surface", args{"key": "plan", "kind": "text", "body": "y", "title": "t", "ends": nil})
	if cursor, items := surface(t, a); cursor != second || len(items) != 1 || items[0]["body"] != "y" {
		t.Errorf("after a replace: %d %v", cursor, items)
	}
	a.Send(t, "surface", args{"key": "nothing", "remove": true})
	if cursor, _ := surface(t, a); cursor != second {
		t.Errorf("removing nothing moved the cursor to %d", cursor)
	}
	third := a.Send(t, "surface", args{"key": "plan", "remove": true})
	if cursor, items := surface(t, a); cursor != third || len(items) != 0 {
		t.Errorf("after a removal: %d %v", cursor, items)
	}
	b := s.As(hubtest.Peer).Join(t, a.Code)
	events := b.Sync(t, 0).Events
	if string(events[3].Data.Payload) != `{"key":"plan","remove":true}` {
		t.Errorf("removal event %s", events[3].Data.Payload)
	}
}

// Case 28: numbers of a placement come back as they went in, and rows in the
// order of their keys.
func TestSurfaceOrderAndPlacement(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	place := args{"x": json.Number("-40.5"), "y": json.Number("1e6"), "w": 320, "h": 180}
	for _, key := range []string{"pr", "arch", "plan"} {
		a.Send(t, "surface", text(key).With(args{"placement": place}))
	}
	a.Send(t, "surface", args{"key": "c1", "kind": "connector", "ends": args{"from": "pr", "to": "arch"}})
	_, items := surface(t, a)
	keys := make([]string, len(items))
	for i, item := range items {
		keys[i], _ = item["key"].(string)
	}
	if !slices.Equal(keys, []string{"arch", "c1", "plan", "pr"}) {
		t.Errorf("keys %v", keys)
	}
	if !equal(items[0]["placement"], map[string]any{"x": -40.5, "y": 1e6, "w": 320.0, "h": 180.0}) {
		t.Errorf("placement %v", items[0]["placement"])
	}
}

// Cases 30 and 32: what an item may be, at its edges.
func TestSurfaceRules(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	a.Send(t, "surface", text("here"))
	a.Send(t, "surface", text("there"))
	a.Send(t, "surface", args{"key": "line", "kind": "connector", "ends": args{"from": "here", "to": "there"}})
	item := func(kind string, more args) args { return args{"key": "k", "kind": kind}.With(more) }
	box := args{"x": 0, "y": 0, "w": 1, "h": 1}
	bell := "\U0001F514"
	good := []args{
		item("text", args{"body": "x", "title": strings.Repeat("t", 120)}),
		item("text", args{"body": strings.Repeat("b", 8000)}),
		item("text", args{"body": strings.Repeat(bell, 4000)}),
		item("link", args{"body": "HTTPS://EXAMPLE.COM/x"}),
		item("diagram", args{"body": "graph TD"}),
		item("html", args{"body": "<p>hi"}),
		item("connector", args{"ends": args{"from": "here", "to": "there"}, "body": "label"}),
		item("shape", args{"shape": args{"form": "rect"}, "placement": box}),
		item("shape", args{"shape": args{"form": "line", "flip": true, "color": "#AbCdEf"}, "placement": box, "title": "label"}),
	}
	for _, g := range good {
		a.Send(t, "surface", g)
	}
	if _, items := surface(t, a); !strings.Contains(fmt.Sprint(items), "#abcdef") {
		t.Errorf("colour: %v", items)
	}
	bad := map[string]args{
		"surface keys": {"key": "Plan", "kind": "text", "body": "x"},
		"payload.key":  {"kind": "text", "body": "x"},
		"kind":         item("sticky", args{"body": "x"}),
		"extra":        item("text", args{"body": "x", "extra": 1}),
		"cursor":       item("text", args{"body": "x", "cursor": 1}),
		"title":        item("text", args{"body": "x", "title": ""}),
		"title must":   item("text", args{"body": "x", "title": strings.Repeat("t", 121)}),
		"body must":    item("text", args{"body": strings.Repeat("b", 8001)}),
		"8000":         item("text", args{"body": strings.Repeat(bell, 4000) + "x"}),
		"remove":       {"key": "here", "remove": false},
		"removal":      {"key": "here", "remove": true, "kind": "text"},
		"needs a body": item("text", nil),
		"link":         item("link", args{"body": "javascript:alert(1)"}),
		"absolute":     item("link", args{"body": "//example.com"}),
		"2,048":        item("link", args{"body": "https://example.com/" + strings.Repeat("x", 2048)}),
		"nowhere":      item("connector", args{"ends": args{"from": "here", "to": "nowhere"}}),
		"itself":       item("connector", args{"ends": args{"from": "here", "to": "line"}}),
		"different":    item("connector", args{"ends": args{"from": "here", "to": "here"}}),
		"placement":    item("connector", args{"ends": args{"from": "here", "to": "there"}, "placement": box}),
		"no blob":      item("text", args{"body": "x", "blob": args{"id": strings.Repeat("a", 32)}}),
		"hexadecimal":  item("file", args{"blob": args{"id": "A" + strings.Repeat("a", 31)}}),
		"upload it":    item("file", args{"blob": args{"id": strings.Repeat("a", 32)}}),
		"blob has":     item("file", args{"blob": args{"id": strings.Repeat("a", 32), "name": "x"}}),
		"exactly one":  item("html", nil),
		"needs a shap": item("shape", args{"shape": args{"form": "rect"}}),
		"flip":         item("shape", args{"shape": args{"form": "rect", "flip": true}, "placement": box}),
		"color":        item("shape", args{"shape": args{"form": "rect", "color": "pink"}, "placement": box}),
		"greater":      item("text", args{"body": "x", "placement": args{"x": 0, "y": 0, "w": 0}}),
	}
	before, _ := surface(t, a)
	for words, b := range bad {
		a.Refused(t, bellman.ToolSend, sending(a, "surface", b), words)
	}
	a.Refused(t, bellman.ToolSend, sending(a, "surface", args{"key": "__proto__", "kind": "text", "body": "x"}), "surface keys")
	a.Refused(t, bellman.ToolSend, sending(a, "surface", args{"key": "constructor", "kind": "text", "body": "x"}), "surface keys")
	for _, link := range []string{"data:text/html,x", "not a url", "ftp://example.com/", "https:///x"} {
		a.Refused(t, bellman.ToolSend, sending(a, "surface", item("link", args{"body": link})), "link")
	}
	if after, _ := surface(t, a); after != before {
		t.Errorf("refused writes moved the cursor from %d to %d", before, after)
	}
}

// Case 33: sixty-four keys fit; a full surface still takes replacements.
func TestSurfaceIsBounded(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	for i := range 64 {
		a.Send(t, "surface", text(fmt.Sprintf("k%d", i)))
	}
	a.Refused(t, bellman.ToolSend, sending(a, "surface", text("more")), "full")
	a.Send(t, "surface", text("k3"))
	a.Send(t, "surface", args{"key": "k3", "remove": true})
	a.Send(t, "surface", text("more"))
}

// Case 34: the surface comes with a sync only when asked, its cursor always,
// and a write that wakes a poll is in that poll's block.
func TestSyncWithSurface(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	if got := b.Sync(t, b.Cursor); got.SurfaceCursor != nil || got.Surface != nil {
		t.Errorf("before a write: %+v", got)
	}
	type answer struct {
		result hubtest.Result
		err    error
	}
	answers := make(chan answer, 1)
	go func() {
		r, err := b.Call(t.Context(), bellman.ToolSync, b.Ref().With(args{"since_cursor": b.Cursor, "wait_seconds": 20, "surface": true}))
		answers <- answer{r, err}
	}()
	cursor := a.Send(t, "surface", text("plan"))
	got := <-answers
	if got.err != nil {
		t.Fatal(got.err)
	}
	var woken hubtest.Synced
	decode(t, string(got.result.Structured), &woken)
	if woken.Surface == nil || woken.Surface.Cursor != cursor || *woken.SurfaceCursor != cursor || len(woken.Surface.Items) != 1 {
		t.Errorf("woken by a write: %s", got.result.Structured)
	}
	if got := b.Sync(t, 0); got.Surface != nil || *got.SurfaceCursor != cursor {
		t.Errorf("unasked: %+v", got)
	}
	// A removed member sees what was written up to its cut.
	a.OK(t, bellman.ToolEvict, b.Ref(), nil)
	a.Send(t, "surface", text("later"))
	cut := b.Sync(t, 0, args{"surface": true})
	if len(cut.Surface.Items) != 1 || cut.Surface.Cursor != cursor || *cut.SurfaceCursor != cursor {
		t.Errorf("to the cut: %+v", cut.Surface)
	}
	if cut := b.Sync(t, 0); cut.SurfaceCursor != nil {
		t.Errorf("removed and unasked: surface cursor %d", *cut.SurfaceCursor)
	}
}

// Case 36: the surface is for whoever was ever in the room, in any state of
// it; strangers and unknown rooms read the same words.
func TestSurfaceTool(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	for _, room := range []string{a.Room, "qs_unknown"} {
		s.As(hubtest.Outsider).Refused(t, bellman.ToolSurface, args{"session_id": room}, "no such room, or no member of yours in it")
	}
	var v struct {
		Room struct {
			Role string `json:"your_role"`
		} `json:"room"`
	}
	got := b.OK(t, bellman.ToolSurface, args{"session_id": b.Room}, &v)
	if v.Room.Role != "peer_b" || !strings.HasPrefix(got.Text, "UNTRUSTED PEER CONTENT") {
		t.Errorf("role %q, text %.40q", v.Room.Role, got.Text)
	}
	if err := s.Hub.Freeze(t.Context(), a.Room); err != nil {
		t.Fatal(err)
	}
	a.OK(t, bellman.ToolSurface, args{"session_id": a.Room}, nil)
	a.Refused(t, bellman.ToolSend, sending(a, "surface", text("x")), "frozen", "plan")
	if err := s.Hub.Thaw(t.Context(), a.Room); err != nil {
		t.Fatal(err)
	}
	a.OK(t, bellman.ToolLeave, a.Ref(), nil)
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	a.OK(t, bellman.ToolSurface, args{"session_id": a.Room}, nil)
	a.Refused(t, bellman.ToolSend, sending(a, "surface", text("x")), "closed")
}

// The surface over HTTP is the same one, with the same gate.
func TestSurfaceRoutes(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	path := "/rooms/" + a.Room + "/surface"
	as := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	response, body := do(t, s, http.MethodPut, path+"/plan?member_id="+a.Member, `{"kind":"text","body":"x"}`, as(hubtest.Jesse))
	var sent struct {
		Cursor int64 `json:"cursor"`
	}
	decode(t, body, &sent)
	if response.StatusCode != http.StatusOK || sent.Cursor != b.Cursor+1 {
		t.Fatalf("put: %d %s", response.StatusCode, body)
	}
	response, body = do(t, s, http.MethodGet, path, "", as(hubtest.Peer))
	etag := response.Header.Get("ETag")
	if etag != `"`+itoa(sent.Cursor)+`"` || !strings.Contains(body, `"surface_cursor":`+itoa(sent.Cursor)) || !strings.Contains(body, `"trust":"untrusted"`) {
		t.Errorf("get: %q %s", etag, body)
	}
	for _, have := range []string{etag, "W/" + etag, `"x", ` + etag, "*"} {
		header := as(hubtest.Peer)
		header["If-None-Match"] = have
		if response, body := do(t, s, http.MethodGet, path, "", header); response.StatusCode != http.StatusNotModified || body != "" {
			t.Errorf("if none match %s: %d", have, response.StatusCode)
		}
	}
	cases := []struct {
		method, path, body, token string
		want                      int
	}{
		{http.MethodPut, path + "/plan?member_id=" + a.Member, `{"key":"other","kind":"text","body":"x"}`, hubtest.Jesse, 400},
		{http.MethodPut, path + "/plan?member_id=" + a.Member, `{"remove":true}`, hubtest.Jesse, 400},
		{http.MethodPut, path + "/plan?member_id=" + a.Member, `[]`, hubtest.Jesse, 400},
		{http.MethodPut, path + "/plan?member_id=" + a.Member, `{"kind":"text"}`, hubtest.Jesse, 400},
		{http.MethodPut, path + "/plan", `{"kind":"text","body":"x"}`, hubtest.Jesse, 400},
		{http.MethodPut, path + "/plan?member_id=" + a.Member, strings.Repeat(" ", 65537), hubtest.Jesse, 413},
		{http.MethodPut, path + "/plan?member_id=" + b.Member, `{"kind":"text","body":"x"}`, hubtest.Peer, 403},
		{http.MethodPut, path + "/plan?member_id=" + a.Member, `{"kind":"text","body":"x"}`, hubtest.Peer, 404},
		{http.MethodPut, path + "/plan?member_id=" + a.Member, `{"kind":"text","body":"x"}`, "wrong", 401},
		{http.MethodPost, path, "", hubtest.Jesse, 405},
		{http.MethodGet, "/rooms/" + a.Room + "/nothing", "", hubtest.Jesse, 404},
		{http.MethodGet, path, "", hubtest.Outsider, 404},
		{http.MethodOptions, path, "", "wrong", 204},
		{http.MethodDelete, path + "/plan?member_id=" + a.Member, "", hubtest.Jesse, 200},
		{http.MethodGet, path + "/", "", hubtest.Jesse, 200},
	}
	for _, c := range cases {
		if response, body := do(t, s, c.method, c.path, c.body, as(c.token)); response.StatusCode != c.want {
			t.Errorf("%s %s %.40s: %d %s, want %d", c.method, c.path, c.body, response.StatusCode, body, c.want)
		}
	}
	// A stranger is not even told that the room is closed.
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	a.OK(t, bellman.ToolLeave, a.Ref(), nil)
	put := func(token, room string) string {
		response, body := do(t, s, http.MethodPut, "/rooms/"+room+"/surface/plan?member_id="+a.Member, `{"kind":"text","body":"x"}`, as(token))
		return itoa(int64(response.StatusCode)) + body
	}
	if got, want := put(hubtest.Outsider, a.Room), put(hubtest.Outsider, "qs_unknown"); got != want || !strings.HasPrefix(got, "404") {
		t.Errorf("a stranger at a closed room: %s, at an unknown one: %s", got, want)
	}
	if got := put(hubtest.Jesse, a.Room); !strings.HasPrefix(got, "409") {
		t.Errorf("a member at a closed room: %s", got)
	}
}
