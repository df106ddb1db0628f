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
	cmd := p.command(t, "login")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	for buf := make([]byte, 1024); !strings.Contains(said.String(), "Waiting for you"); {
		n, err := out.Read(buf)
		said.Write(buf[:n])
		if err != nil {
			t.Fatalf("login said %q, then %v", said.String(), err)
		}
	}
	if !strings.Contains(said.String(), "ssh -L") {
		t.Errorf("login does not say what to do over SSH:\n%s", said.String())
	}
	approve(t, startLink.FindString(said.String()), "Ada")
	rest, _ := io.ReadAll(out)
	if err := cmd.Wait(); err != nil || !strings.Contains(string(rest), "Signed in as Ada.") {
		t.Fatalf("login: %v\n%s", err, rest)
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
