package oauth_test

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/oauth/oauthtest"
)

// child tells a process of its own what to do.
type child struct {
	Do     string // "token" prints how Token ended, "signin" shows a link and waits, "write" writes to the file Dir
	Server string
	Dir    string
	Ports  []int
}

// TestMain is also the child processes' main.
func TestMain(m *testing.M) {
	if raw := os.Getenv("OAUTH_CHILD"); raw != "" {
		if err := runChild(raw); err != nil {
			fmt.Fprintln(os.Stderr, "error:", err)
			os.Exit(1)
		}
		return
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) { os.Exit(code) }))
}

func runChild(raw string) error {
	var c child
	if err := json.Unmarshal([]byte(raw), &c); err != nil {
		return err
	}
	if c.Do == "write" {
		return writeWithoutRoom(c.Dir)
	}
	ctx := context.Background()
	s, err := oauth.New(oauth.Config{
		Server: c.Server, Dir: c.Dir, Ports: c.Ports, Store: oauth.FileStore(oauth.CredentialFile(c.Dir, c.Server)),
		Open: func(context.Context, string) error { return nil }, // A browser starts, and nobody looks at it.
		Log:  slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		return err
	}
	defer s.Close(ctx)
	switch c.Do {
	case "token":
		// All start together, when the parent closes the pipe.
		_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		_, err := s.Token(ctx)
		return err
	case "signin":
		a, err := s.SignIn(ctx)
		if err != nil {
			return err
		}
		fmt.Fprintln(os.Stderr, "link", a.Link())
		return a.Wait(ctx)
	}
	return fmt.Errorf("unknown task %q", c.Do)
}

func (r *rig) child(t *testing.T, do string) *exec.Cmd {
	t.Helper()
	return command(t, child{Do: do, Server: r.as.Resource(), Dir: r.dir, Ports: r.ports})
}

// command is a process of its own that does what c says.
func command(t *testing.T, c child) *exec.Cmd {
	t.Helper()
	raw, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "OAUTH_CHILD="+string(raw))
	return cmd
}

// claude-code#85236, mcp-remote#351: six processes with an expired token start
// at once, against a server that ends the family when a refresh token comes
// twice. One refresh call, no failure.
func TestSixProcessesShareOneRefresh(t *testing.T) {
	r := newRig(t)
	r.store = oauth.FileStore(oauth.CredentialFile(r.dir, r.as.Resource()))
	r.as.Set(func(s *oauthtest.Switches) { s.Lifetime, s.RevokeFamily = time.Second, true })
	r.signIn(t, r.open(t))
	time.Sleep(time.Second)
	r.as.Set(func(s *oauthtest.Switches) { s.Lifetime, s.TokenDelay = 0, 100*time.Millisecond })
	r.as.Forget()
	var wg sync.WaitGroup
	start, ready := make(chan struct{}), make(chan struct{}, 6)
	for range 6 {
		cmd := r.child(t, "token")
		in, err := cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		var out strings.Builder
		cmd.Stderr = &out
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			ready <- struct{}{}
			<-start
			_ = in.Close()
			if err := cmd.Wait(); err != nil {
				t.Errorf("child: %v: %s", err, out.String())
			}
			r.noSecrets(t, "a child's log", out.String())
		})
	}
	for range 6 {
		<-ready
	}
	close(start)
	wg.Wait()
	if got := r.as.Ledger().Grants; !slices.Equal(got, []string{"refresh_token:200"}) {
		t.Errorf("grants: %v, want one refresh", got)
	}
	if got := r.call(t, mustToken(t, r.open(t))); got != 200 {
		t.Errorf("call afterwards: status %d, want 200", got)
	}
}

// The proxy of the environment is on the way to a sign-in server, as it is to
// the service.
func TestSignInGoesThroughTheProxy(t *testing.T) {
	r := newRig(t)
	var mu sync.Mutex
	var asked []string
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
		mu.Lock()
		asked = append(asked, q.Method+" "+q.Host)
		mu.Unlock()
		w.WriteHeader(http.StatusBadGateway)
	}))
	defer proxy.Close()
	cmd := command(t, child{Do: "signin", Server: "https://bell.example/mcp", Dir: r.dir, Ports: r.ports})
	cmd.Env = append(cmd.Env, "HTTPS_PROXY="+proxy.URL, "NO_PROXY=")
	out, err := cmd.CombinedOutput()
	if err == nil || !strings.Contains(string(out), "Bad Gateway") {
		t.Errorf("SignIn: %v, %s; want what the proxy says", err, out)
	}
	mu.Lock()
	defer mu.Unlock()
	if !slices.Equal(asked, []string{"CONNECT bell.example:443"}) {
		t.Errorf("the proxy was asked for %v", asked)
	}
}

// signInElsewhere begins a sign-in in a process of its own, and returns it with
// the link it shows.
func (r *rig) signInElsewhere(t *testing.T) (cmd *exec.Cmd, link string) {
	t.Helper()
	cmd = r.child(t, "signin")
	out, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	for link == "" && lines.Scan() {
		link, _ = strings.CutPrefix(lines.Text(), "link ")
		if !strings.HasPrefix(link, "http") {
			link = ""
		}
	}
	return cmd, link
}

// kill ends a process as the system does, without a word.
func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
}

// deadSignIn leaves what a process leaves that was killed while it waited for
// the browser, and returns its link.
func (r *rig) deadSignIn(t *testing.T) string {
	t.Helper()
	cmd, link := r.signInElsewhere(t)
	kill(t, cmd)
	return link
}

// A copy that joins in while another one has taken over and has no link yet
// is not shown the dead process's link for it.
func TestDeadLinkIsNotShownAgain(t *testing.T) {
	r := newRig(t)
	dead := r.deadSignIn(t)
	store := &sharedStore{block: make(chan struct{})}
	r.store = store
	first, second := r.open(t), r.open(t)
	begun := make(chan error, 1)
	go func() {
		_, err := first.SignIn(t.Context())
		begun <- err
	}()
	eventually(t, "the first has its turn", func() bool { return store.reads() == 1 })
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if a, err := second.SignIn(ctx); err == nil {
		t.Errorf("shown %q while there is no link; the dead one is %q", a.Link(), dead)
	}
	close(store.block)
	if err := <-begun; err != nil {
		t.Fatal(err)
	}
	r.finishes(t, r.begun(t, second))
}

// The process that signs in is killed: one that waits for it takes over with
// a link of its own, and opens no second browser. The dead process's link
// leads nowhere, and following it disturbs nobody.
func TestKilledSignInIsTakenOver(t *testing.T) {
	r := newRig(t)
	r.store = oauth.FileStore(oauth.CredentialFile(r.dir, r.as.Resource()))
	cmd, link := r.signInElsewhere(t)
	s := r.open(t)
	a, err := s.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if a.Link() != link || !a.Opened() {
		t.Errorf("joined link %q (opened %v), want the other process's %q", a.Link(), a.Opened(), link)
	}
	kill(t, cmd)
	eventually(t, "the waiter has a link of its own", func() bool { return a.Link() != link })
	if n := len(r.browser.Opened()); n != 0 {
		t.Errorf("browsers opened by the waiter: %d, want none", n)
	}
	// The port is the same one again; the nonce is not.
	if p, err := r.browser.Get(t.Context(), link); err != nil || p.Status != 410 {
		t.Errorf("dead process's link: status %d, err %v; want 410", p.Status, err)
	}
	if _, err := r.browser.Finish(t.Context(), a.Link()); err != nil {
		t.Fatal(err)
	}
	if err := a.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := r.call(t, mustToken(t, s)); got != 200 {
		t.Errorf("call: status %d, want 200", got)
	}
	if n := len(r.browser.Opened()); n != 0 {
		t.Errorf("browsers opened after the dead process's own: %d, want none", n)
	}
}
