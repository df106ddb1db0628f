package oauth_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// A refresh that is under way when the bridge is told to end is finished and
// written down: the next start finds the new pair and asks nobody.
func TestRefreshDuringCloseIsWritten(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	old := mustToken(t, s)
	r.as.Forget()
	r.as.Set(func(sw *oauthtest.Switches) { sw.TokenDelay = 300 * time.Millisecond })
	done := make(chan error, 1)
	go func() {
		_, err := s.Replace(t.Context(), old)
		done <- err
	}()
	eventually(t, "the refresh token is on its way", func() bool { return len(r.as.Ledger().TokenForms) == 1 })
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close: %v", err)
	}
	if err := <-done; err != nil {
		t.Errorf("Replace: %v", err)
	}
	if got := mustToken(t, r.open(t)); got == old || r.call(t, got) != 200 {
		t.Error("the next start does not have the new token")
	}
	if got := r.as.Ledger().Grants; !slices.Equal(got, []string{"refresh_token:200"}) {
		t.Errorf("grants: %v, want one refresh", got)
	}
}

// A call that is given up on in the middle of a refresh does not take the new
// pair with it.
func TestCancelledCallerLosesNoPair(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	old := mustToken(t, s)
	r.as.Forget()
	r.as.Set(func(sw *oauthtest.Switches) { sw.TokenDelay = 300 * time.Millisecond })
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := s.Replace(ctx, old)
		done <- err
	}()
	eventually(t, "the refresh token is on its way", func() bool { return len(r.as.Ledger().TokenForms) == 1 })
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Replace: %v, want context.Canceled", err)
	}
	fresh, err := s.Replace(t.Context(), old)
	if err != nil || r.call(t, fresh) != 200 {
		t.Errorf("Replace again: %v", err)
	}
	if got := r.as.Ledger().Grants; !slices.Equal(got, []string{"refresh_token:200"}) {
		t.Errorf("grants: %v, want one refresh", got)
	}
}

// A person who takes their time at one server holds up nothing at another,
// and the two sign-ins share nothing.
func TestServersDoNotWaitForOneAnother(t *testing.T) {
	r, other := newRig(t), newRig(t)
	other.dir = r.dir
	waiting := r.begun(t, r.open(t, noBrowser))
	s := other.open(t)
	other.signIn(t, s)
	tok := mustToken(t, s)
	if other.call(t, tok) != 200 || r.call(t, tok) == 200 {
		t.Error("the token is not the other server's alone")
	}
	r.finishes(t, waiting)
	if a, b := r.as.Ledger().Registrations, other.as.Ledger().Registrations; a != 1 || b != 1 {
		t.Errorf("registrations: %d and %d, want one each", a, b)
	}
}

// A sign-in that is kept in memory works, refreshes and ends like any other,
// and the state file promises nobody anything of it.
func TestMemoryStoreEndsWithItsProcess(t *testing.T) {
	r := newRig(t)
	r.store = oauth.MemoryStore()
	s := r.open(t)
	changed := s.Changed()
	r.signIn(t, s)
	told(t, changed)
	fresh, err := s.Replace(t.Context(), mustToken(t, s))
	if err != nil || r.call(t, fresh) != 200 {
		t.Fatalf("Replace: %v", err)
	}
	if _, ok := s.Identity(); !ok {
		t.Error("nobody is signed in")
	}
	r.store = oauth.MemoryStore()
	next := r.open(t)
	if _, err := next.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("another process's Token: %v, want ErrSignInNeeded", err)
	}
	if id, ok := next.Identity(); ok {
		t.Errorf("another process's Identity: %+v", id)
	}
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Token after signing out: %v, want ErrSignInNeeded", err)
	}
}

// BenchmarkToken is what a signed-in call pays for its token: a look at the
// state file, and neither the store nor the network.
func BenchmarkToken(b *testing.B) {
	r := &rig{as: oauthtest.New(b), dir: b.TempDir(), store: &sharedStore{}, ports: freePorts(b, 1)}
	r.browser = r.as.NewBrowser(b, "jesse")
	s, err := oauth.New(r.config())
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = s.Close(context.WithoutCancel(b.Context())) })
	a, err := s.SignIn(b.Context())
	if err == nil {
		err = a.Wait(b.Context())
	}
	if err != nil {
		b.Fatal(err)
	}
	r.as.Forget()
	before := r.store.(*sharedStore).reads()
	for b.Loop() {
		if _, err := s.Token(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	if n := r.store.(*sharedStore).reads() - before; n > 1 || len(r.as.Ledger().Paths) != 0 {
		b.Errorf("store reads %d, requests %v", n, r.as.Ledger().Paths)
	}
}
