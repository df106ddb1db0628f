package hub_test

import (
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
)

const (
	callback = "http://127.0.0.1:51004/callback"
	verifier = "a-verifier-that-has-at-least-forty-three-characters"
)

func challengeOf(verifier string) string {
	sum := sha256.Sum256([]byte(verifier))
	return base64.RawURLEncoding.EncodeToString(sum[:])
}

// register registers a client and returns its id.
func register(t *testing.T, s *hubtest.Server, redirects ...string) string {
	t.Helper()
	body, err := json.Marshal(map[string]any{"client_name": "a <b>client</b>", "redirect_uris": redirects, "application_type": "native"})
	if err != nil {
		t.Fatal(err)
	}
	response, answer := do(t, s, http.MethodPost, "/register", string(body), map[string]string{"Content-Type": "application/json"})
	var c struct {
		ID   string `json:"client_id"`
		Auth string `json:"token_endpoint_auth_method"`
	}
	decode(t, answer, &c)
	if response.StatusCode != http.StatusCreated || len(c.ID) != 22 || c.Auth != "none" {
		t.Fatalf("register: status %d, %s", response.StatusCode, answer)
	}
	return c.ID
}

func authorizeQuery(s *hubtest.Server, client string) url.Values {
	return url.Values{
		"client_id": {client}, "redirect_uri": {callback}, "response_type": {"code"}, "state": {"st&te ="},
		"code_challenge": {challengeOf(verifier)}, "code_challenge_method": {"S256"}, "resource": {s.URL + "/mcp"}, "scope": {"bellman"},
	}
}

// person is a browser and somebody who fills in forms.
type person struct {
	http.Client
}

func newPerson(t *testing.T) *person {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	return &person{http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
}

var hidden = regexp.MustCompile(`name="(csrf|req)" value="([^"]*)"`)

// open opens an address and returns the status, the page and the fields of
// its form.
func (p *person) open(t *testing.T, address string) (int, string, url.Values) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	status, page, _ := p.do(t, request)
	fields := url.Values{}
	for _, m := range hidden.FindAllStringSubmatch(page, -1) {
		fields.Set(m[1], m[2])
	}
	return status, page, fields
}

// submit sends the form and returns the status and where it leads.
func (p *person) submit(t *testing.T, s *hubtest.Server, fields url.Values, header ...string) (int, *url.URL) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, s.URL+"/authorize/local", strings.NewReader(fields.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	if len(header) == 2 {
		request.Header.Set(header[0], header[1])
	}
	status, _, location := p.do(t, request)
	return status, location
}

func (p *person) do(t *testing.T, request *http.Request) (int, string, *url.URL) {
	t.Helper()
	response, err := p.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	var page strings.Builder
	if _, err := copyTo(&page, response.Body); err != nil {
		t.Fatal(err)
	}
	location, _ := response.Location()
	return response.StatusCode, page.String(), location
}

// approve goes through the form under a name and returns the code.
func (p *person) approve(t *testing.T, s *hubtest.Server, client, name string) string {
	t.Helper()
	_, _, fields := p.open(t, s.URL+"/authorize?"+authorizeQuery(s, client).Encode())
	fields.Set("name", name)
	status, location := p.submit(t, s, fields)
	if status != http.StatusSeeOther || location == nil || !strings.HasPrefix(location.String(), callback+"?") {
		t.Fatalf("approve: status %d to %v", status, location)
	}
	q := location.Query()
	if q.Get("state") != "st&te =" || len(q.Get("code")) != 43 || q.Has("iss") {
		t.Fatalf("approve: answer %v", q)
	}
	return q.Get("code")
}

type tokens struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"`
	Refresh   string `json:"refresh_token"`
	Error     string `json:"error"`
}

func token(t *testing.T, s *hubtest.Server, form url.Values) (int, tokens) {
	t.Helper()
	response, body := do(t, s, http.MethodPost, "/token", form.Encode(), map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	var got tokens
	decode(t, body, &got)
	if response.Header.Get("Cache-Control") != "no-store" {
		t.Error("a token response may be cached")
	}
	return response.StatusCode, got
}

func codeGrant(client, code string) url.Values {
	return url.Values{
		"grant_type": {"authorization_code"}, "code": {code}, "client_id": {client}, "redirect_uri": {callback}, "code_verifier": {verifier},
	}
}

func refreshGrant(client, refresh string) url.Values {
	return url.Values{"grant_type": {"refresh_token"}, "refresh_token": {refresh}, "client_id": {client}}
}
