// Package desktop_test holds the promises about the tree as a whole: which
// package may know which, and what each has to say about itself.
package desktop_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

const module = "bellman.sh/desktop"

// arrows are the packages of ours that each package may import. A name that
// ends in /... stands for a package and everything below it.
var arrows = map[string][]string{
	"server": {
		"internal/stdio", "internal/tools", "internal/room", "internal/remote", "internal/oauth",
		"internal/keychain", "internal/policy", "internal/queue",
	},
	"internal/tools":     {"internal/queue", "internal/remote", "internal/bellman"},
	"internal/room":      {"internal/queue", "internal/remote", "internal/bellman"},
	"internal/remote":    {"internal/bellman"},
	"internal/queue":     {},
	"internal/oauth/...": {},
	"internal/keychain":  {},
	"internal/policy":    {},
	"internal/stdio":     {},
	"internal/bellman":   {},
	"hub":                {"internal/hub"},
	"internal/hub/...":   {"internal/bellman", "internal/hub/..."},
	"build/...":          {"internal/bellman", "build/..."},
}

// fences are the packages of ours that may import a module of others. A module
// that is not here is not used yet: say here who may.
var fences = map[string][]string{
	"github.com/coder/websocket":          {"internal/remote", "internal/hub/..."},
	"github.com/coreos/go-oidc":           {"internal/hub/..."},
	"github.com/godbus/dbus":              {"internal/keychain"},
	"github.com/gofrs/flock":              {"internal/oauth", "internal/queue"},
	"github.com/google/uuid":              {"internal/hub/..."},
	"github.com/mark3labs/mcp-go":         {"internal/tools", "internal/remote", "internal/hub/..."},
	"github.com/mattn/go-sqlite3":         {"internal/queue", "internal/hub/..."},
	"github.com/prometheus/client_golang": {"internal/hub/..."},
	"github.com/zalando/go-keyring":       {"internal/keychain"},
	"go.yaml.in/yaml":                     {"internal/tools"},
	"golang.org/x/oauth2":                 {"internal/oauth", "internal/hub/..."},
	"golang.org/x/sync":                   {"server", "hub", "internal/oauth", "internal/remote", "internal/room", "internal/tools", "internal/hub/..."},
	"golang.org/x/sys":                    {"server", "internal/queue", "internal/oauth", "internal/policy", "internal/hub/...", "build/..."},
	"golang.org/x/time":                   {"internal/room", "internal/hub/..."},
	"howett.net/plist":                    {"internal/policy"},
	"modernc.org/sqlite":                  {"internal/queue", "internal/hub/..."},
}

// systems are the builds whose imports are looked at: they differ by system
// and by whether there is cgo.
var systems = [][]string{
	{"GOOS=linux", "CGO_ENABLED=0"},
	{"GOOS=linux", "CGO_ENABLED=1"},
	{"GOOS=darwin", "CGO_ENABLED=0"},
	{"GOOS=windows", "CGO_ENABLED=0"},
	{"GOOS=windows", "CGO_ENABLED=1"},
}

func TestPackagesImportOnlyWhatTheArrowsAllow(t *testing.T) {
	for _, system := range systems {
		t.Run(strings.Join(system, " "), func(t *testing.T) {
			for _, p := range list(t, system, "./...") {
				from, ours := strings.CutPrefix(p.ImportPath, module+"/")
				if !ours {
					continue // the root holds tests only
				}
				for _, to := range p.Imports {
					checkImport(t, from, to)
				}
			}
		})
	}
}

func checkImport(t *testing.T, from, to string) {
	t.Helper()
	if name, ours := strings.CutPrefix(to, module+"/"); ours {
		if !slices.ContainsFunc(allowed(from), func(pattern string) bool { return covers(pattern, name) }) {
			t.Errorf("%s imports %s: no arrow goes there", from, name)
		}
		return
	}
	if first, _, _ := strings.Cut(to, "/"); !strings.Contains(first, ".") {
		return // the standard library
	}
	for foreign, users := range fences {
		if to == foreign || strings.HasPrefix(to, foreign+"/") {
			if !slices.ContainsFunc(users, func(pattern string) bool { return covers(pattern, from) }) {
				t.Errorf("%s imports %s, which only %s may", from, to, strings.Join(users, ", "))
			}
			return
		}
	}
	t.Errorf("%s imports %s, which nobody may", from, to)
}

// allowed returns the arrows out of a package; none for one that has no place.
func allowed(from string) []string {
	for pattern, targets := range arrows {
		if covers(pattern, from) {
			return targets
		}
	}
	return nil
}

func covers(pattern, name string) bool {
	parent, tree := strings.CutSuffix(pattern, "/...")
	return name == parent || tree && strings.HasPrefix(name, parent+"/")
}

// A package that is in the tree has a place in the picture, and what is in the
// picture is in the tree.
func TestEveryPackageHasItsArrows(t *testing.T) {
	found := map[string]bool{}
	for _, p := range list(t, nil, "./...") {
		name, ours := strings.CutPrefix(p.ImportPath, module+"/")
		if !ours {
			continue
		}
		placed := false
		for pattern := range arrows {
			if covers(pattern, name) {
				placed = true
				found[pattern] = true
			}
		}
		if !placed {
			t.Errorf("%s has no arrows: add it to this test, .golangci.yml and docs/ARCHITECTURE.md", name)
		}
	}
	for pattern := range arrows {
		if !found[pattern] {
			t.Errorf("%s has arrows but is not in the tree", pattern)
		}
	}
}

// What a person installs must not carry a server, on any system.
func TestBridgeNeverLinksTheHub(t *testing.T) {
	for _, system := range systems {
		t.Run(strings.Join(system, " "), func(t *testing.T) {
			packages := list(t, system, "-deps", "./server")
			if len(packages) < 2 {
				t.Fatal("the bridge links nothing: the list is wrong")
			}
			for _, p := range packages {
				name := strings.TrimPrefix(p.ImportPath, module+"/")
				ours := name != p.ImportPath
				if ours && strings.HasSuffix(name, "test") {
					t.Errorf("the bridge links %s, which is for tests", name)
				}
				if covers("hub", name) || covers("internal/hub/...", name) || covers("build/...", name) {
					t.Errorf("the bridge links %s", p.ImportPath)
				}
			}
		})
	}
}

type listed struct {
	ImportPath string
	Name       string
	Doc        string
	Dir        string
	Imports    []string
	Error      *struct{ Err string }
}

// list runs go list with these arguments in an environment.
func list(t *testing.T, env []string, args ...string) []listed {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", append([]string{"list", "-e", "-json=ImportPath,Name,Doc,Dir,Imports,Error"}, args...)...)
	cmd.Env = append(os.Environ(), env...)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list %v: %v\n%s", args, err, stderr.Bytes())
	}
	var packages []listed
	for dec := json.NewDecoder(bytes.NewReader(out)); ; {
		var p listed
		if err := dec.Decode(&p); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatalf("go list %v: %v", args, err)
		}
		if p.Error != nil && !strings.Contains(p.Error.Err, "build constraints exclude all Go files") {
			t.Errorf("%s: %s", p.ImportPath, p.Error.Err)
		}
		packages = append(packages, p)
	}
}
