package hub_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/oauth2-proxy/mockoidc"

	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// provided runs a hub that signs people in through a provider of its own.
func provided(t *testing.T) (*hubtest.Server, *mockoidc.MockOIDC) {
	t.Helper()
	p, err := mockoidc.Run()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Shutdown(); err != nil {
			t.Error(err)
		}
	})
	s := hubtest.Start(t, func(c *hub.Config) {
		c.Provider = &hub.Provider{Issuer: p.Issuer(), ClientID: p.ClientID, Secret: p.ClientSecret, Name: "Example"}
	})
	return s, p
}

// throughProvider approves at the hub, follows to the provider and back, and
// returns the address of the provider's answer.
func throughProvider(t *testing.T, s *hubtest.Server, ada *person, client string) string {
	t.Helper()
	_, page, fields := ada.open(t, s.URL+"/authorize?"+authorizeQuery(s, client).Encode())
	if !strings.Contains(page, `action="/authorize/oidc"`) || strings.Contains(page, `name="name"`) {
		t.Fatalf("page %s", page)
	}
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/authorize/oidc", strings.NewReader(fields.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, _, to := ada.do(t, request)
	if to == nil || to.Query().Get("nonce") == "" || to.Query().Get("code_challenge_method") != "S256" {
		t.Fatalf("to the provider: %v", to)
	}
	return follow(t, ada, to.String()).String()
}

// follow opens an address and returns where it leads.
func follow(t *testing.T, ada *person, address string) *url.URL {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, page, location := ada.do(t, request)
	if location == nil {
		t.Fatalf("%s leads nowhere: %d %s", address, status, page)
	}
	return location
}

// People are who the provider says: the verified address is their label, and
// the hub's own tokens are as ever.
func TestProviderSignIn(t *testing.T) {
	s, p := provided(t)
	client := register(t, s, callback)
	ada := newPerson(t)
	p.QueueUser(&mockoidc.MockUser{Subject: "42", Email: "ada@example.com", EmailVerified: true})
	back := follow(t, ada, throughProvider(t, s, ada, client))
	if !strings.HasPrefix(back.String(), callback+"?") || back.Query().Get("state") != "st&te =" {
		t.Fatalf("back to %v", back)
	}
	_, pair := token(t, s, codeGrant(client, back.Query().Get("code")))
	a := s.As(pair.Access).Open(t, swarm)
	b := s.As(hubtest.Peer).Join(t, a.Code)
	a.Say(t, "hi")
	if from := b.Sync(t, b.Cursor).Events[0].Data.From.Label; from != "ada@example.com" {
		t.Errorf("label %q", from)
	}
}

// An address the provider does not vouch for is nobody's label.
func TestProviderUnverifiedAddress(t *testing.T) {
	s, p := provided(t)
	client := register(t, s, callback)
	eve := newPerson(t)
	p.QueueUser(&mockoidc.MockUser{Subject: "43", Email: "ada@example.com", PreferredUsername: "ada@example.com"})
	back := follow(t, eve, throughProvider(t, s, eve, client))
	_, pair := token(t, s, codeGrant(client, back.Query().Get("code")))
	_, account := do(t, s, http.MethodGet, "/account", "", map[string]string{"Authorization": "Bearer " + pair.Access, "Accept": "application/json"})
	if strings.Contains(account, "ada@example.com") || !strings.Contains(account, "ada example.com@127.0.0.1") {
		t.Errorf("account %s", account)
	}
}

// The provider's answer counts only in the browser that set out, once, and
// unaltered; a refusal there is a refusal here.
func TestProviderCallbackIsGuarded(t *testing.T) {
	s, _ := provided(t)
	client := register(t, s, callback)
	ada, eve := newPerson(t), newPerson(t)
	answer := throughProvider(t, s, ada, client)
	if status, _, _ := eve.open(t, answer); status != http.StatusBadRequest {
		t.Errorf("in another browser: %d, want 400", status)
	}
	eve.open(t, s.URL+"/authorize?"+authorizeQuery(s, client).Encode()) // Eve has a cookie of her own now.
	if status, _, _ := eve.open(t, answer); status != http.StatusBadRequest {
		t.Errorf("in another browser with a cookie: %d, want 400", status)
	}
	u, err := url.Parse(answer)
	if err != nil {
		t.Fatal(err)
	}
	q := u.Query()
	q.Set("state", q.Get("state")+"x")
	u.RawQuery = q.Encode()
	if status, _, _ := ada.open(t, u.String()); status != http.StatusBadRequest {
		t.Errorf("altered state: %d, want 400", status)
	}
	if back := follow(t, ada, answer); back.Query().Get("code") == "" {
		t.Errorf("the true answer: %v", back)
	}
	if back := follow(t, ada, answer); back.Query().Get("error") != "access_denied" {
		t.Errorf("the same answer again: %v, want access_denied", back)
	}
	if answer := throughProviderError(t, s, ada, client); answer != "access_denied" {
		t.Errorf("a provider that refuses: %q, want access_denied", answer)
	}
	if status, _ := ada.submit(t, s, url.Values{"name": {"Ada"}}); status != http.StatusNotFound {
		t.Errorf("the name form beside a provider: %d, want 404", status)
	}
}

// throughProviderError comes back from a provider that refuses.
func throughProviderError(t *testing.T, s *hubtest.Server, ada *person, client string) string {
	t.Helper()
	_, _, fields := ada.open(t, s.URL+"/authorize?"+authorizeQuery(s, client).Encode())
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/authorize/oidc", strings.NewReader(fields.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	_, _, to := ada.do(t, request)
	return follow(t, ada, s.URL+"/callback/oidc?error=server_error&state="+url.QueryEscape(to.Query().Get("state"))).Query().Get("error")
}

// A provider that cannot be reached is a fault at the start, with its name.
func TestProviderUnreachable(t *testing.T) {
	_, err := hub.Open(t.Context(), hub.Config{Data: ":memory:", Provider: &hub.Provider{Issuer: "http://127.0.0.1:1", ClientID: "x", Secret: "y"}})
	if err == nil || !strings.Contains(err.Error(), "http://127.0.0.1:1") {
		t.Errorf("open: %v, want the issuer named", err)
	}
}
