package oauth_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gofrs/flock"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// What other bridges were seen to do, each by its symptom. The page
// docs/FAILURES.md lists them with those that stand beside their subject.

// signInTogether lets n copies sign in at the same moment, with a person who
// takes their time, and returns the sessions.
func (r *rig) signInTogether(t *testing.T, n int) {
	t.Helper()
	slow := func(c *oauth.Config) {
		c.Open = func(ctx context.Context, link string) error {
			time.AfterFunc(100*time.Millisecond, func() { _ = r.browser.Open(ctx, link) })
			return nil
		}
	}
	var wg sync.WaitGroup
	for range n {
		s := r.open(t, slow)
		wg.Go(func() {
			a, err := s.SignIn(t.Context())
			if err == nil {
				err = a.Wait(t.Context())
			}
			if err != nil {
				t.Errorf("SignIn: %v", err)
			}
			if got := r.call(t, mustToken(t, s)); got != http.StatusOK {
				t.Errorf("call: status %d", got)
			}
		})
	}
	wg.Wait()
}

// Six copies start together on a machine that never signed in, or whose
// sign-in is over: one tab, one registration, one code.
func TestSixCopiesStartingTogetherOpenOneTab(t *testing.T) {
	t.Run("first run", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		r.signInTogether(t, 6)
		l := r.as.Ledger()
		if len(r.browser.Opened()) != 1 || l.Registrations != 1 || !slices.Equal(l.Grants, []string{"authorization_code:200"}) {
			t.Errorf("browsers %d, registrations %d, grants %v; want one of each", len(r.browser.Opened()), l.Registrations, l.Grants)
		}
	})
	t.Run("dead refresh token", func(t *testing.T) {
		t.Parallel()
		r := newRig(t)
		s := r.open(t)
		r.signIn(t, s)
		r.as.RevokeAll()
		if _, err := s.Replace(t.Context(), mustToken(t, s)); !errors.Is(err, oauth.ErrSignInNeeded) {
			t.Fatalf("Replace: %v", err)
		}
		r.signInTogether(t, 6)
		l := r.as.Ledger()
		want := []string{"authorization_code:200", "refresh_token:400", "authorization_code:200"}
		if len(r.browser.Opened()) != 2 || l.Registrations != 1 || !slices.Equal(l.Grants, want) {
			t.Errorf("browsers %d, registrations %d, grants %v; want %v", len(r.browser.Opened()), l.Registrations, l.Grants, want)
		}
	})
}

// A lock that cannot be taken for another reason than its being held is a
// reason at once, not a wait without end.
func TestALockFileInTheWayIsNotContention(t *testing.T) {
	for _, name := range []string{"refresh.lock", "signin.lock"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			dir := filepath.Dir(oauth.CredentialFile(r.dir, r.as.Resource()))
			if err := os.MkdirAll(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			defer cancel()
			a, err := r.open(t).SignIn(ctx)
			if err == nil {
				err = a.Wait(ctx)
			}
			if err == nil || ctx.Err() != nil || !strings.Contains(err.Error(), name) {
				t.Errorf("SignIn: %v (%v), want to be told of %s", err, ctx.Err(), name)
			}
		})
	}
}

// A token that was rotated in the middle of a session is the one that the next
// start begins with: it opens no browser and asks nobody.
func TestTheNextStartHasTheRotatedToken(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	tok := mustToken(t, s)
	for range 2 {
		var err error
		if tok, err = s.Replace(t.Context(), tok); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.as.Forget()
	if got := mustToken(t, r.open(t)); got != tok {
		t.Error("the next start has another token")
	}
	if l := r.as.Ledger(); len(l.Paths) != 0 || len(r.browser.Opened()) != 1 {
		t.Errorf("requests %v, browsers %d", l.Paths, len(r.browser.Opened()))
	}
}

// A refresh right behind the sign-in, and one in the middle of another's
// sign-in, wait for nobody.
func TestARefreshDoesNotWaitForASignIn(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	fresh, err := s.Replace(t.Context(), mustToken(t, s))
	if err != nil {
		t.Fatalf("Replace right behind: %v", err)
	}
	held := flock.New(filepath.Join(filepath.Dir(oauth.CredentialFile(r.dir, r.as.Resource())), "signin.lock"))
	if err := held.Lock(); err != nil {
		t.Fatal(err)
	}
	defer held.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
	defer cancel()
	if _, err := s.Replace(ctx, fresh); err != nil {
		t.Errorf("Replace while somebody signs in: %v", err)
	}
}

// A keychain that hangs on writing holds up neither the call that refreshed
// nor the end of the bridge for longer than its limit, and the pair is not
// lost to the process.
func TestAKeychainThatHangsOnWritingHoldsUpNobody(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.store = &deafStore{sharedStore: &sharedStore{}}
	s, err := oauth.New(r.config())
	if err != nil {
		t.Fatal(err)
	}
	r.signIn(t, s)
	r.store.(*deafStore).deafen()
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	fresh, err := s.Replace(ctx, mustToken(t, s))
	if err != nil || r.call(t, fresh) != http.StatusOK {
		t.Errorf("Replace: %v", err)
	}
	if err := s.Close(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("Close: %v (%v), want to be told that the pair is not stored", err, ctx.Err())
	}
}

// deafStore stops answering writes.
type deafStore struct {
	*sharedStore

	deaf bool
}

func (d *deafStore) deafen() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.deaf = true
}

func (d *deafStore) Set(ctx context.Context, item []byte) error {
	d.mu.Lock()
	deaf := d.deaf
	d.mu.Unlock()
	if deaf {
		<-ctx.Done()
		return ctx.Err()
	}
	return d.sharedStore.Set(ctx, item)
}

// A session lives longer than its first token: one that was read from the
// store is refreshed like any other, for as long as the bridge runs.
func TestASessionOutlivesItsFirstToken(t *testing.T) {
	inTime(t, 10*time.Minute, 10*time.Minute, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		end := time.Now().Add(10 * time.Minute)
		last := mustToken(t, s)
		for range 180 {
			time.Sleep(time.Minute)
			if got := mustToken(t, s); got != last {
				last, end = got, time.Now().Add(10*time.Minute)
			}
			if !time.Now().Before(end) {
				t.Fatalf("%s is sent although it is over", last)
			}
		}
		if n := as.count(); n < 18 || n > 21 {
			t.Errorf("asked %d times in three hours", n)
		}
	})
}

// Who is signed in is whom the token names, for every copy and after every
// change of person.
func TestTheNameIsNeverThatOfAnotherAccount(t *testing.T) {
	r := newRig(t)
	first, second := r.open(t), r.open(t)
	r.signIn(t, first)
	mustToken(t, second)
	if err := second.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.browser = r.as.NewBrowser(t, "mallory")
	third := r.open(t)
	r.signIn(t, third)
	if _, err := third.Replace(t.Context(), mustToken(t, third)); err != nil {
		t.Fatal(err)
	}
	for i, s := range []*oauth.Session{first, second, third, r.open(t)} {
		if id, ok := s.Identity(); !ok || id.Label != "mallory@example.dev" {
			t.Errorf("copy %d before its token: %q, %v", i, id.Label, ok)
		}
		mustToken(t, s)
		if id, ok := s.Identity(); !ok || id.Label != "mallory@example.dev" {
			t.Errorf("copy %d: %q, %v", i, id.Label, ok)
		}
	}
}

// Going from a cached sign-in that is over to the browser registers no second
// client.
func TestGoingToTheBrowserRegistersNoSecondClient(t *testing.T) {
	r := newRig(t)
	s := r.open(t)
	r.signIn(t, s)
	r.as.RevokeAll()
	if _, err := s.Replace(t.Context(), mustToken(t, s)); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Fatalf("Replace: %v", err)
	}
	for _, again := range []*oauth.Session{s, r.open(t)} {
		r.signIn(t, again)
	}
	if l := r.as.Ledger(); l.Registrations != 1 || len(r.browser.Opened()) != 2 {
		t.Errorf("registrations %d, browsers %d", l.Registrations, len(r.browser.Opened()))
	}
}

// A code that the server refuses is told as that, not as a listener that is
// closed.
func TestARefusedCodeIsToldAsWhatItIs(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.TokenError = "invalid_grant" })
	a := r.begun(t, r.open(t))
	if err := a.Wait(t.Context()); err == nil || !strings.Contains(err.Error(), "invalid_grant") {
		t.Errorf("Wait: %v, want the server's reason", err)
	}
	if got := r.as.Ledger().Grants; !slices.Equal(got, []string{"authorization_code:400"}) {
		t.Errorf("grants: %v, want the one refusal", got)
	}
}

// mcp-go#871: a sign-in server that takes its time over its metadata holds up
// neither a look at the token, nor whoami, nor the end.
func TestSlowDiscoveryHoldsUpNothingElse(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.MetaDelay = time.Minute })
	s := r.open(t)
	ctx, cancel := context.WithCancel(t.Context())
	begun := make(chan error, 1)
	go func() {
		_, err := s.SignIn(ctx)
		begun <- err
	}()
	eventually(t, "the metadata is asked for", func() bool {
		return slices.Contains(r.as.Ledger().Paths, "GET /.well-known/oauth-authorization-server")
	})
	quick, stop := context.WithTimeout(t.Context(), 5*time.Second)
	defer stop()
	if _, err := s.Token(quick); !errors.Is(err, oauth.ErrSignInNeeded) {
		t.Errorf("Token: %v, want ErrSignInNeeded", err)
	}
	s.Identity()
	cancel()
	if err := <-begun; !errors.Is(err, context.Canceled) {
		t.Errorf("SignIn: %v", err)
	}
	if err := s.Close(quick); err != nil {
		t.Errorf("Close: %v", err)
	}
}
