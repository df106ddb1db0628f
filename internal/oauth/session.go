package oauth

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// ErrSignInNeeded means that there is no sign-in, or that it has ended, and
// only the person can bring a new one.
var ErrSignInNeeded = errors.New("oauth: sign-in needed")

// ErrDeclined means that the person would not open the link to sign in.
var ErrDeclined = errors.New("the person declined to open the sign-in page")

var errClosed = errors.New("oauth: session closed")

const (
	storeLimit    = 3 * time.Second  // for a store nobody is looking at
	promptLimit   = 45 * time.Second // for a store that may be asking the person
	refreshMargin = 60 * time.Second
	refreshJitter = 20 * time.Second
	lastMoments   = 10 * time.Second
	saveInterval  = 30 * time.Second
	watchInterval = time.Second
	barrenTime    = 30 * time.Second
	maxBarren     = 2
	minBackoff    = time.Second
	maxBackoff    = 5 * time.Minute
	usualBackoff  = 30 * time.Second
)

// Config says whose sign-in a Session keeps, and where. Server, Dir, Store
// and Log are required.
type Config struct {
	Server  string // the service's MCP URL
	Dir     string // state directory of the profile, an absolute path
	Profile string
	Store   Store
	// Open starts a browser on a link and returns when it is known to have
	// started; nil means that no browser is ever started here.
	Open func(ctx context.Context, link string) error
	// Host is asked before Open, when it can be; nil means that it never is.
	Host Host
	// Ports are tried in turn for the browser's way back; none means 51004 to
	// 51008.
	Ports []int
	// TLS replaces the system's roots, for a server with its own authority.
	TLS *tls.Config
	Log *slog.Logger
}

// Host is the program the person sits at. It can take them to a link, which
// is kinder than a browser that starts without a question.
type Host interface {
	// CanAsk reports, without waiting, whether Ask is of any use.
	CanAsk() bool
	// Ask asks the person to open link. When they agree it blocks until ctx
	// ends, as it does once the link is needed no more, and returns nil. It
	// returns ErrDeclined when they would not, and another error when they
	// could not be asked.
	Ask(ctx context.Context, link string) error
}

// Session keeps the sign-in of one profile at one server, together with every
// other process that has a Session on the same directory. Its methods may be
// called from many goroutines at once.
type Session struct {
	cfg    Config
	server *url.URL
	dir    string
	log    *slog.Logger
	wire   *wire
	now    func() time.Time
	margin time.Duration
	wg     sync.WaitGroup
	stop   chan struct{}
	slot   chan struct{} // held while the store is read outside refresh.lock

	mu       sync.Mutex
	closed   bool
	loaded   bool
	seen     fs.FileInfo // the version of the state file that gen was read from
	gen      uint64
	epoch    uint64
	hasEpoch bool
	cred     *credential
	unsaved  bool // cred is newer than what the store took
	shut     bool // the store could not be read
	saving   bool
	refused  secret
	vain     string // fingerprint of the token that the service refused last
	inVain   int    // sign-ins in a row whose token was refused
	flight   *flight
	retryAt  time.Time
	backoff  time.Duration
	lastErr  error
	attempt  *Attempt

	wanted  string // access the service has asked for beyond what there was
	widened int    // how often

	renewedAt time.Time // when this process last refreshed
	barren    int       // refreshes in a row whose token was refused at once

	changed  chan struct{}
	watching bool
}

// flight is a refresh under way that any number of callers wait for.
type flight struct {
	done  chan struct{}
	token secret
	err   error
}

// New returns a Session. It does no input or output: nothing is read, asked
// or started before the first call that needs it.
func New(cfg Config) (*Session, error) {
	server, err := parseURL(cfg.Server)
	if err != nil {
		return nil, fmt.Errorf("server %q: %w", oneLine(cfg.Server, 200), err)
	}
	if !filepath.IsAbs(cfg.Dir) {
		return nil, fmt.Errorf("state directory %q is not an absolute path", cfg.Dir)
	}
	if cfg.Store == nil || cfg.Log == nil {
		return nil, errors.New("a session needs a store and a logger")
	}
	if len(cfg.Ports) == 0 {
		cfg.Ports = []int{51004, 51005, 51006, 51007, 51008}
	}
	return &Session{
		cfg: cfg, server: server, dir: serverDir(cfg.Dir, server), log: cfg.Log, wire: newWire(server, cfg.TLS),
		// Expiry is a matter of wall time: the monotonic clock stands still
		// while a laptop sleeps.
		now:     func() time.Time { return time.Now().Round(0) },
		margin:  refreshMargin + rand.N(refreshJitter), //nolint:gosec // Jitter needs no secrecy.
		stop:    make(chan struct{}),
		slot:    make(chan struct{}, 1),
		changed: make(chan struct{}),
	}, nil
}

// Lasts reports whether a sign-in outlives this process.
func (s *Session) Lasts() bool { return !s.fleeting() }

// serverDir keeps servers apart: two of them never wait for one another.
func serverDir(dir string, server *url.URL) string {
	sum := sha256.Sum256([]byte(canonical(server)))
	return filepath.Join(dir, "signin", hex.EncodeToString(sum[:6]))
}

func canonical(u *url.URL) string {
	return origin(u) + strings.TrimRight(u.EscapedPath(), "/")
}

// ItemName returns the user name under which a keychain holds the secret item
// of a profile at a server. It is at most 120 bytes long.
func ItemName(server, profile string) string {
	name := server
	if u, err := parseURL(server); err == nil {
		name = canonical(u)
	}
	if profile != "" && profile != "default" {
		name += "#" + profile
	}
	if len(name) <= 120 {
		return name
	}
	sum := sha256.Sum256([]byte(name))
	return strings.ToValidUTF8(name[:80], "") + "~" + hex.EncodeToString(sum[:16])
}

// CredentialFile returns the path FileStore should use for a server.
func CredentialFile(dir, server string) string {
	u, err := parseURL(server)
	if err != nil {
		u = &url.URL{Opaque: server}
	}
	return filepath.Join(serverDir(dir, u), "credential.json")
}

func (s *Session) path(name string) string { return filepath.Join(s.dir, name) }

// Token returns the access token to send now. In the usual case it does no
// more than look at the state file's time stamp; the first call reads the
// store, and a token about to end is replaced, in the background while it
// can still be used. It never opens a browser. The error is ErrSignInNeeded,
// or a passing one: nothing was lost, and a later call may succeed.
func (s *Session) Token(ctx context.Context) (string, error) {
	c, err := s.load(ctx, storeLimit)
	if err != nil {
		return "", err
	}
	if c == nil {
		return "", ErrSignInNeeded
	}
	s.mu.Lock()
	refused := s.refused
	s.mu.Unlock()
	now := s.now()
	if c.usable(now, s.margin, refused) {
		return string(c.access), nil
	}
	if c.refresh == "" && c.usable(now, 0, refused) {
		return string(c.access), nil
	}
	if c.usable(now, lastMoments, refused) {
		_, _ = s.board(ctx, refused) // Nobody waits for it, and trouble is for whoever does.
		return string(c.access), nil
	}
	return s.renew(ctx, refused)
}

// Replace returns another token than refused, which the service has just
// answered with a 401: the one that another caller or process got meanwhile,
// or a fresh one. Its errors are those of Token.
func (s *Session) Replace(ctx context.Context, refused string) (string, error) {
	if refused == "" {
		return s.Token(ctx)
	}
	c, err := s.load(ctx, storeLimit)
	if err != nil {
		return "", err
	}
	if c == nil {
		return "", ErrSignInNeeded
	}
	if c.usable(s.now(), 0, secret(refused)) {
		return string(c.access), nil
	}
	s.mu.Lock()
	s.refused, s.vain = secret(refused), fingerprint(secret(refused))
	pointless := s.barren >= maxBarren && s.justRenewed()
	s.mu.Unlock()
	if pointless {
		return "", errors.New("the service refuses every token that was just issued for it")
	}
	return s.renew(ctx, secret(refused))
}

// Identity returns who is signed in, as the state file has it; it asks
// neither the store nor the network, and does not mind an expired token. It
// reports false when nobody is, and when the token does not say who in full;
// UserID may be set even then.
func (s *Session) Identity() (Identity, bool) {
	st, info, err := readState(s.path("state.json"))
	s.mu.Lock()
	defer s.mu.Unlock()
	fleeting := s.fleeting()
	if s.loaded && (fleeting || err != nil || info == nil || st.Gen <= s.gen) {
		if s.cred == nil {
			return Identity{}, false
		}
		if s.cred.access != "" {
			id, bad := readIdentity(s.cred.access)
			return id, bad == nil
		}
		if st.Print != s.cred.print {
			return Identity{}, false
		}
	}
	if fleeting || st.Identity == nil || st.Backend != s.cfg.Store.Name() {
		return Identity{}, false
	}
	return *st.Identity, st.Readable
}

// sameVersion reports whether a and b describe the very same version of a
// file that is only ever replaced.
func sameVersion(a, b fs.FileInfo) bool {
	if a == nil || b == nil {
		return a == nil && b == nil
	}
	return os.SameFile(a, b) && a.ModTime().Equal(b.ModTime()) && a.Size() == b.Size()
}

// Close ends a pending sign-in, lets a refresh in flight finish for up to
// three seconds, writes down what the store has not taken yet, and waits for
// everything the session started. It returns an error when ctx or that limit
// ends first.
func (s *Session) Close(ctx context.Context) error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.stop)
	}
	a := s.attempt
	s.mu.Unlock()
	if a != nil {
		a.cancel(errClosed)
	}
	ctx, cancel := context.WithTimeout(ctx, storeLimit)
	defer cancel()
	done := make(chan struct{})
	go func() {
		s.wg.Wait()
		close(done)
	}()
	defer s.wire.close()
	select {
	case <-done:
	case <-ctx.Done():
		return errors.New("a refresh is still under way")
	}
	return s.flush(ctx)
}
