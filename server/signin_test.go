package main

import (
	"context"
	"html"
	"io"
	"net"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
)

var (
	hiddenField = regexp.MustCompile(`<input[^>]*name="(csrf|req)"[^>]*value="([^"]*)"`)
	startLink   = regexp.MustCompile(`http://127\.0\.0\.1:\d+/start/[A-Za-z0-9_-]+`)
)

// approve is a person with a browser who opens the link and gives a name. It
// returns the page they land on.
func approve(t *testing.T, link, name string) (status int, page string) {
	t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	c := &http.Client{Jar: jar, Timeout: 20 * time.Second}
	status, page, at := open(t, c, http.MethodGet, link, nil)
	form := url.Values{"name": {name}}
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	if form.Get("csrf") == "" {
		t.Fatalf("no sign-in form: %d %s", status, page)
	}
	status, page, _ = open(t, c, http.MethodPost, at.ResolveReference(&url.URL{Path: "/authorize/local"}).String(), form)
	return status, page
}

func open(t *testing.T, c *http.Client, method, address string, form url.Values) (int, string, *url.URL) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, method, address, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	resp, err := c.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	page, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(page), resp.Request.URL
}

func TestACallThatNeedsASignInGivesTheLinkAndWorksOnceApproved(t *testing.T) {
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", "")
	b := p.open(t)
	r := b.call("bellman_rooms", nil)
	link := startLink.FindString(r.text())
	if !r.IsError || link == "" || !strings.Contains(r.text(), "Nothing was sent") {
		t.Fatalf("signed out: %s", r.text())
	}
	if status, page := approve(t, link, "Ada"); status != http.StatusOK || !strings.Contains(page, "signed in") {
		t.Fatalf("the person lands on %d %s", status, page)
	}
	for deadline := time.Now().Add(20 * time.Second); b.call("bellman_rooms", nil).IsError; {
		if time.Now().After(deadline) {
			t.Fatal("still not signed in")
		}
	}
	if got := b.call("bellman_whoami", nil); !strings.Contains(string(got.Data), `"source":"oauth"`) || !strings.Contains(got.text(), `"Ada"`) {
		t.Errorf("whoami: %s %s", got.Data, got.text())
	}
	if !strings.Contains(b.err.String(), "no keychain can be used") || strings.Count(b.err.String(), "no keychain can be used") != 1 {
		t.Errorf("want one warning that no keychain is here:\n%s", b.err.String())
	}
}

// A person signs in by command, into a file they opted in to; the next bridge
// is signed in without a browser, and after logout nobody is.
func TestLoginAndLogoutByCommand(t *testing.T) {
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", "", "BELLMAN_CREDENTIAL_STORE=file")
	said, rest := p.login(t)
	if !strings.Contains(said, "ssh -N -L") || !strings.Contains(said, "Open this link in a browser on this machine") {
		t.Errorf("login does not say what to do, over SSH or not:\n%s", said)
	}
	approve(t, startLink.FindString(said), "Ada")
	if out, err := rest(); err != nil || !strings.Contains(out, "Signed in as Ada at "+strings.TrimPrefix(h.URL, "http://")+", for the profile default.") {
		t.Fatalf("login: %v\n%s", err, out)
	}
	b := p.open(t)
	if r := b.call("bellman_rooms", nil); r.IsError {
		t.Errorf("after login: %s", r.text())
	}
	if out, err := p.command(t, "logout").CombinedOutput(); err != nil || !strings.Contains(string(out), "Signed out.") {
		t.Fatalf("logout: %v\n%s", err, out)
	}
	if r := b.call("bellman_rooms", nil); !r.IsError || startLink.FindString(r.text()) == "" {
		t.Errorf("after logout: %s", r.text())
	}
}

// login runs the command until it waits for the person, and returns what it
// said by then, and what becomes of it.
func (p profile) login(t *testing.T) (said string, rest func() (string, error)) {
	t.Helper()
	cmd := p.command(t, "login")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint syncBuffer
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	for buf := make([]byte, 1024); !strings.Contains(said, "Waiting for you"); {
		n, err := out.Read(buf)
		said += string(buf[:n])
		if err != nil {
			_ = cmd.Wait()
			t.Fatalf("login said %q and %q, then %v", said, complaint.String(), err)
		}
	}
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return said, func() (string, error) {
		more, _ := io.ReadAll(out)
		err := cmd.Wait()
		return string(more) + complaint.String(), err
	}
}

// A browser that opens is said to have; what a bridge would log is not.
func TestLoginByCommandOpensABrowser(t *testing.T) {
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", "", "BELLMAN_CREDENTIAL_STORE=file")
	p.withBrowser(t)
	if err := os.MkdirAll(filepath.Join(p.dir, "state", "claude-desktop"), 0o700); err != nil {
		t.Fatal(err)
	}
	said, rest := p.login(t)
	if !strings.Contains(said, "A browser has been opened") || strings.Contains(said, "ssh") {
		t.Errorf("login said:\n%s", said)
	}
	approve(t, p.openedLink(t), "Ada")
	out, err := rest()
	if err != nil || strings.Contains(out, "[bellman]") {
		t.Errorf("login: %v\n%s", err, out)
	}
	if !strings.Contains(out, "bellman-bridge --profile claude-desktop login") {
		t.Errorf("login does not say that Claude Desktop has a profile of its own:\n%s", out)
	}
	if out, err := p.command(t, "whoami").CombinedOutput(); err != nil || !strings.HasPrefix(string(out), "Ada (") {
		t.Errorf("whoami: %v\n%s", err, out)
	}
}

// Where nothing can keep a sign-in, none is made by command, and the person is
// told what would help before they have gone through it.
func TestLoginByCommandIsNotMadeToBeLost(t *testing.T) {
	h := hubtest.Start(t)
	for name, env := range map[string]string{"no keychain": "BELLMAN_LOG=info", "memory": "BELLMAN_CREDENTIAL_STORE=memory"} {
		out, err := newProfile(t, h.URL+"/mcp", "", env).command(t, "login").CombinedOutput()
		if err == nil || strings.Contains(string(out), "/start/") || !strings.Contains(string(out), "BELLMAN_CREDENTIAL_STORE=file") || strings.Contains(string(out), "[bellman]") {
			t.Errorf("%s: %v\n%s", name, err, out)
		}
	}
}

// Giving up is no failure of anything.
func TestLoginByCommandCanBeGivenUp(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("there one process cannot send Ctrl-C to another")
	}
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", "", "BELLMAN_CREDENTIAL_STORE=file")
	cmd := p.command(t, "login")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	var complaint syncBuffer
	cmd.Stderr = &complaint
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_, _ = io.Copy(io.Discard, out)
	if err := cmd.Wait(); err == nil || !strings.Contains(complaint.String(), "given up") || !strings.Contains(complaint.String(), "nothing was changed") {
		t.Errorf("login: %v\n%s", err, complaint.String())
	}
}

// Signing in as somebody else hides the first person's events; signing in
// again brings them back.
func TestEventsOfAnotherIdentityAreHiddenAndKept(t *testing.T) {
	j, b := join(t)
	j.peer.Say(t, "for Jesse")
	b.untilWaiting("1 peer event is waiting")
	b.kill()
	other := j.profile
	other.env = append(append([]string{}, other.env...), "BELLMAN_KEY=qk_dev_outsider")
	o := other.open(t)
	if w := o.wait(1); w.Count != 0 || len(w.Next) != 0 {
		t.Errorf("another identity sees %+v", w)
	}
	o.kill()
	wantTexts(t, j.profile.open(t).collect(1), "for Jesse")
}

// A keychain behind a bus that takes connections and never says a word holds up
// neither the handshake nor the list, whoami or a wait; the person still gets a
// link.
func TestADeafKeychainHoldsUpNothing(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("only there does the keychain stand behind a bus")
	}
	dir, err := os.MkdirTemp("", "bus") //nolint:usetesting // A socket's path must be short, and t.TempDir's is not.
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	bus, err := net.Listen("unix", filepath.Join(dir, "bus"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bus.Close() })
	p := newProfile(t, hubtest.Start(t).URL+"/mcp", "", "DBUS_SESSION_BUS_ADDRESS=unix:path="+filepath.Join(dir, "bus"))
	b := p.open(t)
	if r := b.request("tools/list", `{}`); r.Error != nil {
		t.Fatalf("tools/list: %+v", r.Error)
	}
	b.wait(0)
	if got := b.call("bellman_whoami", nil); !strings.Contains(string(got.Data), `"source":"unknown"`) {
		t.Errorf("whoami: %s", got.Data)
	}
	if r := b.call("bellman_rooms", nil); !r.IsError || startLink.FindString(r.text()) == "" {
		t.Errorf("a call: %s", r.text())
	}
	if n := strings.Count(b.err.String(), "no keychain can be used"); n != 1 {
		t.Errorf("warned %d times:\n%s", n, b.err.String())
	}
}

// The copy whose tab the person has before them is killed. A call that waited
// on another copy does not wait for the dead link: it gives one that works.
func TestAKilledSignInLeavesACallWithALinkThatWorks(t *testing.T) {
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", "", "BELLMAN_CREDENTIAL_STORE=file")
	p.withBrowser(t)
	first, second := p.open(t), p.open(t)
	first.send("tools/call", toolParams("bellman_rooms", nil))
	dead := p.openedLink(t)
	_, answer := second.send("tools/call", toolParams("bellman_rooms", nil))
	for deadline := time.Now().Add(20 * time.Second); !strings.Contains(second.err.String(), "joined the sign-in"); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the second copy has not joined")
		}
	}
	first.kill()
	select {
	case got := <-answer:
		answer <- got
	case <-time.After(30 * time.Second):
		t.Fatal("the call waits for a link that leads nowhere")
	}
	r := second.tool(answer)
	link := startLink.FindString(r.text())
	if link == "" || link == dead {
		t.Fatalf("the call says %s", r.text())
	}
	if status, page := approve(t, link, "Ada"); status != http.StatusOK {
		t.Errorf("the person lands on %d %s", status, page)
	}
}
