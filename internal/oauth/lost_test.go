package oauth_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// The answer to a refresh is lost on the way. A server with a grace window
// gives it again; a strict one ends the sign-in: one more request, no loop,
// no browser.
func TestLostRefreshAnswer(t *testing.T) {
	for name, grace := range map[string]time.Duration{"grace": time.Hour, "strict": 0} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.open(t)
			r.signIn(t, s)
			old := mustToken(t, s)
			r.as.Forget()
			r.as.Set(func(sw *oauthtest.Switches) { sw.DropRotation, sw.ReuseGrace = 1, grace })
			_, err := s.Replace(t.Context(), old)
			if err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
				t.Fatalf("Replace: %v, want a passing error", err)
			}
			eventually(t, "it is decided", func() bool {
				_, err = s.Replace(t.Context(), old)
				return err == nil || errors.Is(err, oauth.ErrSignInNeeded)
			})
			if (err == nil) != (grace > 0) {
				t.Errorf("Replace again: %v", err)
			}
			for range 3 {
				_, _ = s.Replace(t.Context(), old)
			}
			want := []string{"refresh_token:200", "refresh_token:400"}
			if grace > 0 {
				want = []string{"refresh_token:200", "refresh_token:200"}
			}
			if got := r.as.Ledger().Grants; !slices.Equal(got, want) {
				t.Errorf("grants: %v, want %v", got, want)
			}
			if n := len(r.browser.Opened()); n != 1 {
				t.Errorf("browsers opened: %d, want the sign-in's alone", n)
			}
		})
	}
}

// A server that is down and still says invalid_grant, as gateways do, has
// decided nothing.
func TestBrokenServerEndsNothing(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	r.as.Set(func(sw *oauthtest.Switches) { sw.TokenStatus, sw.TokenCode = 503, "invalid_grant" })
	if _, err := s.Replace(t.Context(), mustToken(t, s)); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Replace: %v, want a passing error", err)
	}
	if _, ok := s.Identity(); !ok {
		t.Error("the sign-in is gone")
	}
}

// A client that the token endpoint does not know any more is registered again
// by the next sign-in, once, whether a refresh or an exchange found it out.
func TestForgottenClientIsRegisteredAgain(t *testing.T) {
	for _, first := range []string{"refresh", "exchange"} {
		t.Run(first, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			s := r.open(t)
			r.signIn(t, s)
			tok := mustToken(t, s)
			r.as.Set(func(sw *oauthtest.Switches) { sw.TokenError = "invalid_client" })
			if first == "refresh" {
				if _, err := s.Replace(t.Context(), tok); !errors.Is(err, oauth.ErrSignInNeeded) {
					t.Errorf("Replace: %v, want ErrSignInNeeded", err)
				}
			} else {
				if err := s.SignOut(t.Context()); err != nil {
					t.Fatal(err)
				}
				a, err := s.SignIn(t.Context())
				if err == nil {
					err = a.Wait(t.Context())
				}
				if err == nil || !strings.Contains(err.Error(), "invalid_client") {
					t.Errorf("SignIn: %v, want the reason", err)
				}
			}
			r.as.Set(func(sw *oauthtest.Switches) { sw.TokenError = "" })
			a, err := s.Login(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := a.Wait(t.Context()); err != nil {
				t.Fatal(err)
			}
			if got := r.as.Ledger().Registrations; got != 2 {
				t.Errorf("registrations: %d, want 2", got)
			}
		})
	}
}

// mcp-go#646, mcp-go#835: an error that calls itself success stores nothing.
func TestErrorAsSuccessStoresNothing(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.TokenError, s.ErrorAs200 = "server_error", true })
	s := r.open(t)
	a := r.begun(t, s)
	if err := a.Wait(t.Context()); err == nil {
		t.Error("Wait succeeded")
	}
	if item, _ := r.store.Get(t.Context()); item != nil {
		t.Error("something was stored")
	}
	if _, err := s.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Token: %v, want ErrSignInNeeded", err)
	}
}

// A service that refuses every token is not asked for new ones without end.
func TestRefusedTokensAreNoLoop(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	tok := mustToken(t, s)
	r.as.Forget()
	for range 20 {
		next, err := s.Replace(t.Context(), tok)
		if err == nil {
			tok = next
		}
	}
	if n := len(r.as.Ledger().Grants); n > 3 {
		t.Errorf("refreshes: %d for tokens refused at once, want at most 3", n)
	}
}

// A store that cannot be read ends the sign-in before anybody is sent to a
// browser for something that could not be kept.
func TestUnreadableStoreOpensNoBrowser(t *testing.T) {
	r := newRig(t)
	r.store.(*sharedStore).setFail(errors.New("locked"))
	s := r.open(t)
	if _, err := s.Token(t.Context()); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Token: %v, want the store's error", err)
	}
	if _, err := s.SignIn(t.Context()); err == nil || !strings.Contains(err.Error(), "locked") {
		t.Errorf("SignIn: %v, want the store's error", err)
	}
	if n := len(r.browser.Opened()); n != 0 {
		t.Errorf("browsers opened: %d", n)
	}
}

// Neither does a sign-in server in trouble: a sign-in that is there and cannot
// be refreshed for the moment is not one that is over.
func TestASignInServerInTroubleOpensNoBrowser(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	r.as.Set(func(sw *oauthtest.Switches) { sw.TokenStatus = 502 })
	_, _ = s.Replace(t.Context(), mustToken(t, s))
	if _, err := s.SignIn(t.Context()); err == nil || errors.Is(err, oauth.ErrSignInNeeded) || !strings.Contains(err.Error(), "502") {
		t.Errorf("SignIn: %v, want the trouble", err)
	}
	if n := len(r.browser.Opened()); n != 1 {
		t.Errorf("browsers opened: %d, want the first sign-in's alone", n)
	}
}

// Damaged state and damaged items read as signed out, and a sign-in mends
// them.
func TestDamagedFilesAreMended(t *testing.T) {
	for name, damage := range map[string]string{
		"empty": "", "cut": `{"version":1,"gen":`, "list": `[]`, "null": `null`, "another version": `{"version":99}`, "text": "hello", "binary": "\x00\xff\xfe",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.store = oauth.FileStore(oauth.CredentialFile(r.dir, r.as.Resource()))
			r.signIn(t, r.open(t))
			for _, file := range []string{"state.json", "credential.json", "signin.json"} {
				path := filepath.Join(filepath.Dir(oauth.CredentialFile(r.dir, r.as.Resource())), file)
				if err := os.WriteFile(path, []byte(damage), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			s := r.open(t)
			if _, err := s.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
				t.Errorf("Token: %v, want ErrSignInNeeded", err)
			}
			r.signIn(t, s)
			if got := r.call(t, mustToken(t, r.open(t))); got != 200 {
				t.Errorf("call: status %d", got)
			}
		})
	}
}

// An item that names another server, or another place to send its refresh
// token to, is not used: what something else wrote there leads nowhere.
func TestPlantedItemLeadsNowhere(t *testing.T) {
	for name, change := range map[string]func(item map[string]any, as *oauthtest.Server){
		"token endpoint": func(i map[string]any, as *oauthtest.Server) { i["te"] = as.Other + "/token" },
		"resource":       func(i map[string]any, as *oauthtest.Server) { i["res"] = as.Other + "/mcp" },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.signIn(t, r.open(t))
			store := r.store.(*sharedStore)
			item := map[string]any{}
			b, err := store.Get(t.Context())
			if err == nil {
				err = json.Unmarshal(b, &item)
			}
			if err != nil {
				t.Fatal(err)
			}
			change(item, r.as)
			delete(item, "at")
			if b, err = json.Marshal(item); err == nil {
				err = store.Set(t.Context(), b)
			}
			if err != nil {
				t.Fatal(err)
			}
			if _, err := r.open(t).Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
				t.Errorf("Token: %v, want ErrSignInNeeded", err)
			}
			if got := r.as.Elsewhere(); len(got) != 0 {
				t.Errorf("the other origin was asked: %v", got)
			}
		})
	}
}

// A service that refuses whatever its own sign-in server gives, without a
// refresh to be had, is shown to the person twice; after that there is the
// link, and no tab at every call.
func TestSignInsInVainOpenTwoTabsAtMost(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	for range 5 {
		a, err := s.SignIn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if !a.Opened() {
			if _, err := r.browser.Finish(t.Context(), a.Link()); err != nil {
				t.Fatal(err)
			}
		}
		if err := a.Wait(t.Context()); err != nil {
			t.Fatal(err)
		}
		tok := mustToken(t, s)
		r.as.RevokeAll()
		if _, err := s.Replace(t.Context(), tok); !errors.Is(err, oauth.ErrSignInNeeded) {
			t.Fatalf("Replace: %v, want ErrSignInNeeded", err)
		}
	}
	if n := len(r.browser.Opened()); n != 2 {
		t.Errorf("browsers opened: %d, want 2", n)
	}
}
