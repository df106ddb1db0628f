package oauth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"bellman.sh/desktop/internal/oauth"
)

// Signing out while the keychain cannot be used, so that this process has only
// its memory, says that an item stays behind; and the item counts as none when
// the keychain is back.
func TestSignOutReachesAnItemOutOfReach(t *testing.T) {
	r := newRig(t)
	r.signIn(t, r.open(t))
	without := r.open(t, func(c *oauth.Config) { c.Store = oauth.MemoryStore() })
	if err := without.SignOut(t.Context()); err == nil || !strings.Contains(err.Error(), "keychain") {
		t.Errorf("SignOut: %v, want to be told about the item in the keychain", err)
	}
	back := r.open(t)
	if _, err := back.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Token once the keychain is back: %v, want ErrSignInNeeded", err)
	}
	if id, ok := back.Identity(); ok {
		t.Errorf("Identity still reports %v", id)
	}
	if err := without.SignOut(t.Context()); err != nil {
		t.Errorf("SignOut again: %v", err)
	}
}

// A sign-in that lives in memory goes through everything that one in a
// keychain does, beside an older one that was signed out, and leaves nothing
// for the next process.
func TestSignInInMemory(t *testing.T) {
	r := newRig(t)
	kept := r.open(t)
	r.signIn(t, kept)
	if err := kept.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	memory := func(c *oauth.Config) { c.Store = oauth.MemoryStore() }
	s := r.open(t, memory)
	changed := s.Changed()
	r.signIn(t, s)
	told(t, changed)
	tok := mustToken(t, s)
	for range 2 {
		fresh, err := s.Replace(t.Context(), tok)
		if err != nil || fresh == tok || r.call(t, fresh) != 200 {
			t.Fatalf("Replace: same token %v, err %v", fresh == tok, err)
		}
		tok = fresh
	}
	if id, ok := s.Identity(); !ok || id.Label != "jesse@example.dev" {
		t.Errorf("Identity: %v, %v", id, ok)
	}
	if _, ok := r.open(t).Identity(); ok {
		t.Error("another process is told of a sign-in that it does not have")
	}
	if b, err := os.ReadFile(r.statePath(t)); err != nil || strings.Contains(string(b), "jesse") {
		t.Errorf("the state file names who is signed in in memory alone: %s, %v", b, err)
	}
	if _, err := r.open(t, memory).Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Token of the next process: %v, want ErrSignInNeeded", err)
	}
	r.as.RevokeAll()
	if _, err := s.Replace(t.Context(), tok); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Replace of a dead one: %v, want ErrSignInNeeded", err)
	}
	r.signIn(t, s)
	if got := r.call(t, mustToken(t, s)); got != 200 {
		t.Errorf("call after signing in again: status %d", got)
	}
}

// A state file that was taken away does not make every call read the
// keychain.
func TestStateFileTakenAway(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	if err := os.Remove(r.statePath(t)); err != nil {
		t.Fatal(err)
	}
	mustToken(t, s)
	before := r.store.(*sharedStore).reads()
	for range 20 {
		mustToken(t, s)
	}
	if n := r.store.(*sharedStore).reads() - before; n != 0 {
		t.Errorf("store reads: %d, want none", n)
	}
}

// Signing out that comes to nothing, because another copy is stopped in the
// middle of a refresh, says so: the sign-in is still there.
func TestSignOutThatCannotHappenSaysSo(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	held := flock.New(filepath.Join(filepath.Dir(r.statePath(t)), "refresh.lock"))
	if ok, err := held.TryLock(); !ok || err != nil {
		t.Fatal(ok, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	if err := s.SignOut(ctx); !errors.Is(err, oauth.ErrStillSignedIn) {
		t.Errorf("SignOut: %v, want ErrStillSignedIn", err)
	}
	if got := r.call(t, mustToken(t, s)); got != 200 {
		t.Errorf("a call afterwards: status %d", got)
	}
	if err := held.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.SignOut(t.Context()); err != nil {
		t.Errorf("SignOut: %v", err)
	}
}
