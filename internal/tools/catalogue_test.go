package tools_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/tools"
)

// lister is a service that gives the list, page by page, that it is told to.
func lister(t *testing.T, first string) (*service, *atomic.Pointer[string]) {
	t.Helper()
	var list atomic.Pointer[string]
	list.Store(&first)
	return newService(t, func(_ context.Context, q request) string {
		switch q.Method {
		case "tools/list":
			return *list.Load()
		case "tools/call":
			return `{"content":[{"type":"text","text":"done"}]}`
		}
		return ""
	}), &list
}

func toolJSON(names ...string) string {
	var all []string
	for _, n := range names {
		all = append(all, fmt.Sprintf(`{"name":%q,"description":"d","inputSchema":{"type":"object"}}`, n))
	}
	return `{"tools":[` + strings.Join(all, ",") + `]}`
}

func (r *rig) names() []string {
	r.t.Helper()
	var names []string
	for name := range r.tools() {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

// another returns a new bridge with this one's state and settings.
func (r *rig) another(change func(*tools.Config)) *rig {
	r.t.Helper()
	cfg := r.cfg
	change(&cfg)
	b := &rig{Bridge: tools.New(cfg), t: r.t, cfg: cfg, queue: r.queue, remote: r.remote, notes: r.notes}
	r.t.Cleanup(b.Close)
	return b
}

// silent makes sure that no further list_changed comes of what has been done.
func (r *rig) silent() {
	r.t.Helper()
	for {
		select {
		case n := <-r.notes:
			if n.method == "notifications/tools/list_changed" {
				r.t.Error("list_changed though nothing changed")
			}
		default:
			return
		}
	}
}

func TestListingConnectsToNothing(t *testing.T) {
	s, _ := lister(t, toolJSON("one"))
	r := newRig(t, s.URL+"/mcp", "key")
	for range 3 {
		if n := len(r.list()); n != 14 {
			t.Fatalf("%d tools, want the built-in 14", n)
		}
	}
	if n := len(s.seen); n != 0 {
		t.Errorf("listing tools made %d requests", n)
	}
}

// A list that differs is told once, kept for this server, and there at once the
// next time, with the service gone.
func TestAChangedListIsToldOnceAndKept(t *testing.T) {
	s, _ := lister(t, toolJSON("bellman_sync", "brand_new"))
	r := newRig(t, s.URL+"/mcp", "key")
	for range 5 {
		r.ok("bellman_rooms", nil, nil)
	}
	r.waitNote("notifications/tools/list_changed")
	want := []string{"bellman_sync", "bellman_upload", "bellman_wait", "bellman_whoami", "brand_new"}
	if got := r.names(); !slices.Equal(got, want) {
		t.Fatalf("listed %v, want %v", got, want)
	}
	r.silent()
	if n := len(s.calls("tools/list")); n != 1 {
		t.Errorf("the service was asked %d times for its list", n)
	}
	s.Close()
	next := r.another(func(*tools.Config) {})
	if got := next.names(); !slices.Equal(got, want) {
		t.Errorf("a new bridge lists %v, want %v", got, want)
	}
	other := r.another(func(c *tools.Config) { c.Server = "https://other.example/mcp" })
	if n := len(other.list()); n != 14 {
		t.Errorf("another server's bridge lists %d tools, want the built-in 14", n)
	}
}

func TestTheHubsListIsTheBuiltInOne(t *testing.T) {
	h := hubtest.Start(t)
	f := newFront(t, h.URL)
	r := newRig(t, f.URL+"/mcp", hubtest.Jesse)
	r.ok("bellman_rooms", nil, nil)
	eventually(t, "the list is asked for", func() bool {
		f.mu.Lock()
		defer f.mu.Unlock()
		return slices.ContainsFunc(f.seen, func(q request) bool { return q.Method == "tools/list" })
	})
	time.Sleep(50 * time.Millisecond) // a list_changed would come now
	r.silent()
	if left, _ := filepath.Glob(filepath.Join(r.cfg.Dir, "tools-*")); len(left) != 0 {
		t.Errorf("kept %v though nothing differed", left)
	}
}

// Whatever a service says in place of a list, the last good one stays.
func TestAListThatMakesNoSenseChangesNothing(t *testing.T) {
	s, list := lister(t, toolJSON("bellman_sync", "good_one"))
	r := newRig(t, s.URL+"/mcp", "key")
	r.ok("bellman_rooms", nil, nil)
	r.waitNote("notifications/tools/list_changed")
	want := r.names()
	for what, answer := range map[string]string{
		"an empty list":         `{"tools":[]}`,
		"no list":               `{}`,
		"another type":          `{"tools":"all of them"}`,
		"no object":             `[1,2]`,
		"an entry of text":      `{"tools":["bellman_sync"]}`,
		"no name":               `{"tools":[{"inputSchema":{"type":"object"}}]}`,
		"a name with a space":   toolJSON("bellman sync"),
		"a name twice":          toolJSON("a", "b", "a"),
		"no schema":             `{"tools":[{"name":"a"}]}`,
		"a schema that is none": `{"tools":[{"name":"a","inputSchema":true}]}`,
		"a schema of no type":   `{"tools":[{"name":"a","inputSchema":{}}]}`,
		"a schema of a list":    `{"tools":[{"name":"a","inputSchema":{"type":"array"}}]}`,
		"an output of a list":   `{"tools":[{"name":"a","inputSchema":{"type":"object"},"outputSchema":{"type":"array"}}]}`,
		"a description of 5":    `{"tools":[{"name":"a","inputSchema":{"type":"object"},"description":5}]}`,
		"a title of null":       `{"tools":[{"name":"a","inputSchema":{"type":"object"},"title":null}]}`,
		"annotations of text":   `{"tools":[{"name":"a","inputSchema":{"type":"object"},"annotations":"x"}]}`,
		"only ours":             toolJSON("bellman_wait", "bellman_upload"),
		"a failure":             "",
		"pages without end":     strings.TrimSuffix(toolJSON("a"), "}") + `,"nextCursor":"more"}`,
		"megabytes":             `{"tools":[{"name":"a","description":"` + strings.Repeat("x", 5<<20) + `","inputSchema":{"type":"object"}}]}`,
	} {
		list.Store(&answer)
		fresh := r.another(func(*tools.Config) {})
		const noted = "the tool list was not refreshed"
		before := strings.Count(r.log.String(), noted)
		fresh.ok("bellman_rooms", nil, nil)
		eventually(t, what+" is found out", func() bool { return strings.Count(r.log.String(), noted) > before })
		if got := fresh.names(); !slices.Equal(got, want) {
			t.Errorf("%s: listed %v, want %v", what, got, want)
		}
	}
	kept, _ := filepath.Glob(filepath.Join(r.cfg.Dir, "tools-*.json"))
	if len(kept) != 1 {
		t.Fatalf("kept %v, want one file", kept)
	}
	if info, err := os.Stat(kept[0]); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the kept list has mode %v (%v)", info.Mode(), err)
	}
}

func TestAKeptListThatIsDamagedGivesWayToTheBuiltInOne(t *testing.T) {
	s, _ := lister(t, toolJSON("bellman_sync", "good_one"))
	r := newRig(t, s.URL+"/mcp", "key")
	r.ok("bellman_rooms", nil, nil)
	r.waitNote("notifications/tools/list_changed")
	eventually(t, "the list is kept", func() bool {
		kept, _ := filepath.Glob(filepath.Join(r.cfg.Dir, "tools-*.json"))
		return len(kept) == 1
	})
	kept, _ := filepath.Glob(filepath.Join(r.cfg.Dir, "tools-*.json"))
	for _, damage := range []string{"", "[", `[{"name":"x"}]`, strings.Repeat("[", 100_000), "\x00\xff"} {
		if err := os.WriteFile(kept[0], []byte(damage), 0o600); err != nil {
			t.Fatal(err)
		}
		if n := len(r.another(func(*tools.Config) {}).list()); n != 14 {
			t.Errorf("%.20q: %d tools, want the built-in 14", damage, n)
		}
	}
}

// A refresh that hangs does not hold up the end of the bridge.
func TestClosingEndsARefresh(t *testing.T) {
	asked := make(chan struct{})
	s := newService(t, func(ctx context.Context, q request) string {
		switch q.Method {
		case "tools/list":
			close(asked)
			<-ctx.Done()
		case "tools/call":
			return `{"content":[]}`
		}
		return ""
	})
	r := newRigWith(t, s.URL+"/mcp", remote.Key("key"), t.TempDir())
	b := tools.New(r.cfg)
	if a := b.Handle(t.Context(), tools.Call{Method: "tools/call", Tool: "x", Params: params("x", nil)}); a.Error != nil {
		t.Fatal(a.Error)
	}
	<-asked
	done := make(chan struct{})
	go func() { defer close(done); b.Close() }()
	select {
	case <-done:
	case <-time.After(10 * time.Second):
		t.Fatal("Close waits for a refresh that hangs")
	}
}
