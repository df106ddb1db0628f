package oauth_test

import (
	"testing"

	"bellman.sh/desktop/internal/oauth"
)

// A person who chooses another store keeps the sign-in, and who they are is
// known before the store is read.
func TestASignInMovesToTheStoreThatIsChosen(t *testing.T) {
	r := newRig(t)
	before := r.open(t)
	r.signIn(t, before)
	old := r.store
	file := oauth.FileStore(oauth.CredentialFile(r.dir, r.as.Resource()))
	after := r.open(t, func(c *oauth.Config) { c.Store = file })
	if moved, err := after.TakeFrom(t.Context(), old); !moved || err != nil {
		t.Fatalf("TakeFrom: %v, %v", moved, err)
	}
	if id, ok := after.Identity(); !ok || id.Label == "" {
		t.Errorf("identity after the move: %+v, %v", id, ok)
	}
	if got := r.call(t, mustToken(t, after)); got != 200 {
		t.Errorf("a call after the move answers %d", got)
	}
	if left, err := old.Get(t.Context()); left != nil || err != nil {
		t.Errorf("the old store still holds %d bytes, %v", len(left), err)
	}
	if moved, err := after.TakeFrom(t.Context(), old); moved || err != nil {
		t.Errorf("a second TakeFrom: %v, %v", moved, err)
	}
}
