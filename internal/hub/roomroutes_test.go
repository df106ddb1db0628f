package hub_test

import (
	"net/http"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// The room routes show a room to its people and to nobody else.
func TestRoomRoutes(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	for range 3 {
		a.Say(t, "x")
	}
	get := func(token, path string, into any) int {
		t.Helper()
		response, body := do(t, s, http.MethodGet, path, "", map[string]string{"Authorization": "Bearer " + token})
		if into != nil {
			decode(t, body, into)
		}
		return response.StatusCode
	}
	var page struct {
		Events []bellman.Envelope[bellman.Event] `json:"events"`
		Cursor int64                             `json:"cursor"`
	}
	get(hubtest.Jesse, "/rooms/"+a.Room+"/events", &page)
	if len(page.Events) != 4 || page.Cursor != 4 {
		t.Errorf("events: %d to %d, want 4 with the own ones", len(page.Events), page.Cursor)
	}
	get(hubtest.Peer, "/rooms/"+a.Room+"/events?after=3", &page)
	if len(page.Events) != 1 || page.Cursor != 4 {
		t.Errorf("after 3: %d to %d", len(page.Events), page.Cursor)
	}
	for _, after := range []string{"-1", "x", "1234567890123456", "", "1;x", "%zz"} {
		if got := get(hubtest.Peer, "/rooms/"+a.Room+"/events?after="+after, nil); got != 400 {
			t.Errorf("after %q: %d, want 400", after, got)
		}
	}
	var view struct {
		Status  string `json:"session_status"`
		Mine    bool   `json:"mine"`
		Handles []struct {
			ID    string   `json:"member_id"`
			Verbs []string `json:"verbs"`
		} `json:"my_handles"`
	}
	get(hubtest.Peer, "/rooms/"+a.Room, &view)
	if view.Status != "active" || view.Mine || len(view.Handles) != 1 || view.Handles[0].ID != b.Member || len(view.Handles[0].Verbs) != 3 {
		t.Errorf("view %+v", view)
	}
	var list struct {
		Rooms []struct {
			ID      string
			Mine    bool
			Members int
		}
		Truncated bool
	}
	get(hubtest.Jesse, "/rooms", &list)
	if len(list.Rooms) != 1 || list.Rooms[0].ID != a.Room || !list.Rooms[0].Mine || list.Rooms[0].Members != 2 {
		t.Errorf("list %+v", list)
	}
	if got := get(hubtest.Peer, "/rooms?as=admin", nil); got != 403 {
		t.Errorf("as admin without being one: %d", got)
	}
	for _, path := range []string{"", "/events", "/surface"} {
		if got := get(hubtest.Outsider, "/rooms/"+a.Room+path, nil); got != 404 {
			t.Errorf("stranger at %q: %d, want 404", path, got)
		}
	}
	get(hubtest.Jesse, "/rooms?as=admin", &list)
	if len(list.Rooms) != 0 {
		t.Errorf("open rooms are shown to an administrator: %+v", list)
	}
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	a.OK(t, bellman.ToolLeave, a.Ref(), nil)
	get(hubtest.Jesse, "/rooms?as=admin", &list)
	if len(list.Rooms) != 1 {
		t.Errorf("closed rooms of the organization: %+v", list)
	}
}

// A public room can be read by anybody, without briefs and without names,
// until it is unpublished.
func TestPublicRoom(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, args{"room": "open house", "preset": "pair", "public": true})
	b := s.As(hubtest.Peer).Join(t, a.Code, args{"brief": hubtest.Brief("a private goal")})
	b.Send(t, "brief_update", hubtest.Brief("another private goal"))
	b.Say(t, "hello world")
	_, u := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "x.txt", "text/plain", "shown")
	_, hidden := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "y.txt", "text/plain", "hidden")
	a.Send(t, "surface", args{"key": "f", "kind": "file", "blob": args{"id": u.ID}})
	origin := map[string]string{"Origin": "https://elsewhere.example"}
	base := "/public/rooms/" + a.Room
	for _, path := range []string{"", "/events", "/surface"} {
		response, body := do(t, s, http.MethodGet, base+path, "", origin)
		if response.StatusCode != 200 || response.Header.Get("Access-Control-Allow-Origin") != "*" {
			t.Errorf("%q: %d", path, response.StatusCode)
		}
		for _, secret := range []string{"private goal", "codenerd", "org_"} {
			if strings.Contains(body, secret) {
				t.Errorf("%q shows %q: %s", path, secret, body)
			}
		}
		if path == "/events" && (!strings.Contains(body, "hello world") || !strings.Contains(body, `"label":"member 2"`)) {
			t.Errorf("events %s", body)
		}
	}
	for id, want := range map[string]int{u.ID: 200, hidden.ID: 404} {
		if response, _ := do(t, s, http.MethodGet, base+"/blobs/"+id, "", origin); response.StatusCode != want {
			t.Errorf("blob: %d, want %d", response.StatusCode, want)
		}
	}
	private := s.As(hubtest.Jesse).Open(t, nil)
	if response, _ := do(t, s, http.MethodGet, "/public/rooms/"+private.Room, "", origin); response.StatusCode != 404 {
		t.Errorf("a private room: %d", response.StatusCode)
	}
	unpublish := func(token string) int {
		response, _ := do(t, s, http.MethodPost, "/rooms/"+a.Room+"/unpublish", "", map[string]string{"Authorization": "Bearer " + token})
		return response.StatusCode
	}
	for _, c := range []struct {
		token string
		want  int
	}{{hubtest.Outsider, 404}, {hubtest.Peer, 403}, {hubtest.Jesse, 204}} {
		if got := unpublish(c.token); got != c.want {
			t.Errorf("unpublish by %s: %d, want %d", c.token, got, c.want)
		}
	}
	if response, _ := do(t, s, http.MethodGet, base, "", origin); response.StatusCode != 404 {
		t.Errorf("unpublished: %d", response.StatusCode)
	}
}

// A saved preset can be cited by who saved it, and only by them.
func TestPresets(t *testing.T) {
	s := hubtest.Start(t)
	as := func(token string) map[string]string { return map[string]string{"Authorization": "Bearer " + token} }
	body := `{"mode":"pair","roles":{"boss":{"can":["send","invite"]},"hand":{"can":["send"]}},"default_role":"hand","creator_role":"boss"}`
	for path, want := range map[string]int{"/presets/mine": 204, "/presets/pair": 409, "/presets/Bad": 400} {
		if response, _ := do(t, s, http.MethodPut, path, body, as(hubtest.Peer)); response.StatusCode != want {
			t.Errorf("put %s: %d, want %d", path, response.StatusCode, want)
		}
	}
	if response, answer := do(t, s, http.MethodPut, "/presets/bad", `{"mode":"trio"}`, as(hubtest.Peer)); response.StatusCode != 400 ||
		!strings.Contains(answer, "invalid_manifest") || !strings.Contains(answer, "mode") {
		t.Errorf("put a bad one: %d %s", response.StatusCode, answer)
	}
	var started struct {
		Room struct {
			Preset string              `json:"preset"`
			Roles  map[string][]string `json:"roles"`
		} `json:"room"`
	}
	cite := args{"manifest": args{"room": "r", "preset": "mine"}, "brief": hubtest.Brief("x")}
	s.As(hubtest.Peer).OK(t, bellman.ToolStart, cite, &started)
	if started.Room.Preset != "mine" || len(started.Room.Roles["boss"]) != 2 {
		t.Errorf("started %+v", started)
	}
	s.As(hubtest.Jesse).Refused(t, bellman.ToolStart, cite, "invalid manifest \u2014 ", "unknown preset", "pair, review, social, swarm")
	if _, list := do(t, s, http.MethodGet, "/presets", "", as(hubtest.Peer)); !strings.Contains(list, `"mine"`) {
		t.Errorf("list %s", list)
	}
	do(t, s, http.MethodDelete, "/presets/mine", "", as(hubtest.Peer))
	s.As(hubtest.Peer).Refused(t, bellman.ToolStart, cite, "unknown preset")
}
