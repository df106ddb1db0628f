package oauth_test

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// noted returns what the latest sign-in has told the other copies.
func (r *rig) noted(t *testing.T) (note map[string]any, path string) {
	t.Helper()
	path = filepath.Join(filepath.Dir(oauth.CredentialFile(r.dir, r.as.Resource())), "signin.json")
	b, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(b, &note)
	}
	if err != nil {
		t.Fatal(err)
	}
	return note, path
}

func (r *rig) quietUntil(t *testing.T) time.Time {
	t.Helper()
	note, _ := r.noted(t)
	text, _ := note["quiet_until"].(string)
	at, err := time.Parse(time.RFC3339Nano, text)
	if err != nil {
		t.Fatalf("quiet until %q: %v", text, err)
	}
	return at
}

// The quarter of an hour without a browser begins when the browser is opened,
// since the process may be killed right then, and anew when the attempt comes
// to nothing.
func TestTheQuietTimeBeginsAnewAtTheEndOfTheAttempt(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.Deny = true })
	s := r.open(t, func(c *oauth.Config) { c.Open = ignored(r) })
	before := time.Now()
	a := r.begun(t, s)
	opened := r.quietUntil(t)
	if opened.Before(before.Add(15*time.Minute)) || opened.After(time.Now().Add(15*time.Minute)) {
		t.Errorf("quiet until %s after opening at %s", opened, before)
	}
	left := time.Now()
	if _, err := r.browser.Finish(t.Context(), a.Link()); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(t.Context()); err == nil {
		t.Fatal("approved")
	}
	if ended := r.quietUntil(t); ended.Before(left.Add(15*time.Minute)) || ended.After(time.Now().Add(15*time.Minute)) {
		t.Errorf("quiet until %s after an end at %s; it was %s at the opening", ended, left, opened)
	}
}

// An attempt for which no browser was opened makes no quiet time longer, and an
// approved one ends it.
func TestTheQuietTimeIsOnlyForOpenedBrowsers(t *testing.T) {
	r := newRig(t)
	r.as.Set(func(s *oauthtest.Switches) { s.Deny = true })
	s := r.open(t, func(c *oauth.Config) { c.Open = ignored(r) })
	deny := func() {
		t.Helper()
		a := r.begun(t, s)
		if _, err := r.browser.Finish(t.Context(), a.Link()); err != nil {
			t.Fatal(err)
		}
		if err := a.Wait(t.Context()); err == nil {
			t.Fatal("approved")
		}
	}
	deny()
	first := r.quietUntil(t)
	deny()
	if second := r.quietUntil(t); !second.Equal(first) {
		t.Errorf("a call that opened nothing put the quiet time from %s to %s", first, second)
	}
	r.as.Set(func(s *oauthtest.Switches) { s.Deny = false })
	r.finishes(t, r.begun(t, s))
	if note, _ := r.noted(t); note["quiet_until"] != nil {
		t.Errorf("quiet until %v after an approved one", note["quiet_until"])
	}
}

// The quiet time ends, and one that no clock of ours can have set is not
// believed.
func TestTheQuietTimeEnds(t *testing.T) {
	for name, c := range map[string]struct {
		left time.Duration
		want int
	}{
		"just over": {-time.Second, 1}, "a moment left": {time.Minute, 0}, "all of it": {14*time.Minute + 50*time.Second, 0},
		"a wrong clock": {16 * time.Minute, 1}, "a year ago": {-365 * 24 * time.Hour, 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t)
			r.as.Set(func(s *oauthtest.Switches) { s.Deny = true })
			s := r.open(t)
			a := r.begun(t, s)
			if err := a.Wait(t.Context()); err == nil {
				t.Fatal("approved")
			}
			note, path := r.noted(t)
			note["quiet_until"] = time.Now().Add(c.left).Format(time.RFC3339Nano)
			b, err := json.Marshal(note)
			if err == nil {
				err = os.WriteFile(path, b, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			r.begun(t, s)
			if n := len(r.browser.Opened()) - 1; n != c.want {
				t.Errorf("browsers opened: %d, want %d", n, c.want)
			}
		})
	}
}
