package oauth_test

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// rig is one machine: an authorization server, a state directory, a store and
// a person at a browser.
type rig struct {
	as      *oauthtest.Server
	browser *oauthtest.Browser
	dir     string
	store   oauth.Store
	ports   []int
	logs    logBuffer
}

func newRig(t *testing.T) *rig {
	t.Helper()
	as := oauthtest.New(t)
	r := &rig{as: as, browser: as.NewBrowser(t, "jesse"), dir: t.TempDir(), store: &sharedStore{}, ports: freePorts(t, 5)}
	t.Cleanup(func() { r.checkSecrets(t) })
	return r
}

// config is the usual way to open a session on the rig.
func (r *rig) config() oauth.Config {
	return oauth.Config{
		Server: r.as.Resource(), Dir: r.dir, Profile: "test", Store: r.store, Open: r.browser.Open, Ports: r.ports,
		Log: slog.New(slog.NewTextHandler(&r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
}

func (r *rig) open(t *testing.T, change ...func(*oauth.Config)) *oauth.Session {
	t.Helper()
	c := r.config()
	for _, f := range change {
		f(&c)
	}
	s, err := oauth.New(c)
	if err != nil {
		t.Fatalf("New: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(context.Background()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
	return s
}

// checkSecrets looks for anything secret the server gave out where it has no
// business: the log, the browser, and every file but the credential file.
func (r *rig) checkSecrets(t *testing.T) {
	t.Helper()
	places := map[string]string{"log": r.logs.String(), "what the browser is started with": strings.Join(r.browser.Opened(), " ")}
	for _, p := range r.browser.Pages() {
		places["the page the person lands on"] += p.Body
	}
	err := filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "credential.json" {
			return err
		}
		b, err := os.ReadFile(path)
		places[path] = string(b)
		return err
	})
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("look through the state directory: %v", err)
	}
	for place, text := range places {
		r.noSecrets(t, place, text)
	}
}

// noSecrets checks that text holds nothing secret that the server gave out.
func (r *rig) noSecrets(t *testing.T, place, text string) {
	t.Helper()
	for _, secret := range r.as.Secrets() {
		if strings.Contains(text, secret) {
			t.Errorf("%s holds a secret", place)
		}
	}
}

// statePath is where the state file of the rig's server is.
func (r *rig) statePath(t *testing.T) string {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(r.dir, "signin", "*", "state.json"))
	if err != nil || len(found) != 1 {
		t.Fatalf("state files: %v, %v", found, err)
	}
	return found[0]
}

// signIn signs in through the browser.
func (r *rig) signIn(t *testing.T, s *oauth.Session) {
	t.Helper()
	a, err := s.SignIn(t.Context())
	if err != nil {
		t.Fatalf("SignIn: %v", err)
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Fatalf("Wait: %v", err)
	}
}

// call uses a token at the resource and returns the status.
func (r *rig) call(t *testing.T, token string) int {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.as.Resource(), strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	return resp.StatusCode
}

func mustToken(t *testing.T, s *oauth.Session) string {
	t.Helper()
	tok, err := s.Token(t.Context())
	if err != nil {
		t.Fatalf("Token: %v", err)
	}
	return tok
}

// freePorts returns ports that were free a moment ago.
func freePorts(tb testing.TB, n int) []int {
	tb.Helper()
	var ports []int
	for range n {
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatal(err)
		}
		defer ln.Close()
		ports = append(ports, ln.Addr().(*net.TCPAddr).Port)
	}
	return ports
}

// logBuffer is a log that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// sharedStore stands for a keychain that several sessions share. It counts
// its reads, and fails or blocks as it is told.
type sharedStore struct {
	mu    sync.Mutex
	item  []byte
	gets  int
	fail  error
	block chan struct{}
}

func (m *sharedStore) Get(ctx context.Context) ([]byte, error) {
	m.mu.Lock()
	m.gets++
	item, fail, block := bytes.Clone(m.item), m.fail, m.block
	m.mu.Unlock()
	if block != nil {
		select {
		case <-block:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	return item, fail
}

func (m *sharedStore) Set(_ context.Context, item []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.item = bytes.Clone(item)
	return nil
}

func (m *sharedStore) Delete(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.fail != nil {
		return m.fail
	}
	m.item = nil
	return nil
}

func (m *sharedStore) Name() string { return "keychain" }

func (m *sharedStore) setFail(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.fail = err
}

func (m *sharedStore) reads() int {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.gets
}

// eventually waits for something that another goroutine brings about.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatalf("it never came to pass that %s", what)
}

// told waits to be told of a sign-in or a sign-out.
func told(t *testing.T, changed <-chan struct{}) {
	t.Helper()
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Fatal("nobody was told of the change")
	}
}

// testLog writes to the test's own log.
func testLog(t *testing.T) *slog.Logger {
	t.Helper()
	return slog.New(slog.NewTextHandler(t.Output(), nil))
}
