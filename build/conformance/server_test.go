package conformance_test

import (
	"bufio"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// The hub satisfies the suite in all that the service has, its refusal of
// foreign names among it. What it has not is listed.
func TestHubAsServer(t *testing.T) {
	packages(t)
	hub := hubtest.Start(t)
	s := httptest.NewUnstartedServer(nil)
	keyed := hub.Hub.Handler("http://" + s.Listener.Addr().String())
	s.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		// The suite has no place for a key.
		r.Header.Set("Authorization", "Bearer "+hubtest.Jesse)
		keyed.ServeHTTP(w, r)
	})
	s.Start()
	defer s.Close()
	verdict, said := judgeServer(t, s.URL+"/mcp")
	for _, scenario := range []string{
		"server-initialize", "ping", "tools-list", "resources-list", "dns-rebinding-protection",
	} {
		if len(verdict[scenario]) == 0 {
			t.Errorf("%s was not judged", scenario)
		}
	}
	compare(t, verdict, expected(t, "hub.txt"))
	if t.Failed() {
		t.Log(said)
	}
}

// judgeServer runs all of the suite that is meant for such a service, and one
// more scenario that it has but does not count among them.
func judgeServer(t *testing.T, url string) (verdict map[string][]check, said string) {
	t.Helper()
	ask := []string{"server", "--url", url, "--spec-version", "2025-11-25"}
	verdict, said = judge(t, nil, append(ask, "--suite", "active")...)
	one, more := judge(t, nil, append(ask, "--scenario", "json-schema-2020-12")...)
	maps.Copy(verdict, one)
	return verdict, said + more
}

// between are the scenarios of which nothing may be lost between a service
// and a host.
var between = []string{
	"server-initialize", "ping", "tools-list", "json-schema-2020-12",
	"tools-call-simple-text", "tools-call-image", "tools-call-audio", "tools-call-embedded-resource",
	"tools-call-mixed-content", "tools-call-error", "tools-call-with-progress",
	"resources-list", "resources-read-text", "resources-read-binary", "resources-templates-read",
}

// Whatever the suite accepts of a service's tools and resources it accepts
// when a bridge stands between. What does not apply is listed.
func TestNothingIsLostInBetween(t *testing.T) {
	url := fixture(t)
	state := filepath.Join(t.TempDir(), "state")
	start := func() *exec.Cmd {
		cmd := exec.Command(bridge, "--url", url, "--key", "qk_dev_conformance", "--state-dir", state)
		cmd.Env = append(os.Environ(), "HOME="+filepath.Dir(state), "BELLMAN_NO_BROWSER=1")
		return cmd
	}
	prime(t, start())
	direct, _ := judgeServer(t, url)
	through, said := judgeServer(t, serve(t, start))
	for _, scenario := range between {
		if len(direct[scenario]) == 0 {
			t.Errorf("%s was not judged", scenario)
		}
		fate := map[string]check{}
		for _, c := range through[scenario] {
			fate[c.ID] = c
		}
		for _, c := range direct[scenario] {
			if !c.passed() {
				t.Errorf("the fixture itself: %s: %s %s", scenario, c.ID, c.Message)
			}
			if got, ok := fate[c.ID]; !ok || got.Status != c.Status {
				t.Errorf("%s: %s is %s directly, and %q through the bridge: %s", scenario, c.ID, c.Status, got.Status, got.Message)
			}
		}
	}
	for _, scenario := range between {
		delete(through, scenario)
	}
	compare(t, through, expected(t, "bridge.txt"))
	if t.Failed() {
		t.Log(said)
	}
}

// fixture starts the service of testdata and returns its address.
func fixture(t *testing.T) string {
	t.Helper()
	dir, node := packages(t)
	cmd := exec.CommandContext(t.Context(), node, "testdata/fixture.mjs", dir)
	cmd.Stderr = t.Output()
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	url, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("the fixture did not start: %v", err)
	}
	return strings.TrimSpace(url)
}

// prime runs one bridge until it has read the service's tools, which the next
// ones then list at once.
func prime(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h := &host{in: in, out: bufio.NewScanner(out)}
	h.out.Buffer(nil, 16<<20)
	err = h.converse("prime")
	if err == nil {
		_, err = h.schemaOf("test_simple_text")
	}
	if err != nil {
		t.Errorf("prime the list of tools: %v", err)
	}
	_ = in.Close()
	_ = cmd.Wait()
}
