package hub_test

import (
	"encoding/base64"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// The whole way: a person gives a name, the client gets a token that works on
// /mcp and /account, and every refresh spends the token before it.
func TestSignIn(t *testing.T) {
	s := hubtest.Start(t)
	client := register(t, s, callback)
	code := newPerson(t).approve(t, s, client, "Ada \u202eLovelace")
	status, first := token(t, s, codeGrant(client, code))
	if status != http.StatusOK || first.Type != "Bearer" || first.ExpiresIn != 600 || len(first.Refresh) != 43 {
		t.Fatalf("token: %d %+v", status, first)
	}
	a := s.As(first.Access).Open(t, swarm)
	b := s.As(hubtest.Peer).Join(t, a.Code)
	a.Say(t, "hello")
	got := b.Sync(t, b.Cursor)
	if from := got.Events[0].Data.From.Label; from != "Ada Lovelace" {
		t.Errorf("label %q, want the name without what turns it around", from)
	}
	response, body := do(t, s, http.MethodGet, "/account", "", map[string]string{"Authorization": "Bearer " + first.Access, "Accept": "application/json"})
	var account struct {
		Label string `json:"label"`
		Plan  string `json:"plan"`
		Usage struct {
			Created int `json:"sessions_created_this_month"`
		} `json:"usage"`
	}
	decode(t, body, &account)
	if response.StatusCode != http.StatusOK || account.Label != "Ada Lovelace" || account.Plan != "team" || account.Usage.Created != 1 {
		t.Errorf("account: %d %s", response.StatusCode, body)
	}
	status, second := token(t, s, refreshGrant(client, first.Refresh))
	if status != http.StatusOK || second.Refresh == first.Refresh || second.Access == first.Access {
		t.Fatalf("refresh: %d %+v", status, second)
	}
	if status, got := token(t, s, refreshGrant(client, first.Refresh)); status != http.StatusBadRequest || got.Error != "invalid_grant" {
		t.Errorf("spent refresh token: %d %q", status, got.Error)
	}
	// There is no family to revoke: the newer one goes on.
	if status, _ := token(t, s, refreshGrant("", second.Refresh)); status != http.StatusOK {
		t.Errorf("newer refresh token after a reuse: %d", status)
	}
	s.Clock.Advance(10*time.Minute + time.Second)
	if response, _ := post(t, s, first.Access, `{}`); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("expired access token: %d", response.StatusCode)
	}
}

// A code and a refresh token are spent by the first try, whatever was wrong
// with it.
func TestGrantsAreConsumedFirst(t *testing.T) {
	s := hubtest.Start(t)
	client, other := register(t, s, callback), register(t, s, callback)
	ada := newPerson(t)
	for name, spoil := range map[string]func(url.Values){
		"client":   func(f url.Values) { f.Set("client_id", other) },
		"redirect": func(f url.Values) { f.Set("redirect_uri", callback+"/") },
		"verifier": func(f url.Values) { f.Set("code_verifier", strings.Repeat("x", 43)) },
		"short":    func(f url.Values) { f.Set("code_verifier", "short") },
	} {
		code := ada.approve(t, s, client, "Ada")
		form := codeGrant(client, code)
		spoil(form)
		if status, got := token(t, s, form); status != http.StatusBadRequest || got.Error != "invalid_grant" {
			t.Errorf("%s: %d %q", name, status, got.Error)
		}
		if status, got := token(t, s, codeGrant(client, code)); status != http.StatusBadRequest || got.Error != "invalid_grant" {
			t.Errorf("%s: the code still works: %d %q", name, status, got.Error)
		}
	}
	code := ada.approve(t, s, client, "Ada")
	form := codeGrant(client, code)
	form.Set("resource", "https://elsewhere.example/mcp")
	if status, got := token(t, s, form); status != http.StatusBadRequest || got.Error != "invalid_target" {
		t.Errorf("foreign resource: %d %q", status, got.Error)
	}
	old := ada.approve(t, s, client, "Ada")
	s.Clock.Advance(61 * time.Second)
	if status, got := token(t, s, codeGrant(client, old)); status != http.StatusBadRequest || got.Error != "invalid_grant" {
		t.Errorf("old code: %d %q", status, got.Error)
	}
	_, pair := token(t, s, codeGrant(client, ada.approve(t, s, client, "Ada")))
	if status, got := token(t, s, refreshGrant(other, pair.Refresh)); status != http.StatusBadRequest || got.Error != "invalid_grant" {
		t.Errorf("refresh by another client: %d %q", status, got.Error)
	}
	if status, _ := token(t, s, refreshGrant(client, pair.Refresh)); status != http.StatusBadRequest {
		t.Error("the refresh token survived a wrong client")
	}
	if _, got := token(t, s, url.Values{"grant_type": {"client_credentials"}}); got.Error != "unsupported_grant_type" {
		t.Errorf("client_credentials: %q", got.Error)
	}
}

// A client or redirect that is not registered gets a page and never a
// redirect; other faults are told to the client.
func TestAuthorizeRefusals(t *testing.T) {
	s := hubtest.Start(t)
	client := register(t, s, callback)
	ada := newPerson(t)
	for name, change := range map[string]url.Values{
		"unknown client": {"client_id": {"nobody"}},
		"wrong redirect": {"redirect_uri": {"http://127.0.0.1:51005/callback"}},
		"no redirect":    {"redirect_uri": nil},
	} {
		q := authorizeQuery(s, client)
		maps.Copy(q, change)
		if status, page, _ := ada.open(t, s.URL+"/authorize?"+q.Encode()); status != http.StatusBadRequest || !strings.Contains(page, "<h1>") {
			t.Errorf("%s: status %d, %.80s", name, status, page)
		}
	}
	for want, change := range map[string]url.Values{
		"unsupported_response_type": {"response_type": {"token"}},
		"invalid_request":           {"code_challenge_method": {"plain"}},
		"invalid_target":            {"resource": {s.URL + "/other"}},
	} {
		q := authorizeQuery(s, client)
		maps.Copy(q, change)
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, s.URL+"/authorize?"+q.Encode(), nil)
		if err != nil {
			t.Fatal(err)
		}
		_, _, location := ada.do(t, request)
		if location == nil || location.Query().Get("error") != want || location.Query().Get("state") != "st&te =" {
			t.Errorf("%v: leads to %v, want %s", change, location, want)
		}
	}
	q := authorizeQuery(s, client)
	q.Set("resource", strings.ToUpper(s.URL[:4])+s.URL[4:]+"/mcp/?a=b#c")
	if status, page, _ := ada.open(t, s.URL+"/authorize?"+q.Encode()); status != http.StatusOK ||
		!strings.Contains(page, "a &lt;b&gt;client&lt;/b&gt;") {
		t.Errorf("equal resource: status %d, %s", status, page)
	}
}

// The name form counts only in the browser that opened it, once it was really
// shown there, and never for a page of another origin.
func TestNameFormIsGuarded(t *testing.T) {
	s := hubtest.Start(t)
	client := register(t, s, callback)
	ada, eve := newPerson(t), newPerson(t)
	address := s.URL + "/authorize?" + authorizeQuery(s, client).Encode() // Ends with the state.
	_, _, fields := ada.open(t, address)
	fields.Set("name", "Ada")
	if status, _ := eve.submit(t, s, fields); status != http.StatusForbidden {
		t.Errorf("without the cookie: %d, want 403", status)
	}
	_, _, hers := eve.open(t, address+"2") // Another state, so another form.
	hers.Set("name", "Eve")
	hers.Set("req", fields.Get("req"))
	if status, _ := eve.submit(t, s, hers); status != http.StatusForbidden {
		t.Errorf("with another form's token: %d, want 403", status)
	}
	if status, _ := ada.submit(t, s, fields, "Origin", "http://evil.example"); status != http.StatusForbidden {
		t.Errorf("from another origin: %d, want 403", status)
	}
	if status, _ := ada.submit(t, s, fields, "Origin", "null"); status != http.StatusForbidden {
		t.Errorf("from a null origin: %d, want 403", status)
	}
	noName := url.Values{"csrf": fields["csrf"], "req": fields["req"], "name": {" \u200b "}}
	if status, _ := ada.submit(t, s, noName); status != http.StatusBadRequest {
		t.Errorf("without a name: %d, want 400", status)
	}
	if status, location := ada.submit(t, s, url.Values{"csrf": fields["csrf"], "req": fields["req"], "deny": {"1"}}); status != http.StatusSeeOther ||
		location.Query().Get("error") != "access_denied" {
		t.Errorf("refused by the person: %d %v", status, location)
	}
	s.Clock.Advance(10*time.Minute + time.Second)
	if status, _ := ada.submit(t, s, fields, "Origin", s.URL); status != http.StatusBadRequest {
		t.Errorf("after ten minutes: %d, want 400", status)
	}
}

// Redirects are https or this machine; one bad entry spoils the registration.
func TestRegisterRedirects(t *testing.T) {
	s := hubtest.Start(t)
	for _, good := range []string{"https://example.com/x", "http://localhost:1/x", "http://127.0.0.1/any?x=1", "http://[::1]:9/"} {
		register(t, s, good)
	}
	for _, bad := range []string{
		`{}`, `{"redirect_uris":[]}`, `{"redirect_uris":["http://example.com/"]}`, `{"redirect_uris":["https://ok.example/","ftp://x/"]}`,
		`{"redirect_uris":["javascript:alert(1)"]}`, `{"redirect_uris":[7]}`, `{"redirect_uris":["http://127.0.0.1.evil.example/"]}`,
	} {
		response, body := do(t, s, http.MethodPost, "/register", bad, nil)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "invalid_redirect_uri") {
			t.Errorf("%s: %d %s", bad, response.StatusCode, body)
		}
	}
	for _, bad := range []string{"", "null", "[]", "nonsense"} {
		response, body := do(t, s, http.MethodPost, "/register", bad, nil)
		if response.StatusCode != http.StatusBadRequest || !strings.Contains(body, "invalid_client_metadata") {
			t.Errorf("%q: %d %s", bad, response.StatusCode, body)
		}
	}
}

// An unused registration lapses after a day; a used one stays.
func TestRegistrationLapses(t *testing.T) {
	s := hubtest.Start(t)
	used, unused := register(t, s, callback), register(t, s, callback)
	ada := newPerson(t)
	token(t, s, codeGrant(used, ada.approve(t, s, used, "Ada")))
	s.Clock.Advance(24*time.Hour + time.Millisecond)
	for client, want := range map[string]int{used: http.StatusOK, unused: http.StatusBadRequest} {
		if status, _, _ := ada.open(t, s.URL+"/authorize?"+authorizeQuery(s, client).Encode()); status != want {
			t.Errorf("after a day: status %d, want %d", status, want)
		}
	}
}

// Forged and altered tokens open nothing.
func TestAccessTokensCannotBeForged(t *testing.T) {
	s := hubtest.Start(t)
	client := register(t, s, callback)
	_, good := token(t, s, codeGrant(client, newPerson(t).approve(t, s, client, "Ada")))
	parts := strings.Split(good.Access, ".")
	if len(parts) != 3 {
		t.Fatalf("access token has %d parts", len(parts))
	}
	body, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		t.Fatal(err)
	}
	enc := base64.RawURLEncoding.EncodeToString
	other := enc([]byte(strings.Replace(string(body), `"member"`, `"admin"`, 1)))
	for name, forged := range map[string]string{
		"altered":   parts[0] + "." + other + "." + parts[2],
		"none":      enc([]byte(`{"alg":"none","typ":"JWT"}`)) + "." + parts[1] + ".",
		"unsigned":  parts[0] + "." + parts[1] + ".",
		"two parts": parts[0] + "." + parts[1],
		"four":      good.Access + ".x",
		"padded":    good.Access + "=",
		"empty":     "..",
	} {
		if response, _ := post(t, s, forged, `{"jsonrpc":"2.0","id":1,"method":"ping"}`); response.StatusCode != http.StatusUnauthorized {
			t.Errorf("%s: status %d, want 401", name, response.StatusCode)
		}
	}
	var claims struct {
		Issuer   string         `json:"iss"`
		Audience string         `json:"aud"`
		Identity map[string]any `json:"bellman"`
	}
	decode(t, string(body), &claims)
	if claims.Issuer != s.URL || claims.Audience != s.URL+"/mcp" || claims.Identity["label"] != "Ada" || claims.Identity["userId"] == nil {
		t.Errorf("claims %s", body)
	}
	// A token is good only for the origin it was asked for at.
	elsewhere := strings.Replace(s.URL, "127.0.0.1", "localhost", 1)
	response, _ := do(t, s, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`, map[string]string{
		"Host": strings.TrimPrefix(elsewhere, "http://"), "Authorization": "Bearer " + good.Access, "Content-Type": "application/json",
	})
	if response.StatusCode != http.StatusUnauthorized {
		t.Errorf("at another origin: status %d, want 401", response.StatusCode)
	}
}

// The metadata agree with each other and with the address asked.
func TestMetadata(t *testing.T) {
	s := hubtest.Start(t)
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/mcp", "/.well-known/oauth-protected-resource/"} {
		_, body := do(t, s, http.MethodGet, path, "", nil)
		var m struct {
			Resource string   `json:"resource"`
			Servers  []string `json:"authorization_servers"`
		}
		decode(t, body, &m)
		if m.Resource != s.URL+"/mcp" || len(m.Servers) != 1 || m.Servers[0] != s.URL {
			t.Errorf("%s: %s", path, body)
		}
	}
	_, body := do(t, s, http.MethodGet, "/.well-known/oauth-authorization-server", "", nil)
	var m map[string]any
	decode(t, body, &m)
	if m["issuer"] != s.URL || m["token_endpoint"] != s.URL+"/token" || m["registration_endpoint"] != s.URL+"/register" {
		t.Errorf("authorization server: %s", body)
	}
	if _, ok := m["authorization_response_iss_parameter_supported"]; ok {
		t.Error("iss is advertised")
	}
	if response, _ := do(t, s, http.MethodGet, "/account", "", map[string]string{"Authorization": "Bearer " + hubtest.Jesse}); response.StatusCode != http.StatusUnauthorized {
		t.Errorf("account with a static key: %d, want 401", response.StatusCode)
	}
}
