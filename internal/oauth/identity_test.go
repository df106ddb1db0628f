package oauth_test

import (
	"strings"
	"testing"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// who is a claim with one field changed; nil leaves the field out.
func who(field string, value any) map[string]any {
	c := map[string]any{"userId": "u_test_jesse", "label": "jesse@example.dev", "plan": "free", "role": "member", "orgId": nil}
	if value == nil {
		delete(c, field)
	} else {
		c[field] = value
	}
	return c
}

// A token that does not say in full who is signed in names nobody, and the
// sign-in works all the same.
func TestUnreadableIdentities(t *testing.T) {
	for name, claim := range map[string]any{
		"no label": who("label", nil), "null label": who("label", []any(nil)), "empty label": who("label", ""), "blank label": who("label", " \t"),
		"number label": who("label", 42), "object label": who("label", map[string]any{}), "no plan": who("plan", nil), "blank plan": who("plan", " "),
		"no role": who("role", nil), "number role": who("role", 7), "empty org": who("orgId", ""), "number org": who("orgId", 42), "empty": map[string]any{},
		"text": "jesse", "list": []any{1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.as.Set(func(s *oauthtest.Switches) { s.Claim = claim })
			s := r.open(t)
			r.signIn(t, s)
			for _, x := range []*oauth.Session{s, r.open(t)} {
				if id, ok := x.Identity(); ok || id.Label != "" || id.Plan != "" {
					t.Errorf("Identity: %+v, %v; want nobody", id, ok)
				}
			}
			if got := r.call(t, mustToken(t, s)); got != 200 {
				t.Errorf("call: status %d", got)
			}
		})
	}
}

// What a claim holds is for display: cut, on one line, and with nothing that
// hides or steers.
func TestIdentityIsFitToShow(t *testing.T) {
	r := newRig(t)
	claim := who("label", "a\x1b[31m\u202eb\n"+strings.Repeat("é", 1000))
	claim["orgId"] = "acme"
	r.as.Set(func(s *oauthtest.Switches) { s.Claim = claim })
	r.signIn(t, r.open(t))
	id, ok := r.open(t).Identity()
	if !ok || len([]rune(id.Label)) != 256 || strings.ContainsAny(id.Label, "\x1b\u202e\n") {
		t.Errorf("label %q (%d characters), ok %v", id.Label, len([]rune(id.Label)), ok)
	}
	if id.OrgID == nil || *id.OrgID != "acme" {
		t.Errorf("org %v, want acme", id.OrgID)
	}
}

// An opaque token has no identity and is as good as any other.
func TestOpaqueToken(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.OpaqueToken = true })
	s := r.open(t)
	r.signIn(t, s)
	if id, ok := s.Identity(); ok {
		t.Errorf("Identity: %+v", id)
	}
	mustToken(t, s)
}

// Who is signed in where the sign-in used to be kept is not said to be signed
// in here.
func TestIdentityOfAnotherStoreIsNobody(t *testing.T) {
	r := newRig(t)
	r.signIn(t, r.open(t))
	s := r.open(t, func(c *oauth.Config) { c.Store = oauth.FileStore(oauth.CredentialFile(r.dir, r.as.Resource())) })
	if id, ok := s.Identity(); ok || id.UserID != "" {
		t.Errorf("Identity: %+v, %v", id, ok)
	}
}
