package oauth_test

import (
	"context"
	"errors"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// A first sign-in is one registration, one browser and one code, and its
// token works.
func TestSignIn(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	if _, err := s.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Fatalf("Token before: err = %v, want ErrSignInNeeded", err)
	}
	if _, ok := s.Identity(); ok {
		t.Error("Identity before signing in reports somebody")
	}
	r.signIn(t, s)
	if got := r.call(t, mustToken(t, s)); got != 200 {
		t.Errorf("call with the token: status %d, want 200", got)
	}
	l := r.as.Ledger()
	if l.Registrations != 1 || len(r.browser.Opened()) != 1 || !slices.Equal(l.Grants, []string{"authorization_code:200"}) {
		t.Errorf("registrations %d, browsers %d, grants %v; want one of each", l.Registrations, len(r.browser.Opened()), l.Grants)
	}
	id, ok := s.Identity()
	want := oauth.Identity{UserID: "u_test_jesse", Label: "jesse@example.dev", Plan: "free", Role: "member"}
	if diff := cmp.Diff(want, id); !ok || diff != "" {
		t.Errorf("Identity: ok = %v, diff (-want +got):\n%s", ok, diff)
	}
	eventually(t, "the person lands on a page", func() bool { return len(r.browser.Pages()) == 1 })
	if p := r.browser.Pages()[0]; p.Status != 200 || !strings.Contains(p.Body, "You are signed in") {
		t.Errorf("landing page: status %d, body %s", p.Status, p.Body)
	}
}

// What is sent to the service is what MCP authorization and RFC 8252 ask for.
func TestSignInSendsWhatTheSpecAsks(t *testing.T) {
	r := newRig(t)
	r.signIn(t, r.open(t))
	l := r.as.Ledger()
	var redirects []any
	for _, p := range r.ports {
		redirects = append(redirects, "http://127.0.0.1:"+strconv.Itoa(p)+"/callback")
	}
	want := map[string]any{
		"client_name": "Bellman for Claude Desktop", "redirect_uris": redirects, "application_type": "native", "scope": "bellman",
		"token_endpoint_auth_method": "none", "grant_types": []any{"authorization_code", "refresh_token"}, "response_types": []any{"code"},
	}
	if diff := cmp.Diff(want, l.LastClient); diff != "" {
		t.Errorf("registration (-want +got):\n%s", diff)
	}
	q := l.Authorized[len(l.Authorized)-1]
	if q.Get("resource") != r.as.Resource() || q.Get("scope") != "bellman" || q.Get("code_challenge_method") != "S256" ||
		len(q.Get("state")) != 43 || q.Get("redirect_uri") != redirects[0] {
		t.Errorf("authorization request: %v", q)
	}
	f := l.TokenForms[0]
	if f.Get("resource") != r.as.Resource() || f.Get("client_id") == "" || f.Get("redirect_uri") != redirects[0] || len(f.Get("code_verifier")) != 43 {
		t.Errorf("token request lacks something; its fields are %v", keys(f))
	}
}

func keys(v url.Values) (names []string) {
	for k := range v {
		names = append(names, k)
	}
	return names
}

// A second process finds the sign-in of the first one; signing in again costs
// neither a browser nor a registration.
func TestSignInIsSharedByEveryCopy(t *testing.T) {
	r := newRig(t)
	r.signIn(t, r.open(t))
	second := r.open(t)
	if got := r.call(t, mustToken(t, second)); got != 200 {
		t.Errorf("second copy's call: status %d, want 200", got)
	}
	r.signIn(t, second)
	if n := len(r.browser.Opened()); n != 1 {
		t.Errorf("browsers opened: %d, want 1", n)
	}
}

// Two copies asked at once: one browser, one code, and both are signed in.
func TestSignInIsJoined(t *testing.T) {
	r := newRig(t)
	held := make(chan string, 1)
	quiet := func(c *oauth.Config) {
		c.Open = func(_ context.Context, link string) error {
			r.browser.Ignore(link)
			held <- link
			return nil
		}
	}
	one, two := r.open(t, quiet), r.open(t, quiet)
	a, err := one.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	b, err := two.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a.Link() != b.Link() || !b.Opened() {
		t.Errorf("the second copy shows %q (opened %v), the first %q", b.Link(), b.Opened(), a.Link())
	}
	changed := two.Changed()
	if _, err := r.browser.Finish(t.Context(), <-held); err != nil {
		t.Fatal(err)
	}
	for _, attempt := range []*oauth.Attempt{a, b} {
		if err := attempt.Wait(t.Context()); err != nil {
			t.Errorf("Wait: %v", err)
		}
	}
	told(t, changed)
	for _, s := range []*oauth.Session{one, two} {
		if got := r.call(t, mustToken(t, s)); got != 200 {
			t.Errorf("call: status %d, want 200", got)
		}
	}
	l := r.as.Ledger()
	if len(r.browser.Opened()) != 1 || l.Registrations != 1 || !slices.Equal(l.Grants, []string{"authorization_code:200"}) {
		t.Errorf("browsers %d, registrations %d, grants %v; want one of each", len(r.browser.Opened()), l.Registrations, l.Grants)
	}
}

// A person who declines has declined for every copy that waits for them: none
// of those begins anew.
func TestARefusalEndsTheSignInsThatJoined(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.Deny = true })
	one := r.begun(t, r.open(t, func(c *oauth.Config) { c.Open = ignored(r) }))
	two := r.begun(t, r.open(t, func(c *oauth.Config) { c.Open = ignored(r) }))
	if _, err := r.browser.Finish(t.Context(), one.Link()); err != nil {
		t.Fatal(err)
	}
	for i, a := range []*oauth.Attempt{one, two} {
		if err := a.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "access_denied") {
			t.Errorf("copy %d: %v, want the refusal", i+1, err)
		}
	}
	if n := len(r.browser.Opened()); n != 1 {
		t.Errorf("browsers opened: %d", n)
	}
}

// Who asks to sign in gets a browser, also on the sign-in of a copy that opened
// none.
func TestLoginOpensABrowserOnTheSignInItJoins(t *testing.T) {
	r := newRig(t)
	waiting := r.begun(t, r.open(t, noBrowser))
	a, err := r.open(t, func(c *oauth.Config) { c.Open = ignored(r) }).Login(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	looking, cancel := context.WithTimeout(t.Context(), 400*time.Millisecond) // It looks what has become of the other's meanwhile.
	defer cancel()
	if err := a.Wait(looking); err == nil || !a.Opened() {
		t.Errorf("opened %v, %v", a.Opened(), err)
	}
	r.finishes(t, waiting)
	if err := a.Wait(t.Context()); err != nil {
		t.Errorf("Wait: %v", err)
	}
	if n := len(r.browser.Opened()); n != 1 {
		t.Errorf("browsers opened: %d", n)
	}
}

// A session is refused before it does anything when it cannot be kept.
func TestASessionNeedsItsPlaces(t *testing.T) {
	r := newRig(t)
	for name, change := range map[string]func(*oauth.Config){
		"relative directory": func(c *oauth.Config) { c.Dir = "state" }, "no directory": func(c *oauth.Config) { c.Dir = "" },
		"no store": func(c *oauth.Config) { c.Store = nil }, "no log": func(c *oauth.Config) { c.Log = nil },
		"no server": func(c *oauth.Config) { c.Server = "" }, "plain http": func(c *oauth.Config) { c.Server = "http://bell.example/mcp" },
	} {
		c := r.config()
		change(&c)
		if _, err := oauth.New(c); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// An attacker who was shown the link finishes it with an account of their own
// and sends the callback to the victim: it is refused, and the victim's own
// sign-in goes on.
func TestCallbackOfAnotherBrowserIsRefused(t *testing.T) {
	r := newRig(t)
	s := r.open(t, func(c *oauth.Config) { c.Open = nil })
	a, err := s.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	leaked := a.Link()
	attacker := r.as.NewBrowser(t, "mallory")
	back, err := attacker.Callback(t.Context(), leaked)
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.browser.Get(t.Context(), back); err != nil || p.Status != 400 {
		t.Errorf("victim follows the attacker's callback: status %d, err %v; want 400", p.Status, err)
	}
	if p, err := r.browser.Get(t.Context(), leaked); err != nil || p.Status != 410 {
		t.Errorf("victim follows the used link: status %d, err %v; want 410", p.Status, err)
	}
	eventually(t, "a new link takes the used one's place", func() bool { return a.Link() != leaked })
	if p, err := attacker.Get(t.Context(), back); err != nil || p.Status != 400 {
		t.Errorf("attacker's own callback, once a second browser has the link: status %d, err %v; want 400", p.Status, err)
	}
	// The victim has a cookie of their own now, and the attacker's callback
	// must not work with that either.
	mine, err := r.browser.Callback(t.Context(), a.Link())
	if err != nil {
		t.Fatal(err)
	}
	if p, err := r.browser.Get(t.Context(), back); err != nil || p.Status != 400 {
		t.Errorf("attacker's callback with the victim's cookie: status %d, err %v; want 400", p.Status, err)
	}
	if _, err := r.browser.Get(t.Context(), mine); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, _ := s.Identity(); id.Label != "jesse@example.dev" {
		t.Errorf("signed in as %q, want the victim's own account", id.Label)
	}
}

// After an attempt that nobody approved, no call opens a browser for a while,
// whichever copy it comes from; the person's own request does.
func TestNoSecondTabAfterAnUnapprovedAttempt(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.Deny = true })
	s := r.open(t)
	a, err := s.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "access_denied") {
		t.Fatalf("Wait after a refusal: %v", err)
	}
	eventually(t, "the person sees a page", func() bool { return len(r.browser.Pages()) == 1 })
	if p := r.browser.Pages()[0]; !strings.Contains(p.Body, "Nothing was signed in") {
		t.Errorf("page after a refusal: %s", p.Body)
	}
	r.as.Set(func(s *oauthtest.Switches) { s.Deny = false })
	other := r.open(t)
	b, err := other.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if b.Opened() || len(r.browser.Opened()) != 1 {
		t.Errorf("opened = %v, browsers = %d; want none but the first", b.Opened(), len(r.browser.Opened()))
	}
	if _, err := r.browser.Finish(t.Context(), b.Link()); err != nil {
		t.Fatal(err)
	}
	if err := b.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := other.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := other.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Wait(t.Context()); err != nil || !c.Opened() {
		t.Errorf("after an approved one: opened = %v, err %v; want a browser again", c.Opened(), err)
	}
}

// mcp-remote#72, kimi-code#2606: the port registered the first time is taken
// the second time. The registered range covers it.
func TestSecondSignInOnAnotherPort(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(r.ports[0]))
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	r.signIn(t, s)
	if l := r.as.Ledger(); l.Registrations != 1 {
		t.Errorf("registrations: %d, want 1", l.Registrations)
	}
}

// mcp-remote#306: every usual port is taken. A cached token does not need
// one, and a sign-in falls back to any port with a client of its own.
func TestAllPortsTaken(t *testing.T) {
	r := newRig(t)
	for _, p := range r.ports {
		ln, err := net.Listen("tcp", "127.0.0.1:"+strconv.Itoa(p))
		if err != nil {
			t.Fatal(err)
		}
		defer ln.Close()
	}
	s := r.open(t)
	r.signIn(t, s)
	if got := r.call(t, mustToken(t, s)); got != 200 {
		t.Errorf("call: status %d, want 200", got)
	}
}

// The service forgets an unused client after a day and then shows a page that
// never comes back. The attempt notices before anybody is sent there.
func TestLapsedRegistrationIsRepaired(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.as.ForgetClients()
	r.signIn(t, s)
	if l := r.as.Ledger(); l.Registrations != 2 {
		t.Errorf("registrations: %d, want 2", l.Registrations)
	}
}

// Waiting stops with the caller's context; the sign-in does not.
func TestWaitLeavesTheAttemptRunning(t *testing.T) {
	r := newRig(t)
	s := r.open(t, func(c *oauth.Config) { c.Open = nil })
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	a, err := s.SignIn(ctx)
	if err != nil {
		t.Fatal(err)
	}
	cancel()
	if err := a.Wait(ctx); !errors.Is(err, context.Canceled) {
		t.Fatalf("Wait: %v, want context.Canceled", err)
	}
	if _, err := r.browser.Finish(t.Context(), a.Link()); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Errorf("Wait again: %v", err)
	}
}
