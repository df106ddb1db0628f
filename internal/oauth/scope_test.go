package oauth_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// more is the challenge of a service that wants this access.
func more(scope string) []string {
	return []string{`Basic realm="x"`, `Bearer error="insufficient_scope", scope="` + scope + `"`}
}

// asked returns the scopes that the person was last asked for.
func (r *rig) asked() string {
	all := r.as.Ledger().Authorized
	return all[len(all)-1].Get("scope")
}

// A service that wants more access gets a sign-in for what there is and what
// it wants; every copy then has it, and asks for no more of the same.
func TestMoreAccessIsAskedForOnce(t *testing.T) {
	r := newRig(t)
	s, other := r.open(t), r.open(t)
	r.signIn(t, s)
	narrow := mustToken(t, s)
	mustToken(t, other)
	for range 3 {
		if _, err := s.Widen(t.Context(), narrow, more("write")); !errors.Is(err, oauth.ErrSignInNeeded) {
			t.Fatalf("Widen: %v, want ErrSignInNeeded", err)
		}
	}
	if n := len(r.browser.Opened()); n != 1 {
		t.Fatalf("browsers opened: %d, want the first sign-in's alone", n)
	}
	r.signIn(t, s)
	if got := r.asked(); got != "write bellman" {
		t.Errorf("asked for %q", got)
	}
	wide := mustToken(t, s)
	if wide == narrow {
		t.Fatal("the narrow token is still used")
	}
	if got, err := other.Widen(t.Context(), narrow, more("write")); err != nil || got != wide {
		t.Errorf("another copy: adopted %v, err %v", got == wide, err)
	}
	for _, x := range []*oauth.Session{s, other, r.open(t)} {
		if _, err := x.Widen(t.Context(), wide, more("write bellman")); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
			t.Errorf("Widen for what it has: %v, want the refusal to stand", err)
		}
	}
	fresh, err := s.Replace(t.Context(), wide)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := r.open(t).Widen(t.Context(), fresh, more("write")); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Widen after a refresh: %v, want the refusal to stand", err)
	}
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.signIn(t, s)
	if got := r.asked(); got != "bellman" {
		t.Errorf("asked for %q after signing out", got)
	}
}

// A service that never has enough is given up on after three questions, and
// one whose wish makes no sense is not asked for at all.
func TestAccessIsNotAskedForWithoutEnd(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	for name, challenges := range map[string][]string{
		"no challenge": nil, "another error": {`Bearer error="invalid_token", scope="write"`}, "no scope": {`Bearer error="insufficient_scope"`},
		"not a scope": more(`wri\"te`), "a scope and what is none": more("write \u202e"), "too long": more(strings.Repeat("x", 600)),
		"another scheme": {`Basic error="insufficient_scope", scope="write"`},
	} {
		if _, err := s.Widen(t.Context(), mustToken(t, s), challenges); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
			t.Errorf("%s: %v, want the refusal to stand", name, err)
		}
	}
	questions := 0
	for i := range 10 {
		_, err := s.Widen(t.Context(), mustToken(t, s), more(fmt.Sprint("more", i)))
		if errors.Is(err, oauth.ErrSignInNeeded) {
			questions++
			r.signIn(t, s)
		}
	}
	if questions != 3 {
		t.Errorf("the person was asked %d times", questions)
	}
}

// A server with very many scopes is asked for all of them, what is kept of that
// leaves room for the tokens, and what it wants beyond comes first.
func TestManyScopesLeaveRoomForTheTokens(t *testing.T) {
	r := newRig(t)
	var all []string
	for i := range 400 {
		all = append(all, fmt.Sprintf("scope:%d", i))
	}
	r.as.Set(func(s *oauthtest.Switches) { s.Scope = strings.Join(all, " ") })
	s := r.open(t)
	r.signIn(t, s)
	if got := r.asked(); got != strings.Join(all, " ") {
		t.Errorf("asked for %d bytes of scopes", len(got))
	}
	if got := mustToken(t, r.open(t)); got != mustToken(t, s) {
		t.Error("the sign-in was not kept")
	}
	if _, err := s.Widen(t.Context(), mustToken(t, s), more("write")); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Fatalf("Widen: %v, want ErrSignInNeeded", err)
	}
	r.signIn(t, s)
	if got := r.asked(); !strings.Contains(" "+got+" ", " write ") {
		t.Errorf("asked for %q, without what was wanted", got)
	}
}

// Widening without a sign-in is a matter of signing in.
func TestWideningNothing(t *testing.T) {
	r := newRig(t)
	if _, err := r.open(t).Widen(t.Context(), "x", more("write")); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Widen: %v, want ErrSignInNeeded", err)
	}
}

// A server that lists scopes by the thousand does not make an address that no
// browser takes.
func TestScopesWithoutEndAreCut(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.Scope = strings.Repeat("scope:more ", 1000) + "last" })
	r.signIn(t, r.open(t))
	if got := r.asked(); len(got) > 6<<10 || got == "" {
		t.Errorf("asked for %d bytes of scopes", len(got))
	}
}
