package oauth

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"golang.org/x/oauth2"
)

const (
	maxVisits = 32 // start links handed out in one attempt
	maxConns  = 32
)

// loopback is the browser's way back for one attempt, and its way in: the
// start link leads to the service, and binds what comes back to the browser
// that followed it. Whoever is only shown a link cannot make another
// browser finish it with their own account.
type loopback struct {
	ln          net.Listener
	host        string // as registered, literal address and port
	server      *http.Server
	issuer      string
	issRequired bool
	authorize   func(state, verifier string) string
	cookie      string
	links       chan string
	answers     chan *answer
	stopped     chan struct{}
	served      sync.WaitGroup

	mu      sync.Mutex
	visits  []*visit // the last one is the link to show
	settled bool
}

// visit is one start link and what belongs to it.
type visit struct {
	nonce    string
	state    string
	verifier string
	browser  string // the cookie's value, once a browser has followed the link
}

// answer is what the browser brought back; err tells of a refusal. What is
// sent on settled decides which page the person sees.
type answer struct {
	code     string
	verifier string
	err      error
	settled  chan error
}

func redirectURI(host string, port int) string {
	return "http://" + net.JoinHostPort(host, strconv.Itoa(port)) + "/callback"
}

// listen takes the first free of the usual ports, or, when all are taken, any
// port at all; lasting tells which. It tries the usual ones twice: they lie
// where the system takes outgoing ports from, and one may be free again.
func (s *Session) listen(ctx context.Context) (l *loopback, lasting bool, err error) {
	var tries []string
	for range 2 {
		for _, port := range s.cfg.Ports {
			tries = append(tries, net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
		}
	}
	usual := len(tries)
	tries = append(tries, "127.0.0.1:0", "[::1]:0")
	var conf net.ListenConfig
	for i, addr := range tries {
		ln, failure := conf.Listen(ctx, "tcp", addr)
		if failure != nil {
			err = failure
			continue
		}
		at, ok := ln.Addr().(*net.TCPAddr)
		if !ok || !at.IP.IsLoopback() {
			_ = ln.Close()
			return nil, false, fmt.Errorf("listen for the browser: %s is not loopback", ln.Addr())
		}
		if i >= usual {
			s.log.Warn("the usual ports for the browser's answer are taken", "ports", s.cfg.Ports, "port", at.Port)
		}
		return newLoopback(ln, at), i < usual, nil
	}
	return nil, false, fmt.Errorf("listen for the browser on a loopback port, %d to %d or any other: %w", s.cfg.Ports[0], s.cfg.Ports[len(s.cfg.Ports)-1], err)
}

func newLoopback(ln net.Listener, at *net.TCPAddr) *loopback {
	l := &loopback{
		ln: ln, host: at.String(), cookie: "bellman_signin_" + random(6),
		links: make(chan string, maxVisits), answers: make(chan *answer), stopped: make(chan struct{}),
	}
	l.visits = []*visit{newVisit()}
	l.server = &http.Server{
		Handler:           http.HandlerFunc(l.serve),
		ReadHeaderTimeout: 2 * time.Second,
		ReadTimeout:       2 * time.Second,
		WriteTimeout:      tokenTimeout + 5*time.Second, // the answer waits for the exchange
		IdleTimeout:       time.Millisecond,
		MaxHeaderBytes:    16 << 10,
		ErrorLog:          log.New(io.Discard, "", 0), // it would print what the browser sent
	}
	l.server.SetKeepAlivesEnabled(false)
	return l
}

func newVisit() *visit {
	return &visit{nonce: random(32), state: random(32), verifier: oauth2.GenerateVerifier()}
}

// redirect is the redirect URI of this attempt, as it was registered.
func (l *loopback) redirect() string { return "http://" + l.host + "/callback" }

// link is the start link to show now. It works in the first browser that
// follows it, and another one takes its place then.
func (l *loopback) link() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return "http://" + l.host + "/start/" + l.visits[len(l.visits)-1].nonce
}

// followed reports whether a browser has a link of this attempt.
func (l *loopback) followed() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.visits[0].browser != ""
}

func (l *loopback) start(authorize func(state, verifier string) string) {
	l.authorize = authorize
	l.served.Go(func() { _ = l.server.Serve(&fewConns{Listener: l.ln, free: make(chan struct{}, maxConns)}) })
}

// close stops listening, lets a page that is being sent go out, and waits.
func (l *loopback) close(ctx context.Context) {
	_ = l.ln.Close()
	close(l.stopped)
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if l.server.Shutdown(ctx) != nil {
		_ = l.server.Close()
	}
	l.served.Wait()
}

func (l *loopback) serve(w http.ResponseWriter, r *http.Request) {
	switch {
	// A page elsewhere must not reach us through a name of its own that
	// resolves to loopback, nor with a request it makes itself.
	case r.Host != l.host, len(r.Header.Values("Origin")) > 0:
		showPage(w, http.StatusForbidden, pageForeign)
	case r.Method != http.MethodGet:
		w.Header().Set("Allow", "GET")
		showPage(w, http.StatusMethodNotAllowed, pageUnknown)
	case r.URL.Path == "/callback":
		l.callback(w, r)
	case strings.HasPrefix(r.URL.Path, "/start/"):
		l.begin(w, r, strings.TrimPrefix(r.URL.Path, "/start/"))
	default:
		showPage(w, http.StatusNotFound, pageUnknown)
	}
}

// begin follows a start link: it gives the browser its cookie and sends it on
// to the service.
func (l *loopback) begin(w http.ResponseWriter, r *http.Request, nonce string) {
	v, fresh := l.follow(nonce, r)
	if v == nil {
		showPage(w, http.StatusGone, pageUsed)
		return
	}
	if fresh != "" {
		select {
		case l.links <- fresh:
		default:
		}
	}
	pageHeaders(w.Header())
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Not Secure: plain http is all there is on loopback.
		Name: l.cookie, Value: v.browser, Path: "/", MaxAge: int((humanLimit + prepareLimit).Seconds()),
		HttpOnly: true, SameSite: http.SameSiteLaxMode,
	})
	w.Header().Set("Location", l.authorize(v.state, v.verifier))
	w.WriteHeader(http.StatusFound)
}

// follow returns the visit of nonce when this browser may have it: it is the
// only one that ever asked for it. fresh is the link that takes the
// place of one that has just been used.
func (l *loopback) follow(nonce string, r *http.Request) (v *visit, fresh string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.settled {
		return nil, ""
	}
	for i, have := range l.visits {
		if !same(have.nonce, nonce) {
			continue
		}
		if have.browser != "" {
			if !l.holds(r, have) {
				// Two browsers have the link, and one of them is not the person's:
				// neither may finish it.
				have.state, have.browser = random(32), random(32)
				return nil, ""
			}
			return have, ""
		}
		have.browser = random(32)
		if i == len(l.visits)-1 && len(l.visits) < maxVisits {
			next := newVisit()
			l.visits = append(l.visits, next)
			fresh = "http://" + l.host + "/start/" + next.nonce
		}
		return have, fresh
	}
	return nil, ""
}

// holds reports whether the request carries the cookie of v.
func (l *loopback) holds(r *http.Request, v *visit) bool {
	for _, c := range r.CookiesNamed(l.cookie) {
		if same(c.Value, v.browser) {
			return true
		}
	}
	return false
}

// callback takes what the browser brings back. Whatever does not belong to a
// start link this browser followed leaves the attempt waiting.
func (l *loopback) callback(w http.ResponseWriter, r *http.Request) {
	q, err := parseCallback(r.URL.RawQuery)
	if err != nil {
		showPage(w, http.StatusBadRequest, pageStray)
		return
	}
	l.mu.Lock()
	var v *visit
	for _, have := range l.visits {
		if same(have.state, q.state) {
			v = have
		}
	}
	mine := v != nil && l.holds(r, v)
	l.mu.Unlock()
	switch {
	case !mine:
		showPage(w, http.StatusBadRequest, pageStray)
		return
	case q.code == "" && q.failure == "":
		showPage(w, http.StatusBadRequest, pageStray)
		return
	}
	ans := &answer{code: q.code, verifier: v.verifier, settled: make(chan error, 1)}
	switch {
	// RFC 9207: compared as it is, before anything else it says is used.
	case q.iss == nil && l.issRequired, q.iss != nil && *q.iss != l.issuer:
		ans.err = errors.New("the answer did not come from the sign-in server it was asked of; nothing was sent to it")
	case q.failure != "":
		ans.err = q.refusal()
	}
	if !l.settle(ans) {
		showPage(w, http.StatusGone, pageLate)
		return
	}
	select {
	case err = <-ans.settled:
	case <-r.Context().Done():
		return
	}
	switch {
	case err == nil:
		showPage(w, http.StatusOK, pageDone)
	case q.failure == "access_denied":
		showPage(w, http.StatusBadRequest, pageDenied)
	default:
		showPage(w, http.StatusBadRequest, pageFailed)
	}
}

// settle hands the first answer that belongs here to the attempt and frees
// the port at once; there is no second one.
func (l *loopback) settle(ans *answer) bool {
	l.mu.Lock()
	late := l.settled
	l.settled = true
	l.mu.Unlock()
	if late {
		return false
	}
	_ = l.ln.Close()
	select {
	case l.answers <- ans:
		return true
	case <-l.stopped:
		return false
	}
}

// callbackQuery is the query of a callback.
type callbackQuery struct {
	code, state, failure, text string
	iss                        *string
}

// parseCallback reads the query of a callback. A parameter that decides
// anything must not be there twice.
func parseCallback(raw string) (callbackQuery, error) {
	if len(raw) > 8<<10 {
		return callbackQuery{}, errors.New("the query is too long")
	}
	values, err := url.ParseQuery(raw)
	if err != nil {
		return callbackQuery{}, errors.New("the query cannot be parsed")
	}
	for _, name := range []string{"code", "state", "iss", "error", "error_description"} {
		if len(values[name]) > 1 {
			return callbackQuery{}, fmt.Errorf("the query has %s more than once", name)
		}
	}
	q := callbackQuery{code: values.Get("code"), state: values.Get("state"), failure: values.Get("error"), text: values.Get("error_description")}
	if iss, ok := values["iss"]; ok {
		q.iss = &iss[0]
	}
	if q.code != "" && q.failure != "" {
		return callbackQuery{}, errors.New("the query has both a code and an error")
	}
	return q, nil
}

// refusal says in one line why the service sent the browser back empty.
func (q callbackQuery) refusal() error {
	code := errorCode(q.failure)
	if code == "" {
		code = "an error"
	}
	if text := oneLine(q.text, 200); text != "" {
		return fmt.Errorf("the sign-in server answered %s (it says: %q)", code, text)
	}
	return fmt.Errorf("the sign-in server answered %s", code)
}

// fewConns keeps a flood of connections from taking all descriptors.
type fewConns struct {
	net.Listener
	free chan struct{}
}

// Accept drops a connection beyond maxConns.
func (f *fewConns) Accept() (net.Conn, error) {
	for {
		c, err := f.Listener.Accept()
		if err != nil {
			return nil, err
		}
		select {
		case f.free <- struct{}{}:
			return &countedConn{Conn: c, free: sync.OnceFunc(func() { <-f.free })}, nil
		default:
			_ = c.Close()
		}
	}
}

type countedConn struct {
	net.Conn
	free func()
}

// Close gives the place back.
func (c *countedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
