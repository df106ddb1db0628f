package oauth_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// refusedSignIn checks that a sign-in fails, says why in the given words, and
// leads neither a browser nor a request to anybody else.
func (r *rig) refusedSignIn(t *testing.T, words string) {
	t.Helper()
	a, err := r.open(t).SignIn(t.Context())
	if err == nil {
		err = a.Wait(t.Context())
	}
	if err == nil || !strings.Contains(err.Error(), words) {
		t.Errorf("SignIn: %v, want an error about %q", err, words)
		return
	}
	r.noSecrets(t, "the error", err.Error())
	if n := len(r.browser.Opened()); n != 0 {
		t.Errorf("browsers opened: %d, want none", n)
	}
	if got := r.as.Elsewhere(); len(got) != 0 {
		t.Errorf("the other origin was asked: %v", got)
	}
	if l := r.as.Ledger(); l.Registrations != 0 || len(l.Grants) != 0 {
		t.Errorf("registrations %d, grants %v, want none", l.Registrations, l.Grants)
	}
}

// mcp-go#903, go-sdk's and the specification's rows: metadata that is absent,
// broken, about somebody else, or that leads elsewhere ends the sign-in with
// a reason, before a browser, a registration or a code.
func TestMetadataIsNotBelieved(t *testing.T) {
	for name, c := range map[string]struct {
		set   func(*oauthtest.Switches, *oauthtest.Server)
		words string
	}{
		"another resource":         {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.Resource = "https://evil.example/mcp" }, "about another server"},
		"another path":             {func(s *oauthtest.Switches, as *oauthtest.Server) { s.Resource = as.URL + "/mcpx" }, "about another server"},
		"metadata elsewhere":       {func(s *oauthtest.Switches, as *oauthtest.Server) { s.HeaderURL = as.Other + "/prm" }, "another address than its own"},
		"another issuer inside":    {func(s *oauthtest.Switches, as *oauthtest.Server) { s.MetaIssuer = as.Other }, "calls itself"},
		"issuer with a slash":      {func(s *oauthtest.Switches, as *oauthtest.Server) { s.MetaIssuer = as.URL + "/" }, "calls itself"},
		"no PKCE":                  {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.NoPKCE = true }, "PKCE"},
		"too large":                {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.HugeMetadata = true }, "larger than"},
		"404":                      {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.MetaStatus = 404 }, "404"},
		"500":                      {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.MetaStatus = 500 }, "500"},
		"200 page":                 {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.MetaStatus = 200 }, "not JSON"},
		"no registration":          {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.NoRegister = true }, "register"},
		"token endpoint elsewhere": {func(s *oauthtest.Switches, as *oauthtest.Server) { s.Token = as.Other + "/token" }, "token endpoint"},
		"browser elsewhere":        {func(s *oauthtest.Switches, as *oauthtest.Server) { s.Authorize = as.Other + "/authorize" }, "authorization endpoint"},
		"issuer with a query":      {func(s *oauthtest.Switches, as *oauthtest.Server) { s.Issuer = as.URL + "?x=y" }, "has a query"},
		"origin in the challenge":  {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.RootOnly = true }, "about another server"},
		"issuer in the cloud":      {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.Issuer = "https://169.254.169.254" }, "private address"},
		"issuer in plain http":     {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.Issuer = "http://login.example" }, "plain http"},
		"issuer with a user":       {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.Issuer = "https://a:b@login.example" }, "user name"},
		"issuer without end":       {func(s *oauthtest.Switches, as *oauthtest.Server) { s.Issuer = as.URL + "/" + strings.Repeat("a", 5000) }, "longer than"},
		"issuer is a file":         {func(s *oauthtest.Switches, _ *oauthtest.Server) { s.Issuer = "file:///etc/passwd" }, "https://"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.as.Set(func(s *oauthtest.Switches) { c.set(s, r.as) })
			r.refusedSignIn(t, c.words)
		})
	}
}

// CVE-2025-6514, openai/codex#37077: what a server calls its sign-in page
// reaches no shell and no scheme handler.
func TestHostileAuthorizationEndpoint(t *testing.T) {
	for _, link := range []string{
		"file:///etc/passwd", "javascript:alert(1)", "smb://evil/share", "ms-msdt:/id PCWDiagnostic", "vscode://x", "data:text/html,x",
		"https://$(touch /tmp/pwned)/", "https://x/\n--flag", "https://x\\@y/", "https://user:pw@x/", "http://login.example/", "//evil.example/", "",
	} {
		t.Run(link, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			if link == "" {
				r.as.Set(func(s *oauthtest.Switches) { s.Authorize = " " })
			} else {
				r.as.Set(func(s *oauthtest.Switches) { s.Authorize = link })
			}
			r.refusedSignIn(t, "authorization endpoint")
			if err := oauth.OpenBrowser(t.Context(), link); err == nil {
				t.Error("OpenBrowser started something")
			}
		})
	}
}

// openclaw#112032, opencode#47814: metadata that names another issuer later
// gets neither the stored refresh token nor the client, and the person is
// told; signing out is what lifts the pin.
func TestMovedIssuerGetsNothing(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	old := mustToken(t, s)
	r.as.Set(func(sw *oauthtest.Switches) { sw.Issuer = r.as.Other })
	r.as.RevokeAll()
	if _, err := s.Replace(t.Context(), old); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Fatalf("Replace: %v, want ErrSignInNeeded", err)
	}
	_, err := s.SignIn(t.Context())
	if err == nil || !strings.Contains(err.Error(), "has moved") || !strings.Contains(err.Error(), "logout") {
		t.Errorf("SignIn: %v, want to be told that the sign-in has moved and what to do", err)
	}
	if got := r.as.Elsewhere(); len(got) != 0 {
		t.Errorf("the new issuer was asked: %v", got)
	}
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SignIn(t.Context()); err == nil {
		t.Error("SignIn at an issuer that has no metadata succeeded")
	}
	if got := r.as.Elsewhere(); len(got) == 0 || slices.ContainsFunc(got, func(p string) bool { return !strings.HasPrefix(p, "GET /.well-known/") }) {
		t.Errorf("after signing out the new issuer was asked %v, want its metadata alone", got)
	}
}

// A server that names a second issuer before the pinned one changes nothing:
// the sign-in stays where it was.
func TestThePinnedIssuerNeedNotBeTheFirst(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	r.as.RevokeAll()
	r.as.Set(func(sw *oauthtest.Switches) { sw.FirstIssuer = r.as.Other })
	if _, err := s.Replace(t.Context(), mustToken(t, s)); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Fatalf("Replace: %v, want ErrSignInNeeded", err)
	}
	r.signIn(t, s)
	if got := r.as.Elsewhere(); len(got) != 0 {
		t.Errorf("the other issuer was asked: %v", got)
	}
}

// An issuer on another origin is accepted when the resource's own metadata
// names it, and the resource's origin then gets no OAuth request of its own
// (mcp-remote#302).
func TestIssuerOnAnotherOriginIsPinned(t *testing.T) {
	r := newRig(t)
	login := oauthtest.New(t)
	r.as.Set(func(s *oauthtest.Switches) { s.Issuer = login.URL })
	login.Set(func(s *oauthtest.Switches) { s.Resource = r.as.Resource() })
	s := r.open(t)
	r.signIn(t, s)
	for i := range 2 {
		if _, err := s.Replace(t.Context(), mustToken(t, s)); err != nil {
			t.Fatalf("Replace %d: %v", i, err)
		}
	}
	want := []string{"authorization_code:200", "refresh_token:200", "refresh_token:200"}
	if got := login.Ledger(); !slices.Equal(got.Grants, want) || got.Registrations != 1 {
		t.Errorf("at the issuer: registrations %d, grants %v", got.Registrations, got.Grants)
	}
	for _, f := range login.Ledger().TokenForms {
		if f.Get("resource") != r.as.Resource() {
			t.Errorf("%s went without the resource", f.Get("grant_type"))
		}
	}
	for _, p := range r.as.Ledger().Paths {
		if p == "POST /token" || p == "POST /register" || strings.Contains(p, "/authorize") {
			t.Errorf("the resource's origin got %s", p)
		}
	}
}

// The specification's three ways to the metadata all work: the challenge, the
// path of the resource, the root.
func TestMetadataIsFound(t *testing.T) {
	for name, set := range map[string]func(*oauthtest.Switches){
		"no challenge": func(s *oauthtest.Switches) { s.NoHeader = true },
		"root only":    func(s *oauthtest.Switches) { s.NoHeader, s.RootOnly = true, true },
		"no scopes":    func(s *oauthtest.Switches) { s.NoScopes = true },
		"scope":        func(s *oauthtest.Switches) { s.Scope = "special" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.as.Set(set)
			r.signIn(t, r.open(t))
			scope := map[string]string{"no scopes": "", "scope": "special"}
			want, ok := scope[name]
			if !ok {
				want = "bellman"
			}
			q := r.as.Ledger().Authorized
			if got := q[len(q)-1].Get("scope"); got != want || q[len(q)-1].Has("scope") != (want != "") {
				t.Errorf("scope %q, want %q", got, want)
			}
		})
	}
}

// RFC 9207: `iss` is compared as it is, before the code or the error text is
// used; a promised one must be there.
func TestIssOfTheAnswer(t *testing.T) {
	for name, c := range map[string]struct {
		iss      func(as *oauthtest.Server) string
		promised bool
		good     bool
	}{
		"promised and right":    {func(*oauthtest.Server) string { return "right" }, true, true},
		"unpromised and right":  {func(*oauthtest.Server) string { return "right" }, false, true},
		"promised and absent":   {func(*oauthtest.Server) string { return "" }, true, false},
		"unpromised and wrong":  {func(as *oauthtest.Server) string { return as.Other }, false, false},
		"promised and wrong":    {func(as *oauthtest.Server) string { return as.Other }, true, false},
		"a slash more":          {func(as *oauthtest.Server) string { return as.URL + "/" }, true, false},
		"in upper case":         {func(as *oauthtest.Server) string { return strings.ToUpper(as.URL) }, true, false},
		"with the resource":     {func(as *oauthtest.Server) string { return as.Resource() }, true, false},
		"with a percent escape": {func(as *oauthtest.Server) string { return strings.Replace(as.URL, ":", "%3A", 1) }, false, false},
	} {
		for _, deny := range []bool{false, true} {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				r := newRig(t)
				r.as.Set(func(s *oauthtest.Switches) { s.Iss, s.IssPromised, s.Deny = c.iss(r.as), c.promised, deny })
				a, err := r.open(t).SignIn(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				err = a.Wait(t.Context())
				switch {
				case c.good && !deny && err != nil:
					t.Errorf("Wait: %v", err)
				case c.good && deny && (err == nil || !strings.Contains(err.Error(), "access_denied")):
					t.Errorf("Wait: %v, want the refusal", err)
				case !c.good && (err == nil || strings.Contains(err.Error(), "access_denied") || strings.Contains(err.Error(), "said no")):
					t.Errorf("Wait: %v, want an error with nothing of the answer", err)
				}
				if n := len(r.as.Ledger().Grants); n != 0 && (!c.good || deny) {
					t.Errorf("the code was sent %d times", n)
				}
			})
		}
	}
}
