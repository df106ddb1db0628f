package hub_test

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
)

func copyTo(w io.Writer, r io.Reader) (int64, error) { return io.Copy(w, r) }

// A web page cannot reach a hub on this machine, not even one with the
// development keys: neither under a name it rebinds to loopback nor from its
// own origin.
func TestRebindingIsRefused(t *testing.T) {
	s := hubtest.Start(t)
	port := s.URL[strings.LastIndex(s.URL, ":"):]
	ping := `{"jsonrpc":"2.0","id":1,"method":"ping"}`
	routes := []struct{ method, path string }{
		{http.MethodPost, "/mcp"},
		{http.MethodGet, "/ws"},
		{http.MethodGet, "/healthz"},
		{http.MethodGet, "/account"},
		{http.MethodPost, "/register"},
		{http.MethodGet, "/authorize"},
		{http.MethodPost, "/authorize/local"},
		{http.MethodPost, "/token"},
		{http.MethodGet, "/.well-known/oauth-authorization-server"},
		{http.MethodGet, "/nothing"},
	}
	for _, r := range routes {
		for _, host := range []string{"evil.example", "evil.example" + port, "127.0.0.1", "127.0.0.1.nip.io" + port, "127.0.0.1:1"} {
			header := map[string]string{"Host": host, "Authorization": "Bearer " + hubtest.Jesse, "Content-Type": "application/json"}
			if response, _ := do(t, s, r.method, r.path, ping, header); response.StatusCode != http.StatusMisdirectedRequest {
				t.Errorf("%s %s as %s: %d, want 421", r.method, r.path, host, response.StatusCode)
			}
		}
		for _, origin := range []string{"http://evil.example", "null", s.URL + ".evil.example", "https" + strings.TrimPrefix(s.URL, "http"), ""} {
			header := map[string]string{"Origin": origin, "Authorization": "Bearer " + hubtest.Jesse, "Content-Type": "application/json"}
			if response, _ := do(t, s, r.method, r.path, ping, header); response.StatusCode != http.StatusForbidden {
				t.Errorf("%s %s from %q: %d, want 403", r.method, r.path, origin, response.StatusCode)
			}
		}
	}
	for _, host := range []string{"127.0.0.1" + port, "localhost" + port, "LOCALHOST" + port, "[::1]" + port} {
		if response, _ := do(t, s, http.MethodGet, "/healthz", "", map[string]string{"Host": host}); response.StatusCode != http.StatusOK {
			t.Errorf("as %s: %d, want 200", host, response.StatusCode)
		}
	}
	if response, _ := do(t, s, http.MethodGet, "/healthz", "", map[string]string{"Origin": s.URL}); response.StatusCode != http.StatusOK {
		t.Errorf("from its own origin: %d, want 200", response.StatusCode)
	}
}

// A public URL fixes issuer and resource, and is the only name the hub answers
// to; the name form is not offered there.
func TestPublicURL(t *testing.T) {
	s := hubtest.Start(t, func(c *hub.Config) { c.PublicURL = "https://bell.example.com" })
	if response, _ := do(t, s, http.MethodGet, "/healthz", "", nil); response.StatusCode != http.StatusMisdirectedRequest {
		t.Errorf("by its loopback address: %d, want 421", response.StatusCode)
	}
	host := map[string]string{"Host": "bell.example.com"}
	_, body := do(t, s, http.MethodGet, "/.well-known/oauth-authorization-server", "", host)
	if !strings.Contains(body, `"issuer":"https://bell.example.com"`) {
		t.Errorf("metadata %s", body)
	}
	_, body = do(t, s, http.MethodPost, "/register", `{"redirect_uris":["`+callback+`"]}`, host)
	var c struct {
		ID string `json:"client_id"`
	}
	decode(t, body, &c)
	q := authorizeQuery(s, c.ID)
	q.Set("resource", "https://bell.example.com/mcp")
	response, page := do(t, s, http.MethodGet, "/authorize?"+q.Encode(), "", host)
	if response.StatusCode != http.StatusServiceUnavailable || strings.Contains(page, "<form") {
		t.Errorf("the name form on a public hub: %d %s", response.StatusCode, page)
	}
	for _, bad := range []string{"bell.example.com", "ftp://bell.example.com", "https://bell.example.com/path", "https://u:p@bell.example.com", "https://"} {
		if h, err := hub.Open(t.Context(), hub.Config{Data: ":memory:", PublicURL: bad}); err == nil {
			_ = h.Close()
			t.Errorf("public URL %q was accepted", bad)
		}
	}
}

// Registrations are counted by the address the proxy saw, twenty an hour, and
// a refused redirect spends none of them.
func TestRegistrationsAreLimited(t *testing.T) {
	s := hubtest.Start(t, func(c *hub.Config) { c.PublicURL, c.BehindProxy = "https://bell.example.com", true })
	try := func(address, redirect string) int {
		t.Helper()
		response, _ := do(t, s, http.MethodPost, "/register", `{"redirect_uris":["`+redirect+`"]}`, map[string]string{
			// What stands before the last address, the client could have written.
			"Host": "bell.example.com", "X-Forwarded-For": "203.0.113." + itoa(s.Clock.Now().UnixNano()%250) + ", " + address,
		})
		return response.StatusCode
	}
	if got := try("198.51.100.1", "http://example.com/"); got != http.StatusBadRequest {
		t.Errorf("bad redirect: %d", got)
	}
	for i := range 20 {
		if got := try("198.51.100.1", callback); got != http.StatusCreated {
			t.Fatalf("registration %d: %d", i+1, got)
		}
	}
	if got := try("198.51.100.1", callback); got != http.StatusTooManyRequests {
		t.Errorf("the twenty-first: %d, want 429", got)
	}
	if got := try("198.51.100.2", callback); got != http.StatusCreated {
		t.Errorf("another address: %d", got)
	}
	s.Clock.Advance(time.Hour)
	if got := try("198.51.100.1", callback); got != http.StatusCreated {
		t.Errorf("an hour later: %d", got)
	}
}
