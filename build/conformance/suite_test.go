package conformance_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// wide is set by the long runs, which leave no scenario out.
var wide = os.Getenv("BELLMAN_SOAK") != ""

// check is one line of the suite's verdict.
type check struct {
	ID      string `json:"id"`
	Status  string `json:"status"`
	About   string `json:"description"`
	Message string `json:"errorMessage"`
}

// passed tells whether the check is nothing to worry about; a warning is.
func (c check) passed() bool { return c.Status != "FAILURE" && c.Status != "WARNING" }

// packages returns the folder with the suite and a Node that can run it, or
// skips.
func packages(t *testing.T) (dir, node string) {
	t.Helper()
	dir, err := filepath.Abs("../../.cache/npm/node_modules")
	if err != nil {
		t.Fatal(err)
	}
	node, err = findNode(t, dir)
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "@modelcontextprotocol", "conformance", "package.json"))
	}
	if err == nil && runtime.GOOS == "windows" {
		err = errors.New("its browser is a shell script")
	}
	if err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skipf("NOT JUDGED, the conformance suite cannot run here (make setup): %v", err)
	}
	return dir, node
}

// findNode returns the Node 22 that was installed with the suite, else the
// machine's own if it is that new: not every system has one among the packages.
func findNode(t *testing.T, dir string) (string, error) {
	t.Helper()
	if found, err := filepath.Glob(filepath.Join(dir, "node-*", "bin", "node")); err == nil && len(found) > 0 {
		return found[0], nil
	}
	node, err := exec.LookPath("node")
	if err != nil {
		return "", err
	}
	said, err := exec.CommandContext(t.Context(), node, "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask %s for its version: %w", node, err)
	}
	major, _, _ := strings.Cut(strings.TrimPrefix(string(said), "v"), ".")
	if n, err := strconv.Atoi(major); err != nil || n < 22 {
		return "", fmt.Errorf("node 22 or newer is needed, not %s", bytes.TrimSpace(said))
	}
	return node, nil
}

// judge runs the suite and returns its checks by scenario, and what it said.
func judge(t *testing.T, env []string, args ...string) (map[string][]check, string) {
	t.Helper()
	dir, node := packages(t)
	out := t.TempDir()
	program := filepath.Join(dir, "@modelcontextprotocol", "conformance", "dist", "index.js")
	cmd := exec.CommandContext(t.Context(), node, append([]string{program}, append(args, "-o", out)...)...)
	cmd.Env = append(append(os.Environ(), "PATH="+filepath.Dir(node)+":"+os.Getenv("PATH")), env...)
	cmd.Dir = t.TempDir()
	said, err := cmd.CombinedOutput()
	var failed *exec.ExitError
	if err != nil && !errors.As(err, &failed) {
		t.Fatalf("run the suite: %v\n%s", err, said)
	}
	verdict := map[string][]check{}
	for _, depth := range []string{"*", "*/*"} { // auth/ is a folder
		files, err := fs.Glob(os.DirFS(out), depth+"/checks.json")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			written, err := os.ReadFile(filepath.Join(out, file))
			if err != nil {
				t.Fatal(err)
			}
			var checks []check
			if err := json.Unmarshal(written, &checks); err != nil {
				t.Fatalf("read %s: %v", file, err)
			}
			verdict[scenarioOf(path.Dir(file))] = checks
		}
	}
	if len(verdict) == 0 {
		t.Fatalf("the suite judged nothing:\n%s", said)
	}
	return verdict, string(said)
}

var dated = regexp.MustCompile(`-\d{4}-\d\d-\d\dT[\dZ-]*$`)

// scenarioOf returns the scenario whose results lie in a folder of that name:
// the suite puts a date behind it, and for a server a word before it.
func scenarioOf(folder string) string {
	return strings.TrimPrefix(dated.ReplaceAllString(folder, ""), "server-")
}

// expected are the scenarios that are meant to fail, each with the reason, as
// testdata lists them: one a line, the reason after a colon.
func expected(t *testing.T, file string) map[string]string {
	t.Helper()
	written, err := os.ReadFile(filepath.Join("testdata", file))
	if err != nil {
		t.Fatal(err)
	}
	reasons := map[string]string{}
	for line := range strings.Lines(string(written)) {
		line = strings.TrimSpace(line)
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, reason, ok := strings.Cut(line, ": ")
		if !ok {
			t.Fatalf("%s: %q gives no reason", file, line)
		}
		reasons[name] = reason
	}
	return reasons
}

// compare fails the test for a scenario that fails and is not expected to, and
// for one that is expected to and does not.
func compare(t *testing.T, verdict map[string][]check, reasons map[string]string) {
	t.Helper()
	passed := 0
	for _, scenario := range slices.Sorted(maps.Keys(verdict)) {
		_, meant := reasons[scenario]
		bad := 0
		for _, c := range verdict[scenario] {
			if c.passed() {
				continue
			}
			bad++
			if !meant {
				t.Errorf("%s: %s %s: %s %s", scenario, c.Status, c.ID, c.About, c.Message)
			}
		}
		switch {
		case bad == 0 && meant:
			t.Errorf("%s passes, but is listed: %s", scenario, reasons[scenario])
		case bad == 0:
			passed++
		}
	}
	t.Logf("%d of %d scenarios pass", passed, len(verdict))
}
