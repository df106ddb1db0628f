package oauth

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"os"
	"time"

	"golang.org/x/oauth2"
)

// flow is one prepared way through the browser.
type flow struct {
	info     serverInfo
	client   registration
	lasting  bool // the registration is for the usual ports and worth keeping
	loopback *loopback
}

// throughBrowser takes the person through the browser and keeps what comes of
// it; signin.lock is held.
func (s *Session) throughBrowser(ctx context.Context, a *Attempt, asked bool) error {
	preparing, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	f, err := s.prepare(preparing)
	if err != nil {
		return err
	}
	defer f.loopback.close(ctx)
	f.loopback.start(f.authorizeURL)
	leading, over := context.WithCancel(ctx)
	defer over()
	rec := record{ID: random(12), PID: os.Getpid(), Link: f.loopback.link(), QuietUntil: s.readRecord().QuietUntil}
	var asking <-chan error
	if asked || !rec.quiet(s.now()) {
		rec, asking = s.lead(leading, rec)
	}
	if !rec.Opened {
		s.log.Info("sign-in waits for its link to be opened on this machine", "link", rec.Link)
	}
	return s.await(ctx, a, f, rec, asking)
}

// lead takes the person to the link: through their host if that can ask them,
// else by a browser. The channel, if there is one, tells that the host could
// not, or the person would not. ctx ends with the attempt.
func (s *Session) lead(ctx context.Context, rec record) (record, <-chan error) {
	if s.cfg.Host == nil || !s.cfg.Host.CanAsk() {
		return s.openBrowser(ctx, rec), nil
	}
	rec = s.noteOpened(rec)
	asking := make(chan error, 1)
	s.wg.Go(func() { asking <- s.cfg.Host.Ask(ctx, rec.Link) })
	return rec, asking
}

// openBrowser starts a browser on the link, and returns rec as it was when
// there is none to be started.
func (s *Session) openBrowser(ctx context.Context, rec record) record {
	if s.cfg.Open == nil {
		return rec
	}
	opened := s.noteOpened(rec)
	ctx, cancel := context.WithTimeout(ctx, prepareLimit)
	defer cancel()
	if err := s.cfg.Open(ctx, rec.Link); err != nil {
		s.log.Warn("browser could not be opened", "cause", err)
		return rec
	}
	return opened
}

// noteOpened notes that the person is being taken to the link. It comes first:
// a process killed right after it must not be followed by a second tab.
func (s *Session) noteOpened(rec record) record {
	rec.Opened, rec.QuietUntil = true, s.now().Add(quietTime)
	s.note(rec)
	return rec
}

// await waits for the browser to come back and concludes the attempt.
func (s *Session) await(ctx context.Context, a *Attempt, f *flow, rec record, asking <-chan error) error {
	show := func() { s.note(rec); a.show(rec.Link, rec.Opened) }
	show()
	human, cancel := context.WithTimeoutCause(ctx, humanLimit, errUnapproved)
	defer cancel()
	remind := time.NewTimer(remindAfter)
	defer remind.Stop()
	for {
		select {
		case rec.Link = <-f.loopback.links:
			show()
		case <-remind.C:
			s.log.Info("sign-in still waits for the browser", "link", rec.Link)
		case err := <-asking:
			asking = nil
			switch {
			case err == nil || errors.Is(err, ErrDeclined) && f.loopback.followed():
			case errors.Is(err, ErrDeclined):
				s.finish(rec, err)
				return err
			default:
				s.log.Warn("the host could not ask the person to sign in", "cause", err)
				rec.Opened, rec.QuietUntil = false, time.Time{}
				rec = s.openBrowser(ctx, rec)
				show()
			}
		case ans := <-f.loopback.answers:
			err := ans.err
			if err == nil {
				err = s.conclude(ctx, f, ans)
			}
			s.finish(rec, err)
			ans.settled <- err
			return err
		case <-human.Done():
			err := context.Cause(human)
			// A process that is told to end leaves its attempt to the others.
			if !errors.Is(err, errClosed) {
				s.finish(rec, err)
			}
			return err
		}
	}
}

// finish notes how the attempt ended.
func (s *Session) finish(rec record, err error) {
	rec.Link, rec.Ended, rec.Approved = "", true, err == nil
	if err != nil {
		rec.Reason = err.Error()
	}
	s.mu.Lock()
	if rec.Approved {
		rec.Brought = s.cred.fingerprint()
	}
	inVain := s.inVain > 0
	s.mu.Unlock()
	switch {
	case rec.Approved && !inVain:
		rec.QuietUntil = time.Time{}
	case rec.Approved, rec.Opened:
		rec.QuietUntil = s.now().Add(quietTime)
	}
	s.note(rec)
}

// conclude trades the code for tokens and keeps them. It is detached: once
// the code has been sent, giving up would waste it.
func (s *Session) conclude(ctx context.Context, f *flow, ans *answer) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), tokenTimeout)
	defer cancel()
	c, err := s.redeem(ctx, f, ans)
	if g, ok := errors.AsType[*grantError](err); ok && g.unknownClient() && f.lasting {
		// Its pages know the client and its token endpoint does not: only a
		// new registration can help the next attempt.
		return errors.Join(err, s.keepRegistration(ctx, f.info.issuer, registration{}))
	}
	if err != nil {
		return err
	}
	unlock, err := lock(ctx, s.path("refresh.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	st, _, err := readState(s.path("state.json"))
	if err != nil {
		return err
	}
	s.keep(ctx, st, c, func(st *state) {
		if !s.fleeting() {
			st.Epoch++
		}
		st.Issuer, st.Resource = f.info.issuer, f.info.resource
		if f.lasting && f.client.auth.public() {
			used := f.client
			used.Used = true
			st.setRegistration(f.info.issuer, used)
		}
	})
	s.announceFleeting()
	return nil
}

// redeem trades the answer's code for tokens. A server that is only busy puts
// the code back, and it lives for a minute.
func (s *Session) redeem(ctx context.Context, f *flow, ans *answer) (*credential, error) {
	for try := 1; ; try++ {
		c, err := s.exchange(ctx, f.info, f.client, f.loopback.redirect(), ans.code, ans.verifier)
		g, refused := errors.AsType[*grantError](err)
		if !refused || g.code != "temporarily_unavailable" || try == 3 || !pause(ctx, time.Duration(try)*time.Second) {
			return c, err
		}
	}
}

func (st *state) setRegistration(issuer string, r registration) {
	m := maps.Clone(st.Registrations)
	if m == nil {
		m = map[string]registration{}
	}
	m[issuer] = r
	st.Registrations = m
}

// prepare finds the way: where to sign in, the port to come back to, and a
// registration that the server still knows.
func (s *Session) prepare(ctx context.Context) (*flow, error) {
	st, _, err := readState(s.path("state.json"))
	if err != nil {
		return nil, err
	}
	info, err := s.discover(ctx, st.Issuer, st.Resource)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	if s.wanted != "" {
		info.scope = union(s.wanted, info.scope)
	}
	s.mu.Unlock()
	l, lasting, err := s.listen(ctx)
	if err != nil {
		return nil, err
	}
	l.issuer, l.issRequired = info.issuer, info.issParam
	f := &flow{info: info, lasting: lasting, loopback: l}
	if f.client, err = s.knownClient(ctx, f, st.Registrations[info.issuer]); err != nil {
		l.close(ctx)
		return nil, err
	}
	return f, nil
}

// knownClient returns a registration that the server accepts for this flow's
// redirect. The service answers an unknown client with a page that never comes
// back to us, so a kept registration is tried before a person is sent there.
func (s *Session) knownClient(ctx context.Context, f *flow, kept registration) (registration, error) {
	if f.lasting && kept.covers(f.loopback.redirect(), s.now()) {
		f.client = kept
		known, err := s.preflight(ctx, f)
		if err != nil || known {
			return kept, err
		}
		s.log.Info("the server has forgotten this client; registering again")
	}
	redirects := []string{f.loopback.redirect()}
	if f.lasting {
		redirects = nil
		for _, port := range s.cfg.Ports {
			redirects = append(redirects, redirectURI("127.0.0.1", port))
		}
	}
	reg, err := s.register(ctx, f.info, redirects)
	if err != nil || !f.lasting || !reg.auth.public() {
		return reg, err
	}
	return reg, s.keepRegistration(ctx, f.info.issuer, reg)
}

// preflight reports whether the server knows the client and its redirect.
func (s *Session) preflight(ctx context.Context, f *flow) (bool, error) {
	ctx, cancel := context.WithTimeout(ctx, documentTimeout)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, f.authorizeURL(random(32), oauth2.GenerateVerifier()), nil)
	if err != nil {
		return false, fmt.Errorf("try the sign-in page: %w", bare(err))
	}
	req.Header.Set("Accept", "text/html, */*;q=0.5")
	r, err := s.wire.do(req)
	if err != nil {
		return false, fmt.Errorf("try the sign-in page: %w", err)
	}
	return r.status != http.StatusBadRequest || r.header.Get("Location") != "", nil
}

func (s *Session) keepRegistration(ctx context.Context, issuer string, reg registration) error {
	unlock, err := lock(ctx, s.path("refresh.lock"))
	if err != nil {
		return err
	}
	defer unlock()
	st, _, err := readState(s.path("state.json"))
	if err != nil {
		return err
	}
	st.setRegistration(issuer, reg)
	st.Server, st.Profile = s.cfg.Server, s.cfg.Profile
	return writeState(s.path("state.json"), st)
}

// authorizeURL is where the start link leads.
func (f *flow) authorizeURL(state, verifier string) string {
	conf := oauth2.Config{
		ClientID:    f.client.ClientID,
		RedirectURL: f.loopback.redirect(),
		Endpoint:    oauth2.Endpoint{AuthURL: f.info.authorize.String()},
	}
	if f.info.scope != "" {
		conf.Scopes = []string{f.info.scope}
	}
	return conf.AuthCodeURL(state, oauth2.S256ChallengeOption(verifier), oauth2.SetAuthURLParam("resource", f.info.resource))
}
