//go:build linux

package oauth_test

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/oauth"
)

// screens is where the pictures of the pages go, to be looked at.
const screens = "../../build/out/screens"

// chromium is a real browser with one tab, driven over a pipe by the DevTools
// protocol.
type chromium struct {
	t   *testing.T
	in  *os.File
	out *bufio.Reader
	tab string

	mu sync.Mutex // one request at a time
	id int
}

// startChromium starts the system's Chromium; without one the test is skipped
// and says so.
func startChromium(t *testing.T) *chromium {
	t.Helper()
	var path string
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if p, err := exec.LookPath(name); err == nil {
			path = p
			break
		}
	}
	if path == "" {
		if os.Getenv("CI") != "" {
			t.Fatal("chromium is not installed")
		}
		t.Skip("SKIPPED: chromium is not installed, so no real browser has signed in")
	}
	theirIn, in, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "chromium") //nolint:usetesting // Its helpers may write for a moment after it has ended.
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(path, "--headless", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage",
		"--no-first-run", "--no-proxy-server", "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
		"--user-data-dir="+filepath.Join(home, "profile"), "about:blank")
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{theirIn, theirOut} // File descriptors 3 and 4.
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	_, _ = theirIn.Close(), theirOut.Close()
	c := &chromium{t: t, in: in, out: bufio.NewReaderSize(out, 1<<20)}
	t.Cleanup(func() {
		_ = syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) // It and its helpers, which are of its group.
		_ = cmd.Wait()
		_, _ = in.Close(), out.Close()
		eventually(t, "the browser's files are gone", func() bool { return os.RemoveAll(home) == nil })
	})
	if err := out.SetReadDeadline(time.Now().Add(2 * time.Minute)); err != nil {
		t.Fatal(err)
	}
	target := c.must("", "Target.createTarget", map[string]any{"url": "about:blank"})
	c.tab, _ = c.must("", "Target.attachToTarget", map[string]any{"targetId": target["targetId"], "flatten": true})["sessionId"].(string)
	c.must(c.tab, "Page.enable", nil)
	c.must(c.tab, "Emulation.setDeviceMetricsOverride", map[string]any{"width": 900, "height": 640, "deviceScaleFactor": 1, "mobile": false})
	return c
}

// do sends one command and returns its answer.
func (c *chromium) do(session, method string, params map[string]any) (map[string]any, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.id++
	b, err := json.Marshal(map[string]any{"id": c.id, "method": method, "params": params, "sessionId": session})
	if session == "" {
		b, err = json.Marshal(map[string]any{"id": c.id, "method": method, "params": params})
	}
	if err != nil {
		return nil, err
	}
	if _, err := c.in.Write(append(b, 0)); err != nil {
		return nil, err
	}
	for {
		raw, err := c.out.ReadBytes(0)
		if err != nil {
			return nil, err
		}
		var m struct {
			ID     int
			Result map[string]any
			Error  *struct{ Message string }
		}
		if err := json.Unmarshal(raw[:len(raw)-1], &m); err != nil {
			return nil, err
		}
		if m.ID != c.id {
			continue // An event.
		}
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, m.Error.Message)
		}
		return m.Result, nil
	}
}

func (c *chromium) must(session, method string, params map[string]any) map[string]any {
	c.t.Helper()
	r, err := c.do(session, method, params)
	if err != nil {
		c.t.Fatalf("chromium: %v", err)
	}
	return r
}

// eval returns the value of an expression in the page, as text. While the
// page changes there is none.
func (c *chromium) eval(js string) string {
	r, err := c.do(c.tab, "Runtime.evaluate", map[string]any{"expression": "String(" + js + ")"})
	if err != nil {
		return ""
	}
	v, _ := r["result"].(map[string]any)
	s, _ := v["value"].(string)
	return s
}

// goTo follows a link.
func (c *chromium) goTo(link string) {
	c.t.Helper()
	c.must(c.tab, "Page.navigate", map[string]any{"url": link})
}

// shows waits for a heading.
func (c *chromium) shows(heading string) {
	c.t.Helper()
	eventually(c.t, "the page says "+strconv.Quote(heading), func() bool {
		return strings.Contains(c.eval(`document.querySelector("h1")?.textContent`), heading)
	})
}

// picture keeps the page as it looks in light and in dark.
func (c *chromium) picture(name string) {
	c.t.Helper()
	if err := os.MkdirAll(screens, 0o755); err != nil {
		c.t.Fatal(err)
	}
	for _, scheme := range []string{"light", "dark"} {
		c.must(c.tab, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
		data, _ := c.must(c.tab, "Page.captureScreenshot", map[string]any{"format": "png"})["data"].(string)
		png, err := base64.StdEncoding.DecodeString(data)
		if err != nil || len(png) == 0 {
			c.t.Fatalf("picture of %s: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(screens, name+"-"+scheme+".png"), png, 0o644); err != nil {
			c.t.Fatal(err)
		}
	}
}

// contrast returns the ratio of WCAG between the text and what is behind it,
// for the element that has it worst.
const contrast = `Math.min(...[...document.querySelectorAll("h1,p,footer")].map(e => {
	const lum = c => { const [r, g, b] = c.match(/[\d.]+/g).map(v => (v /= 255) <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4); return .2126 * r + .7152 * g + .0722 * b };
	let at = e; while (/rgba\(.*, 0\)/.test(getComputedStyle(at).backgroundColor)) at = at.parentElement;
	const [a, b] = [lum(getComputedStyle(e).color), lum(getComputedStyle(at).backgroundColor)].sort((x, y) => y - x);
	return (a + .05) / (b + .05) }))`

// readable checks our own page: its style is applied in spite of the policy,
// and its text can be read by people who see little, in light and in dark.
func (c *chromium) readable() {
	c.t.Helper()
	for _, scheme := range []string{"light", "dark"} {
		c.must(c.tab, "Emulation.setEmulatedMedia", map[string]any{"features": []any{map[string]any{"name": "prefers-color-scheme", "value": scheme}}})
		if ratio, err := strconv.ParseFloat(c.eval(contrast), 64); err != nil || ratio < 4.5 {
			c.t.Errorf("contrast in %s: %v, err %v; want 4.5", scheme, ratio, err)
		}
	}
	if got := c.eval(`getComputedStyle(document.querySelector("main")).textAlign`); got != "center" {
		c.t.Errorf("the page's style is not applied: text is aligned %q", got)
	}
	if got := c.eval(`document.documentElement.scrollWidth <= innerWidth`); got != "true" {
		c.t.Error("the page is wider than the window")
	}
}

// One whole sign-in at a real hub with a real browser: the start link, the
// name form, the approval, the page the person lands on; then a used link and
// a refusal. What Chromium makes of the cookie, the redirects and the policies
// cannot be known otherwise.
func TestRealBrowserSignsIn(t *testing.T) {
	if testing.Short() {
		t.Skip("starts a browser")
	}
	hub := hubtest.Start(t)
	c := startChromium(t)
	s, err := oauth.New(oauth.Config{
		Server: hub.URL + "/mcp", Dir: t.TempDir(), Store: oauth.MemoryStore(), Ports: freePorts(t, 3), Log: testLog(t),
		Open: func(_ context.Context, link string) error {
			_, err := c.do(c.tab, "Page.navigate", map[string]any{"url": link})
			return err
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close(context.Background()) })
	a, err := s.SignIn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.shows("Sign in")
	c.picture("1-name")
	used := a.Link()
	c.eval(`document.querySelector("#name").value = "Jesse"`)
	c.eval(`document.querySelector("button.go").click()`)
	c.shows("You are signed in")
	c.readable()
	c.picture("2-signed-in")
	if err := a.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if id, ok := s.Identity(); !ok || id.Label != "Jesse" {
		t.Errorf("Identity: %+v, %v", id, ok)
	}
	if held := c.eval(`document.cookie + document.referrer + document.documentElement.outerHTML`); strings.Contains(held, "bellman_signin") || strings.Contains(held, "code=") {
		t.Errorf("a script could see %s", held)
	}
	if err := s.SignOut(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The next link is followed by somebody else first; this browser is told.
	b, err := s.Login(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	c.shows("Sign in")
	mine := c.eval("location.href")
	c.goTo(strings.Replace(used, used[strings.Index(used, "://"):strings.Index(used, "/start/")], b.Link()[strings.Index(b.Link(), "://"):strings.Index(b.Link(), "/start/")], 1))
	c.shows("no longer works")
	c.readable()
	c.picture("3-used-link")
	c.goTo(mine)
	c.shows("Sign in")
	c.eval(`document.querySelector("button[name=deny]").click()`)
	c.shows("Nothing was signed in")
	c.readable()
	c.picture("4-refused")
	if err := b.Wait(t.Context()); err == nil {
		t.Error("Wait after a refusal succeeded")
	}
}
