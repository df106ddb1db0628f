package oauth_test

import (
	"errors"
	"testing"

	"bellman.sh/desktop/internal/oauth"
)

// Signing out forgets the person and the pins, keeps the registration, and is
// seen by other copies.
func TestSignOut(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	other := r.open(t)
	mustToken(t, other)
	changed := other.Changed()
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	told(t, changed)
	for _, x := range []*oauth.Session{s, other} {
		if _, err := x.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
			t.Errorf("Token after signing out: %v, want ErrSignInNeeded", err)
		}
		if _, ok := x.Identity(); ok {
			t.Error("Identity after signing out reports somebody")
		}
	}
	if item, _ := r.store.Get(t.Context()); item != nil {
		t.Error("the item is still stored")
	}
}

// A keychain that cannot delete the item does not keep the person signed in:
// every copy, later ones too, counts the item as none.
func TestSignOutHoldsWhenTheItemStays(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	store := r.store.(*sharedStore)
	store.setFail(errors.New("locked"))
	if err := s.SignOut(t.Context()); err == nil {
		t.Error("SignOut does not say that the item stays")
	}
	store.setFail(nil)
	if item, _ := store.Get(t.Context()); item == nil {
		t.Fatal("the item is gone, so this tests nothing")
	}
	for _, x := range []*oauth.Session{s, r.open(t)} {
		if _, err := x.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
			t.Errorf("Token: %v, want ErrSignInNeeded", err)
		}
	}
	r.signIn(t, s)
	if got := r.call(t, mustToken(t, r.open(t))); got != 200 {
		t.Errorf("call after signing in again: status %d", got)
	}
}
