package oauth_test

import (
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// A signed-in call reads the store once in the life of a process and asks the
// network nothing.
func TestTokenIsCached(t *testing.T) {
	r := newRig(t)
	r.signIn(t, r.open(t))
	s := r.open(t)
	before := r.store.(*sharedStore).reads()
	r.as.Forget()
	for range 100 {
		mustToken(t, s)
	}
	if n := r.store.(*sharedStore).reads() - before; n != 1 {
		t.Errorf("store reads: %d, want 1", n)
	}
	if paths := r.as.Ledger().Paths; len(paths) != 0 {
		t.Errorf("requests: %v, want none", paths)
	}
}

// An expired token is refreshed once, however many callers and copies want it.
func TestExpiredTokenIsRefreshedOnce(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.Lifetime = time.Second; s.RevokeFamily = true })
	r.signIn(t, r.open(t))
	time.Sleep(time.Second)
	r.as.Set(func(s *oauthtest.Switches) { s.Lifetime = time.Hour; s.TokenDelay = 50 * time.Millisecond })
	r.as.Forget()
	var wg sync.WaitGroup
	for range 4 {
		s := r.open(t)
		for range 5 {
			wg.Go(func() {
				if _, err := s.Token(t.Context()); err != nil {
					t.Errorf("Token: %v", err)
				}
			})
		}
	}
	wg.Wait()
	if got := r.as.Ledger().Grants; !slices.Equal(got, []string{"refresh_token:200"}) {
		t.Errorf("grants: %v, want one refresh", got)
	}
}

// A 401 replaces exactly the refused token, once for all who were refused.
func TestReplaceComparesFirst(t *testing.T) {
	r := newRig(t)
	s, other := r.open(t), r.open(t)
	r.signIn(t, s)
	old := mustToken(t, s)
	mustToken(t, other)
	r.as.Forget()
	fresh, err := s.Replace(t.Context(), old)
	if err != nil || fresh == old {
		t.Fatalf("Replace: same token %v, err %v", fresh == old, err)
	}
	for _, x := range []*oauth.Session{s, other} {
		got, err := x.Replace(t.Context(), old)
		if err != nil || got != fresh {
			t.Errorf("Replace again: adopted %v, err %v", got == fresh, err)
		}
	}
	if got := r.as.Ledger().Grants; !slices.Equal(got, []string{"refresh_token:200"}) {
		t.Errorf("grants: %v, want one refresh", got)
	}
}

// A dead refresh token means that a sign-in is needed, at once and for every
// copy, with one request in total; the next sign-in recovers.
func TestDeadRefreshToken(t *testing.T) {
	r := newRig(t)
	s, other := r.open(t), r.open(t)
	r.signIn(t, s)
	old := mustToken(t, s)
	mustToken(t, other)
	r.as.RevokeAll()
	r.as.Forget()
	for _, x := range []*oauth.Session{s, s, other, r.open(t)} {
		if _, err := x.Replace(t.Context(), old); !errors.Is(err, oauth.ErrSignInNeeded) {
			t.Errorf("Replace: %v, want ErrSignInNeeded", err)
		}
		if _, ok := x.Identity(); ok {
			t.Error("Identity still reports somebody")
		}
	}
	if got := r.as.Ledger().Grants; !slices.Equal(got, []string{"refresh_token:400"}) {
		t.Errorf("grants: %v, want one refused refresh", got)
	}
	if n := len(r.browser.Opened()); n != 1 {
		t.Errorf("browsers opened: %d, want only the first sign-in's", n)
	}
	r.signIn(t, s)
	if got := r.call(t, mustToken(t, other)); got != 200 {
		t.Errorf("call after signing in again: status %d, want 200", got)
	}
}

// What passes keeps the sign-in and never asks for the person: a firewall's
// page, a busy server, a lost connection, an answer that makes no sense.
func TestPassingFailuresKeepTheSignIn(t *testing.T) {
	for name, fault := range map[string]func(*oauthtest.Switches){
		"500":                     func(s *oauthtest.Switches) { s.TokenStatus = 500 },
		"502 page":                func(s *oauthtest.Switches) { s.TokenStatus, s.TokenHTML = 502, true },
		"403 page":                func(s *oauthtest.Switches) { s.TokenStatus, s.TokenHTML = 403, true },
		"429":                     func(s *oauthtest.Switches) { s.TokenStatus, s.RetryAfter = 429, "1" },
		"200 page":                func(s *oauthtest.Switches) { s.TokenStatus, s.TokenHTML = 200, true },
		"temporarily unavailable": func(s *oauthtest.Switches) { s.TokenError = "temporarily_unavailable" },
		"put back":                func(s *oauthtest.Switches) { s.Restore503 = 1 },
		"error as success":        func(s *oauthtest.Switches) { s.TokenError, s.ErrorAs200 = "server_error", true },
		"redirect":                func(s *oauthtest.Switches) { s.TokenMoved = "/elsewhere" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.open(t)
			r.signIn(t, s)
			old := mustToken(t, s)
			r.as.Set(fault)
			_, err := s.Replace(t.Context(), old)
			if err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
				t.Fatalf("Replace: %v, want a passing error", err)
			}
			if _, ok := s.Identity(); !ok {
				t.Error("Identity is gone")
			}
			r.as.Set(func(s *oauthtest.Switches) { *s = oauthtest.Switches{} })
			var fresh string
			eventually(t, "the refresh succeeds", func() bool {
				fresh, err = s.Replace(t.Context(), old)
				return err == nil
			})
			if got := r.call(t, fresh); got != 200 {
				t.Errorf("call: status %d, want 200", got)
			}
			if n := len(r.browser.Opened()); n != 1 {
				t.Errorf("browsers opened: %d, want only the sign-in's", n)
			}
		})
	}
}

// x/oauth2 and net/http would re-post a refresh token to wherever a 307 says.
func TestTokenRequestsFollowNoRedirect(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	r.as.Set(func(sw *oauthtest.Switches) { sw.TokenMoved = r.as.Other + "/token" })
	if _, err := s.Replace(t.Context(), mustToken(t, s)); err == nil {
		t.Error("Replace succeeded")
	}
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := s.SignIn(t.Context())
	if err == nil {
		err = a.Wait(t.Context())
	}
	if err == nil {
		t.Error("SignIn succeeded")
	}
	if got := r.as.Elsewhere(); len(got) != 0 {
		t.Errorf("the other origin was asked: %v", got)
	}
}

// A keychain that stops taking writes costs nothing but the next start.
func TestUnsavedRotationStaysInMemory(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	store := r.store.(*sharedStore)
	store.setFail(errors.New("locked"))
	fresh, err := s.Replace(t.Context(), mustToken(t, s))
	if err != nil || r.call(t, fresh) != 200 {
		t.Fatalf("Replace with a failing store: %v", err)
	}
	again, err := s.Replace(t.Context(), fresh)
	if err != nil || r.call(t, again) != 200 {
		t.Fatalf("Replace again: %v", err)
	}
	if n := strings.Count(r.logs.String(), "could not be stored"); n != 1 {
		t.Errorf("said %d times that the sign-in is not stored, want once", n)
	}
	store.setFail(nil)
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.call(t, mustToken(t, r.open(t))); got != 200 {
		t.Errorf("call after a restart: status %d, want 200", got)
	}
}

// Servers differ in how they tell the expiry and whether they rotate.
func TestTokenAnswerForms(t *testing.T) {
	for name, form := range map[string]func(*oauthtest.Switches){
		"201":          func(s *oauthtest.Switches) { s.Success201 = true },
		"no expiry":    func(s *oauthtest.Switches) { s.NoExpiry = true },
		"string":       func(s *oauthtest.Switches) { s.StringExpiry = true },
		"a fraction":   func(s *oauthtest.Switches) { s.OddExpiry = 600.5 },
		"no number":    func(s *oauthtest.Switches) { s.OddExpiry = []string{"soon"} },
		"negative":     func(s *oauthtest.Switches) { s.OddExpiry = -5 },
		"without end":  func(s *oauthtest.Switches) { s.OddExpiry = 1e30 },
		"no rotation":  func(s *oauthtest.Switches) { s.NoRotation = true },
		"long token":   func(s *oauthtest.Switches) { s.PadToken = 3000 },
		"clock behind": func(s *oauthtest.Switches) { s.ClockOffset = -time.Hour },
		"clock ahead":  func(s *oauthtest.Switches) { s.ClockOffset = time.Hour },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.as.Set(form)
			s := r.open(t)
			r.signIn(t, s)
			tok := mustToken(t, s)
			for range 2 {
				fresh, err := s.Replace(t.Context(), tok)
				if err != nil || fresh == tok || r.call(t, fresh) != 200 {
					t.Fatalf("Replace: same token %v, err %v", fresh == tok, err)
				}
				tok = fresh
			}
			if got := r.call(t, mustToken(t, r.open(t))); got != 200 {
				t.Errorf("call after a restart: status %d, want 200", got)
			}
			if _, ok := r.open(t).Identity(); !ok {
				t.Error("Identity is not known")
			}
		})
	}
}

// A token that no header can hold is none: it would fail every call, and never
// be refused and so replaced.
func TestATokenThatCannotBeSentIsNone(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	tok := mustToken(t, s)
	r.as.Set(func(s *oauthtest.Switches) { s.BrokenToken = true })
	if _, err := s.Replace(t.Context(), tok); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Replace: %v, want a passing error", err)
	}
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	a, err := s.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "cannot be sent") {
		t.Errorf("signing in: %v", err)
	}
}
