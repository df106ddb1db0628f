package hub_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// Everything a hub has promised holds after a restart: rooms, seats, codes,
// previews, keys of idempotency, the surface, files, sign-ins, presets, quotas.
func TestRestart(t *testing.T) {
	data := t.TempDir()
	start := func() *hubtest.Server {
		return hubtest.Start(t, func(c *hub.Config) { c.Data = data })
	}
	s := start()
	client := register(t, s, callback)
	_, pair := token(t, s, codeGrant(client, newPerson(t).approve(t, s, client, "Ada")))
	a := s.As(hubtest.Jesse).Open(t, swarm)
	b := s.As(hubtest.Peer).Join(t, a.Code)
	key := args{"idempotency_key": "the-same-key"}
	first := a.Send(t, "message", args{"text": "before"}, key)
	a.Send(t, "surface", text("plan"))
	_, u := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "x", "", "kept")
	late := preview(t, s.As(hubtest.Outsider), a.Code)
	seen := b.Sync(t, b.Cursor)
	s.Stop(t)

	s = start()
	a.Server, b.Server = s, s
	if again := a.Send(t, "message", args{"text": "before"}, key); again != first {
		t.Errorf("the same key gave cursor %d, want %d", again, first)
	}
	got := b.Sync(t, b.Cursor)
	if got.Cursor != seen.Cursor || !slices.Equal(got.Types(), seen.Types()) || got.Events[0].Data.At != seen.Events[0].Data.At {
		t.Errorf("history %v to %d, want %v to %d", got.Types(), got.Cursor, seen.Types(), seen.Cursor)
	}
	c := s.As(hubtest.Outsider).Confirm(t, late)
	if c.Cursor != seen.Cursor+1 {
		t.Errorf("joined at %d, want %d", c.Cursor, seen.Cursor+1)
	}
	s.As(hubtest.Outsider).OK(t, bellman.ToolConnect, args{"join_code": a.Code}, nil)
	if _, items := surface(t, a); len(items) != 1 {
		t.Errorf("surface %v", items)
	}
	if response, body := do(t, s, http.MethodGet, "/rooms/"+a.Room+"/blobs/"+u.ID, "", map[string]string{"Authorization": "Bearer " + hubtest.Peer}); response.StatusCode != 200 || body != "kept" {
		t.Errorf("file: %d %q", response.StatusCode, body)
	}
	status, next := token(t, s, refreshGrant(client, pair.Refresh))
	if status != http.StatusOK {
		t.Fatalf("refresh: %d", status)
	}
	if _, account := do(t, s, http.MethodGet, "/account", "", map[string]string{"Authorization": "Bearer " + next.Access, "Accept": "application/json"}); !strings.Contains(account, `"label":"Ada"`) {
		t.Errorf("account %s", account)
	}
}
