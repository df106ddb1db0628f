package oauth_test

import (
	"context"
	"errors"
	"os"
	"testing"

	"bellman.sh/desktop/internal/oauth"
)

// A sign-in that one copy found dead is dead for the others at once: they are
// told, and send their token no more.
func TestADeadSignInIsKnownToEveryCopy(t *testing.T) {
	r := newRig(t)
	s, other := r.open(t), r.open(t)
	r.signIn(t, s)
	mustToken(t, other)
	changed := other.Changed()
	r.as.RevokeAll()
	if _, err := s.Replace(t.Context(), mustToken(t, s)); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Fatalf("Replace: %v", err)
	}
	if _, err := other.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("another copy's Token: %v, want ErrSignInNeeded", err)
	}
	told(t, changed)
}

// The same is true of one that lives in memory, for those who wait in this
// process.
func TestADeadSignInInMemoryIsAnnounced(t *testing.T) {
	r := newRig(t)
	r.store = oauth.MemoryStore()
	s := r.open(t)
	r.signIn(t, s)
	changed := s.Changed()
	r.as.RevokeAll()
	if _, err := s.Replace(t.Context(), mustToken(t, s)); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Fatalf("Replace: %v", err)
	}
	told(t, changed)
}

// A state file that was written again with nothing new about the item costs no
// look into the keychain: it may ask the person each time.
func TestAStateFileWrittenAgainCostsNoKeychainRead(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	mustToken(t, s)
	path := r.statePath(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before := r.store.(*sharedStore).reads()
	for range 5 {
		if err := os.WriteFile(path+".new", b, 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			t.Fatal(err)
		}
		mustToken(t, s)
	}
	if n := r.store.(*sharedStore).reads() - before; n != 0 {
		t.Errorf("store reads: %d, want none", n)
	}
}

// readOnly is a store that this process cannot write to while others can.
type readOnly struct{ *sharedStore }

func (readOnly) Set(context.Context, []byte) error { return errors.New("locked") }

// unsaved is a session with a pair that its store would not take, and another
// copy that knows only the pair before.
func (r *rig) unsaved(t *testing.T) (s, other *oauth.Session, fresh string) {
	t.Helper()
	other = r.open(t)
	r.signIn(t, other)
	s, err := oauth.New(oauth.Config{
		Server: r.as.Resource(), Dir: r.dir, Profile: "test", Store: readOnly{r.store.(*sharedStore)}, Ports: r.ports, Log: testLog(t),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	if fresh, err = s.Replace(t.Context(), mustToken(t, s)); err != nil {
		t.Fatal(err)
	}
	return s, other, fresh
}

// A pair that could not be stored is not given up for the older one that is:
// not when the state file is taken away, nor when another copy touches it.
func TestAnUnsavedPairIsKept(t *testing.T) {
	r := newRig(t)
	s, _, fresh := r.unsaved(t)
	path := r.statePath(t)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []func() error{
		func() error { return os.Remove(path) },
		func() error { return os.WriteFile(path, b, 0o600) },
	} {
		if err := step(); err != nil {
			t.Fatal(err)
		}
		if got := mustToken(t, s); got != fresh {
			t.Error("the older pair is used again")
		}
	}
}

// It is given up when somebody has signed out or in meanwhile.
func TestAnUnsavedPairEndsWithTheSignIn(t *testing.T) {
	r := newRig(t)
	s, other, fresh := r.unsaved(t)
	if err := other.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Token after signing out elsewhere: %v, want ErrSignInNeeded", err)
	}
	r.signIn(t, other)
	if got := mustToken(t, s); got == fresh || got != mustToken(t, other) {
		t.Error("Token after signing in elsewhere is not that sign-in's")
	}
	if err := s.Close(t.Context()); err != nil {
		t.Errorf("Close still wants to store it: %v", err)
	}
}
