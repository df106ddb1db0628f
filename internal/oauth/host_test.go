package oauth_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
)

// asker is a host whose person the test plays.
type asker struct {
	unable bool
	links  chan string
	reply  chan error // nil stands for a person who agrees
	over   chan struct{}
}

func newAsker() *asker {
	return &asker{links: make(chan string, 4), reply: make(chan error, 4), over: make(chan struct{}, 4)}
}

func (a *asker) CanAsk() bool { return !a.unable }

func (a *asker) Ask(ctx context.Context, link string) error {
	a.links <- link
	select {
	case err := <-a.reply:
		if err != nil {
			return err
		}
	case <-ctx.Done():
	}
	<-ctx.Done()
	a.over <- struct{}{}
	return nil
}

func through(a *asker) func(*oauth.Config) { return func(c *oauth.Config) { c.Host = a } }

// A host that can ask takes the person there, and no browser is started; it
// hears when the sign-in is over. Whether it answers makes no difference.
func TestAHostTakesThePersonThere(t *testing.T) {
	for name, answers := range map[string]bool{"agreed": true, "silent": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, host := newRig(t), newAsker()
			s := r.open(t, through(host))
			a := r.begun(t, s)
			if !a.Opened() || <-host.links != a.Link() {
				t.Errorf("opened %v, shown %s", a.Opened(), a.Link())
			}
			if answers {
				host.reply <- nil
			}
			r.finishes(t, a)
			<-host.over
			if n := len(r.browser.Opened()); n != 0 {
				t.Errorf("browsers opened: %d", n)
			}
		})
	}
}

// Who declines ends the attempt, is not asked again by any copy, and has the
// link when they call again.
func TestADeclinedSignInStaysQuiet(t *testing.T) {
	r, host := newRig(t), newAsker()
	s := r.open(t, through(host))
	host.reply <- oauth.ErrDeclined
	a, err := s.SignIn(t.Context())
	if err == nil {
		err = a.Wait(t.Context())
	}
	if !errors.Is(err, oauth.ErrDeclined) {
		t.Fatalf("Wait: %v, want ErrDeclined", err)
	}
	for _, again := range []*oauth.Session{s, r.open(t, through(host)), r.open(t)} {
		b := r.begun(t, again)
		if b.Opened() || b.Link() == "" {
			t.Errorf("opened %v, link %q; want a link alone", b.Opened(), b.Link())
		}
		if len(host.links) != 1 || len(r.browser.Opened()) != 0 {
			t.Errorf("asked %d times, browsers %d; want the first question alone", len(host.links), len(r.browser.Opened()))
		}
		if again != s {
			continue
		}
		if err := again.Close(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
}

// Who has the page open and then closes the question goes on.
func TestAQuestionClosedOverAnOpenPageEndsNothing(t *testing.T) {
	r, host := newRig(t), newAsker()
	a := r.begun(t, r.open(t, through(host)))
	back, err := r.browser.Callback(t.Context(), a.Link())
	if err != nil {
		t.Fatal(err)
	}
	host.reply <- oauth.ErrDeclined
	eventually(t, "the answer is taken", func() bool { return len(host.reply) == 0 })
	if p, err := r.browser.Get(t.Context(), back); err != nil || p.Status != 200 {
		t.Errorf("the page: status %d, err %v", p.Status, err)
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Error(err)
	}
}

// A host that could not ask after all is replaced by a browser; one that never
// said it could is not asked.
func TestABrowserStandsInForAHostThatCannotAsk(t *testing.T) {
	for name, unable := range map[string]bool{"fails": false, "unable": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, host := newRig(t), newAsker()
			host.unable = unable
			host.reply <- errors.New("no such mode")
			s := r.open(t, through(host))
			r.signIn(t, s)
			if n := len(r.browser.Opened()); n != 1 || len(host.links) == 0 != unable {
				t.Errorf("browsers opened: %d, asked %d times", n, len(host.links))
			}
		})
	}
}

// Neither is there: the attempt says so, and does not pretend that somebody is
// on the way.
func TestAHostThatFailsWithoutABrowserLeavesTheLink(t *testing.T) {
	r, host := newRig(t), newAsker()
	host.reply <- errors.New("no such mode")
	a := r.begun(t, r.open(t, through(host), noBrowser))
	eventually(t, "nobody is on the way", func() bool { return !a.Opened() })
	if note, _ := r.noted(t); note["quiet_until"] != nil {
		t.Errorf("nobody was asked, and nobody will be until %v", note["quiet_until"])
	}
	r.finishes(t, a)
}

// A person who is still being asked does not hold up the end.
func TestCloseEndsAQuestion(t *testing.T) {
	r, host := newRig(t), newAsker()
	s := r.open(t, through(host))
	r.begun(t, s)
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	if err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	<-host.over
}
