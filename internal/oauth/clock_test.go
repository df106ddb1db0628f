package oauth_test

import (
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bellman.sh/desktop/internal/oauth"
)

// A clock that is set back does not make the wait after a trouble an hour long.
func TestAClockThatGoesBackHoldsUpNoRefresh(t *testing.T) {
	inTime(t, 10*time.Minute, -time.Second, func(m made) {
		m.set(func(i *issuer) { i.status = 500 })
		if _, err := m.Token(m.Context()); err == nil {
			m.Error("a token of a server in trouble")
		}
		m.set(func(i *issuer) { i.status = 0 })
		m.SetClock(-time.Hour)
		if tok, err := m.Replace(m.Context(), "access-0"); err != nil || tok == "access-0" {
			m.Errorf("Replace: %q, %v", tok, err)
		}
	})
}

// A server in trouble is asked after 1, 2, 4, 8, 16 and then every 30 seconds,
// however often a token is wanted; once it has answered, the next trouble
// begins anew.
func TestAServerInTroubleIsAskedEverMoreSeldom(t *testing.T) {
	inTime(t, 10*time.Minute, -time.Second, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		as.set(func(i *issuer) { i.status = 500 })
		began := time.Now()
		for time.Since(began) < 3*time.Minute {
			if _, err := s.Token(t.Context()); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
				t.Fatalf("Token: %v, want a passing error", err)
			}
			time.Sleep(100 * time.Millisecond)
		}
		var waits []time.Duration
		for n := 1; n < len(as.asked); n++ {
			waits = append(waits, as.asked[n].Sub(as.asked[n-1]).Round(time.Second))
		}
		want := []time.Duration{1, 2, 4, 8, 16, 30, 30, 30, 30}
		if len(waits) != len(want) {
			t.Fatalf("waits: %v, want %v seconds", waits, want)
		}
		for n, w := range want {
			if waits[n] != w*time.Second {
				t.Errorf("wait %d: %s, want %d s", n, waits[n], w)
			}
		}
		as.set(func(i *issuer) { i.status = 0 })
		time.Sleep(30 * time.Second)
		tok := mustToken(t, s)
		as.set(func(i *issuer) { i.status = 500 })
		before := as.count()
		for range 2 {
			_, _ = s.Replace(t.Context(), tok)
			time.Sleep(1100 * time.Millisecond)
		}
		if n := as.count() - before; n != 2 {
			t.Errorf("asked %d times in the second trouble's first two seconds, want 2", n)
		}
	})
}

// A server that says when to come again is not asked before, unless it names a
// time beyond reason.
func TestRetryAfterIsHeeded(t *testing.T) {
	for _, c := range []struct {
		after string
		wait  time.Duration
	}{{"120", 2 * time.Minute}, {"86400", 5 * time.Minute}, {"-5", time.Second}, {"soon", time.Second}} {
		t.Run(c.after, func(t *testing.T) {
			inTime(t, 10*time.Minute, -time.Second, func(m made) {
				t, s, as := m.T, m.Session, m.issuer
				as.set(func(i *issuer) { i.status, i.after = 429, c.after })
				_, _ = s.Token(t.Context())
				time.Sleep(c.wait - 100*time.Millisecond)
				_, _ = s.Token(t.Context())
				if n := as.count(); n != 1 {
					t.Errorf("asked %d times before it was time", n)
				}
				time.Sleep(200 * time.Millisecond)
				_, _ = s.Token(t.Context())
				if n := as.count(); n != 2 {
					t.Errorf("asked %d times once it was time", n)
				}
			})
		})
	}
}

// A token is replaced before it ends: behind the callers while it still
// works, before their eyes in its last moments; and not too early.
func TestATokenIsReplacedBeforeItEnds(t *testing.T) {
	inTime(t, 10*time.Minute, 10*time.Minute, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		time.Sleep(10*time.Minute - 81*time.Second)
		if got := mustToken(t, s); got != "access-0" || as.count() != 0 {
			t.Errorf("with 81 s left: %s, asked %d times", got, as.count())
		}
		hold := make(chan struct{})
		as.set(func(i *issuer) { i.hold = hold })
		time.Sleep(22 * time.Second)
		for range 3 {
			if got := mustToken(t, s); got != "access-0" {
				t.Errorf("with 59 s left: %s, want not to wait", got)
			}
		}
		synctest.Wait()
		if n := as.count(); n != 1 {
			t.Errorf("with 59 s left: asked %d times, want once", n)
		}
		close(hold)
		synctest.Wait()
		if got := mustToken(t, s); got != "access-1" {
			t.Errorf("afterwards: %s", got)
		}
		as.set(func(i *issuer) { i.hold = nil })
		time.Sleep(10*time.Minute - 5*time.Second)
		if got := mustToken(t, s); got != "access-2" {
			t.Errorf("in its last moments: %s, want a new one", got)
		}
	})
}

// A token that lives for seconds is not replaced at every call.
func TestAShortLivedTokenIsUsed(t *testing.T) {
	inTime(t, 30*time.Second, 30*time.Second, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		for range 19 {
			if got := mustToken(t, s); got != "access-0" {
				t.Fatalf("got %s", got)
			}
			time.Sleep(time.Second)
		}
		synctest.Wait()
		if n := as.count(); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

// Without a refresh token there is nothing to be gained by not using the access
// token to its end; then only the person can help.
func TestATokenWithoutRefreshIsUsedToItsEnd(t *testing.T) {
	inTime(t, 10*time.Minute, 5*time.Second, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		item := strings.Replace(string(stored(0, 10*time.Minute, 5*time.Second)), `"rt":"refresh-0",`, "", 1)
		if err := m.store.Set(t.Context(), []byte(item)); err != nil {
			t.Fatal(err)
		}
		if got := mustToken(t, s); got != "access-0" {
			t.Errorf("with 5 s left: %s", got)
		}
		time.Sleep(5 * time.Second)
		if _, err := s.Token(t.Context()); !errors.Is(err, oauth.ErrSignInNeeded) {
			t.Errorf("afterwards: %v, want ErrSignInNeeded", err)
		}
		if n := as.count(); n != 0 {
			t.Errorf("asked %d times", n)
		}
	})
}

// While a server in trouble rests, a token that still works is used.
func TestAWorkingTokenIsUsedWhileTheServerRests(t *testing.T) {
	inTime(t, 10*time.Minute, 50*time.Second, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		as.set(func(i *issuer) { i.status, i.after = 503, "30" })
		for range 35 {
			if got := mustToken(t, s); got != "access-0" {
				t.Fatalf("got %s", got)
			}
			synctest.Wait()
			time.Sleep(time.Second)
		}
		if n := as.count(); n != 2 {
			t.Errorf("asked %d times in 35 s, want twice", n)
		}
	})
}

// A refused token is not sent again because the one in its place is not to be
// had for the moment.
func TestARefusedTokenIsNotSentAgain(t *testing.T) {
	inTime(t, 10*time.Minute, 10*time.Minute, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		as.set(func(i *issuer) { i.status = 500 })
		if _, err := s.Replace(t.Context(), mustToken(t, s)); err == nil {
			t.Error("Replace succeeded")
		}
		for range 3 {
			if got, err := s.Token(t.Context()); err == nil || errors.Is(err, oauth.ErrSignInNeeded) {
				t.Errorf("Token: %q, %v; want a passing error", got, err)
			}
			time.Sleep(time.Second)
		}
		as.set(func(i *issuer) { i.status = 0 })
		time.Sleep(time.Minute)
		if got := mustToken(t, s); got == "access-0" {
			t.Error("the refused token is sent again")
		}
	})
}

// A service that refuses every fresh token is left alone for half a minute;
// refreshes that nobody's refusal asked for do not count.
func TestRefusedFreshTokensAreLeftAloneForAWhile(t *testing.T) {
	inTime(t, 10*time.Minute, 10*time.Minute, func(m made) {
		t, s := m.T, m.Session
		tok := mustToken(t, s)
		refuse := func() (n int) {
			for range 10 {
				next, err := s.Replace(t.Context(), tok)
				if err != nil {
					return n
				}
				tok = next
				n++
			}
			return n
		}
		if n := refuse(); n != 3 {
			t.Errorf("%d fresh tokens in a row, want 3", n)
		}
		time.Sleep(31 * time.Second)
		if n := refuse(); n != 3 {
			t.Errorf("%d fresh tokens in a row after a while, want 3", n)
		}
	})
	inTime(t, 6*time.Second, 0, func(m made) {
		t, s := m.T, m.Session
		for range 5 {
			mustToken(t, s)
			time.Sleep(6 * time.Second)
		}
		tok := mustToken(t, s)
		if _, err := s.Replace(t.Context(), tok); err != nil {
			t.Errorf("Replace after ordinary refreshes: %v", err)
		}
	})
}

// A lock is only as good as the file system under it: when the server calls a
// refresh token spent, and another copy has stored its successor meanwhile,
// that one is used.
func TestASpentTokenIsLookedForOnceMore(t *testing.T) {
	inTime(t, 10*time.Minute, -time.Second, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		hold := make(chan struct{})
		as.set(func(i *issuer) { i.status, i.code, i.hold = 400, "invalid_grant", hold })
		var wg sync.WaitGroup
		wg.Go(func() {
			if got, err := s.Token(t.Context()); err != nil || got != "access-7" {
				t.Errorf("Token: %q, %v; want the other copy's", got, err)
			}
		})
		synctest.Wait()
		if err := m.store.Set(t.Context(), stored(7, 10*time.Minute, 10*time.Minute)); err != nil {
			t.Error(err)
		}
		close(hold)
		wg.Wait()
		if n := as.count(); n != 1 {
			t.Errorf("asked %d times", n)
		}
	})
}

// A caller whose token was refused is not given the same one by a refresh that
// began before the refusal.
func TestARefreshUnderWayDoesNotBringTheRefusedToken(t *testing.T) {
	inTime(t, 10*time.Minute, -time.Second, func(m made) {
		t, s, as := m.T, m.Session, m.issuer
		hold := make(chan struct{})
		as.set(func(i *issuer) { i.hold = hold })
		var wg sync.WaitGroup
		wg.Go(func() { _, _ = s.Token(t.Context()) })
		synctest.Wait()
		wg.Go(func() {
			if got, err := s.Replace(t.Context(), "access-1"); err != nil || got != "access-2" {
				t.Errorf("Replace: %q, %v; want another token than the refused one", got, err)
			}
		})
		synctest.Wait()
		close(hold)
		wg.Wait()
	})
}

// A keychain that takes a pair again gets it within half a minute, without a
// call.
func TestAnUnsavedPairIsOfferedAgain(t *testing.T) {
	inTime(t, 10*time.Minute, 10*time.Minute, func(m made) {
		t, s := m.T, m.Session
		store := m.store
		mustToken(t, s)
		store.setFail(errors.New("locked"))
		fresh, err := s.Replace(t.Context(), "access-0")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		store.setFail(nil)
		before := store.reads()
		time.Sleep(31 * time.Second)
		synctest.Wait()
		item, err := store.Get(t.Context())
		if err != nil || !oauth.Holds(item, fresh) {
			t.Errorf("half a minute later the store holds %d bytes, %v; want the new pair", len(item), err)
		}
		time.Sleep(10 * time.Minute)
		if n := store.reads() - before; n > 3 {
			t.Errorf("the store was read %d times", n)
		}
	})
}
