package hub_test

import (
	"fmt"
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

// A port that the scheme implies may be said or left out, in the public URL
// and by the client; it is one origin all the same.
func TestDefaultPort(t *testing.T) {
	for public, hosts := range map[string]map[string]int{
		"https://bell.example.com:443": {"bell.example.com": 200, "bell.example.com:443": 200, "bell.example.com:80": 421},
		"https://bell.example.com":     {"bell.example.com": 200, "Bell.example.com:443": 200, "bell.example.com:8443": 421},
		"http://localhost":             {"localhost:80": 200, "127.0.0.1": 200, "[::1]": 200, "[::1]:80": 200, "localhost:443": 421},
	} {
		s := hubtest.Start(t, func(c *hub.Config) { c.PublicURL = public })
		for host, want := range hosts {
			response, body := do(t, s, http.MethodGet, "/.well-known/oauth-authorization-server", "", map[string]string{"Host": host})
			if response.StatusCode != want || want == 200 && (strings.Contains(body, ":443") || strings.Contains(body, ":80")) {
				t.Errorf("%s as %s: %d %.80s, want %d and no port", public, host, response.StatusCode, body, want)
			}
		}
	}
}

// Registrations are counted by the address the proxy saw, twenty an hour, and
// a refused redirect spends none of them.
func TestRegistrationsAreLimited(t *testing.T) {
	s := hubtest.Start(t, func(c *hub.Config) { c.PublicURL, c.BehindProxy = "https://bell.example.com", true })
	forged := 0
	try := func(address, redirect string) int {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/register", strings.NewReader(`{"redirect_uris":["`+redirect+`"]}`))
		if err != nil {
			t.Fatal(err)
		}
		request.Host = "bell.example.com"
		// What stands before the last address, the client could have written,
		// also in a line of its own: some proxies add one below it.
		forged++
		client := fmt.Sprintf("203.0.113.%d", forged)
		if forged%2 == 0 {
			request.Header.Add("X-Forwarded-For", client+", "+address)
		} else {
			request.Header.Add("X-Forwarded-For", client)
			request.Header.Add("X-Forwarded-For", address)
		}
		response, err := http.DefaultClient.Do(request)
		if err != nil {
			t.Fatal(err)
		}
		_ = response.Body.Close()
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
	for i := range 20 {
		if got := try(fmt.Sprintf("2001:db8:0:1::%x", i), callback); got != http.StatusCreated {
			t.Fatalf("registration %d of a network: %d", i+1, got)
		}
	}
	if got := try("2001:db8:0:1:ffff::1", callback); got != http.StatusTooManyRequests {
		t.Errorf("another address of the same network: %d, want 429", got)
	}
	if got := try("2001:db8:0:2::1", callback); got != http.StatusCreated {
		t.Errorf("another network: %d", got)
	}
	s.Clock.Advance(time.Hour)
	if got := try("198.51.100.1", callback); got != http.StatusCreated {
		t.Errorf("an hour later: %d", got)
	}
}
