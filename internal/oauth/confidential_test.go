package oauth_test

import (
	"testing"

	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// Some servers give every client a secret and insist on seeing it. It is kept
// with the tokens and nowhere else: the state file has no registration with a
// secret, and the next sign-in registers anew.
func TestServersThatInsistOnAClientSecret(t *testing.T) {
	for _, method := range []string{"client_secret_basic", "client_secret_post"} {
		t.Run(method, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.as.Set(func(s *oauthtest.Switches) { s.ClientAuth = method })
			s := r.open(t)
			r.signIn(t, s)
			if got := r.as.Ledger().LastClient["token_endpoint_auth_method"]; got != method {
				t.Errorf("registered with %v, want %v", got, method)
			}
			fresh, err := r.open(t).Replace(t.Context(), mustToken(t, s))
			if err != nil || r.call(t, fresh) != 200 {
				t.Fatalf("refresh by another copy: %v", err)
			}
			if err := s.SignOut(t.Context()); err != nil {
				t.Fatal(err)
			}
			r.signIn(t, s)
			if n := r.as.Ledger().Registrations; n != 2 {
				t.Errorf("registrations: %d, want one for each sign-in", n)
			}
		})
	}
}
