package oauth_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"bellman.sh/desktop/internal/oauth"
)

// issuer is a token endpoint in made-up time. It numbers the pairs it gives.
type issuer struct {
	mu       sync.Mutex
	lifetime time.Duration
	status   int // when not 200, what it answers
	code     string
	after    string
	hold     chan struct{} // when set, an answer waits for it
	asked    []time.Time
	given    int
}

func (i *issuer) ServeHTTP(w http.ResponseWriter, _ *http.Request) {
	i.mu.Lock()
	i.asked = append(i.asked, time.Now())
	i.given++
	status, code, after, hold, n, lifetime := i.status, i.code, i.after, i.hold, i.given, i.lifetime
	i.mu.Unlock()
	if hold != nil {
		<-hold
	}
	w.Header().Set("Content-Type", "application/json")
	if after != "" {
		w.Header().Set("Retry-After", after)
	}
	if status != 0 {
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"error":%q}`, code)
		return
	}
	fmt.Fprintf(w, `{"access_token":"access-%d","refresh_token":"refresh-%d","token_type":"Bearer","expires_in":%d}`, n, n, int(lifetime.Seconds()))
}

// stored is the item of the pair number n.
func stored(n int, ttl, left time.Duration) []byte {
	return fmt.Appendf(nil, `{"v":1,"gen":%d,"iss":"https://login.example","res":"https://api.example/mcp","cid":"c","te":"https://login.example/token","rt":"refresh-%d","at":"access-%d","exp":%d,"ttl":%d}`,
		n+1, n, n, time.Now().Add(left).Unix(), int(ttl.Seconds()))
}

// set changes how it answers.
func (i *issuer) set(change func(*issuer)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	change(i)
}

func (i *issuer) count() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return len(i.asked)
}

// made is what a test in made-up time works with.
type made struct {
	*testing.T
	*oauth.Session
	*issuer

	store *sharedStore
}

// inTime runs f in a time of its own, with a session whose stored access
// token, access-0, has left seconds of ttl to live.
func inTime(t *testing.T, ttl, left time.Duration, f func(made)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		item := stored(0, ttl, left)
		store := &sharedStore{item: item}
		s, err := oauth.New(oauth.Config{
			Server: "https://api.example/mcp", Dir: filepath.Join(t.TempDir(), "state"), Store: store, Log: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			t.Fatal(err)
		}
		as := &issuer{lifetime: ttl}
		s.AnswerWith(as)
		f(made{t, s, as, store})
		if err := s.Close(t.Context()); err != nil {
			t.Errorf("Close: %v", err)
		}
	})
}
