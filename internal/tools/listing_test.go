package tools_test

import (
	"bytes"
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"unicode/utf8"

	"pgregory.net/rapid"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/tools"
)

// The marks as an agent reads them; changing one is changing the product.
const (
	syncMark = "Call this at the start of every turn, before any other work, once for each Bellman room you are in: peers' messages wait on this machine and nothing arrives on its own.\n\n"
	pointer  = "\n\nReplies do not arrive on their own: call bellman_sync at the start of every turn."
)

// nowhere is an address at which nothing listens.
const nowhere = "http://127.0.0.1:1/mcp"

func (r *rig) list() []json.RawMessage {
	r.t.Helper()
	a := r.Handle(r.t.Context(), tools.Call{Method: "tools/list"})
	var l struct{ Tools []json.RawMessage }
	if err := json.Unmarshal(a.Result, &l); err != nil || a.Error != nil {
		r.t.Fatalf("tools/list: %v, %+v", err, a.Error)
	}
	return l.Tools
}

type listed struct {
	Name        string
	Description string
	Schema      json.RawMessage `json:"inputSchema"`
	Annotations bellman.Annotations
	Meta        map[string]any `json:"_meta"`
}

func (r *rig) tools() map[string]listed {
	r.t.Helper()
	all := map[string]listed{}
	for _, raw := range r.list() {
		var l listed
		if err := json.Unmarshal(raw, &l); err != nil {
			r.t.Fatal(err)
		}
		all[l.Name] = l
	}
	return all
}

// The whole listing as a host receives it, signed out and offline.
func TestTheListingAsAHostReceivesIt(t *testing.T) {
	r := newRig(t, nowhere, "key")
	r.who.Store(nil)
	var b bytes.Buffer
	if err := json.Indent(&b, r.Handle(t.Context(), tools.Call{Method: "tools/list"}).Result, "", "  "); err != nil {
		t.Fatal(err)
	}
	golden(t, "listing.json", b.String()+"\n")
	if again := r.Handle(t.Context(), tools.Call{Method: "tools/list"}).Result; len(again) == 0 || !bytes.Equal(again, r.Handle(t.Context(), tools.Call{Method: "tools/list"}).Result) {
		t.Error("listing twice gives two lists")
	}
}

func TestTheListingSaysFirstWhatMatters(t *testing.T) {
	all := newRig(t, nowhere, "key").tools()
	if len(all) != 14 {
		t.Fatalf("%d tools, want 14", len(all))
	}
	sync, wait := all["bellman_sync"], all["bellman_wait"]
	if !strings.HasPrefix(sync.Description, syncMark) {
		t.Errorf("bellman_sync begins %.80q", sync.Description)
	}
	first, _, _ := strings.Cut(wait.Description, "\n")
	for _, word := range []string{"Between turns nothing hands", "bellman_sync at the start of each turn", "middle of a turn", "expect a reply"} {
		if !strings.Contains(first, word) {
			t.Errorf("bellman_wait begins %q, want %q in it", first, word)
		}
	}
	if !strings.Contains(wait.Description, "costs tokens") {
		t.Error("bellman_wait does not say when not to wait")
	}
	for _, name := range []string{"bellman_start", "bellman_confirm", "bellman_send"} {
		if !strings.HasSuffix(all[name].Description, pointer) {
			t.Errorf("%s ends %q", name, all[name].Description[len(all[name].Description)-60:])
		}
	}
	for name, tool := range all {
		if always := tool.Meta["anthropic/alwaysLoad"] == true; always != (name == "bellman_sync" || name == "bellman_wait") {
			t.Errorf("%s: alwaysLoad %v", name, always)
		}
		if regexp.MustCompile(`(?i)stop.?hook`).MatchString(tool.Description) {
			t.Errorf("%s speaks of a stop hook", name)
		}
		if n := utf8.RuneCountInString(tool.Description); n == 0 || n > 4096 {
			t.Errorf("%s: a description of %d characters", name, n)
		}
		if len(tool.Schema) >= 16<<10 || len("mcp__bellman__"+name) > 64 {
			t.Errorf("%s: a schema of %d bytes, or a name too long with a prefix", name, len(tool.Schema))
		}
	}
}

func TestTheLocalToolsAreAnnotatedAsTheContractSays(t *testing.T) {
	all := newRig(t, nowhere, "key").tools()
	for name, want := range map[string]bellman.Annotations{
		"bellman_wait": {}, "bellman_upload": {}, "bellman_whoami": {ReadOnly: true, Idempotent: true},
	} {
		if got := all[name].Annotations; got != want {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
	var s struct{ Required []string }
	if err := json.Unmarshal(all["bellman_upload"].Schema, &s); err != nil || !slices.Equal(s.Required, []string{"member_id", "path", "key"}) {
		t.Errorf("bellman_upload requires %v (%v)", s.Required, err)
	}
}

func TestInitializeOffersWhatThereIs(t *testing.T) {
	r := newRig(t, nowhere, "key")
	a := r.Handle(t.Context(), tools.Call{Method: "initialize", Raw: json.RawMessage(
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"h","version":"1"}}}`)})
	var got struct {
		Capabilities map[string]map[string]any
		Instructions string
		ServerInfo   struct{ Name, Version string }
	}
	if err := json.Unmarshal(a.Result, &got); err != nil {
		t.Fatalf("%v, %+v", err, a.Error)
	}
	if got.Capabilities["tools"]["listChanged"] != true || got.Capabilities["resources"] == nil || got.Capabilities["prompts"] == nil || len(got.Capabilities) != 3 {
		t.Errorf("capabilities %v", got.Capabilities)
	}
	if got.ServerInfo.Name != "bellman" || got.ServerInfo.Version != "test" {
		t.Errorf("server %+v", got.ServerInfo)
	}
	for _, word := range []string{"bellman_sync at the start of every turn", "bellman_wait in the middle", "untrusted data", "explicit approval"} {
		if !strings.Contains(got.Instructions, word) {
			t.Errorf("the instructions lack %q", word)
		}
	}
	if strings.Contains(strings.ToLower(got.Instructions), "hook") {
		t.Error("the instructions speak of a hook")
	}
}

// aTool is a tool as a service might write it.
type aTool struct {
	name, description string
	before, after     string // members around name and description
	meta              string // what follows "_meta":, closing brace left out
}

// json is the tool with the description and the end of _meta given.
func (a aTool) json(description, metaEnd string) string {
	var d bytes.Buffer
	e := json.NewEncoder(&d)
	e.SetEscapeHTML(false)
	_ = e.Encode(description)
	s := `{` + a.before + `"name":"` + a.name + `","description":` + strings.TrimSpace(d.String()) + a.after
	if a.meta != "" {
		s += `,"_meta":` + a.meta + metaEnd + "}"
	} else if metaEnd != "" {
		s += `,"_meta":{` + strings.TrimPrefix(metaEnd, ",") + "}"
	}
	return s + "}"
}

func drawTool(t *rapid.T, name string) aTool {
	return aTool{
		name: name,
		description: rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
			"", syncMark, pointer, "x" + pointer + "y" + pointer, syncMark + syncMark + "z", syncMark[:40] + syncMark + syncMark[40:],
			strings.Repeat("語", 5000), strings.Repeat("a", 4096), strings.Repeat("b", 4095) + pointer, "Überprüft alles.",
		})).Draw(t, "description"),
		before: rapid.SampledFrom([]string{"", `"x-first":1.50,`, `"\u0061b":"\ud83d\ude00","<":null,`}).Draw(t, "before"),
		after: `,"inputSchema":{"type":"object","properties":{"n":{"maximum":12345678901234567890}}}` +
			rapid.SampledFrom([]string{"", `,"outputSchema":{"type":"object"},"icons":[]`, `,"annotations":{"title":"\u003c"}`}).Draw(t, "after"),
		meta: rapid.SampledFrom([]string{"", `{"ui":{"resourceUri":"ui://x"},"n":1e2`}).Draw(t, "meta"),
	}
}

// Whatever list a service sends: each mark stands once and in its place within
// what a host shows, only the service's tail gives way to it, and all else
// keeps its bytes.
func TestMarksOverAnyToolList(t *testing.T) {
	var list atomic.Pointer[string]
	s := newService(t, func(_ context.Context, q request) string {
		switch q.Method {
		case "tools/list":
			return `{"tools":` + *list.Load() + `}`
		case "tools/call":
			return `{"content":[]}`
		}
		return ""
	})
	r := newRig(t, s.URL+"/mcp", "key")
	rapid.Check(t, func(rt *rapid.T) {
		var all []aTool
		for _, name := range rapid.SliceOfNDistinct(rapid.SampledFrom([]string{
			"bellman_sync", "bellman_start", "bellman_confirm", "bellman_send", "bellman_rooms", "new_tool", "bellman_wait",
		}), 1, 7, rapid.ID).Draw(rt, "names") {
			all = append(all, drawTool(rt, name))
		}
		var given []string
		for _, tool := range all {
			given = append(given, tool.json(tool.description, ""))
		}
		text := "[" + strings.Join(given, ", ") + "]"
		list.Store(&text)
		cfg := r.cfg
		cfg.Dir = t.TempDir()
		b := &rig{Bridge: tools.New(cfg), t: t, notes: r.notes}
		defer b.Close()
		b.call("bellman_rooms", nil)
		if len(all) == 1 && all[0].name == "bellman_wait" {
			return // nothing of the service's own: such a list is not believed
		}
		r.waitNote("notifications/tools/list_changed")
		checkMarks(rt, all, b.list())
	})
}

func checkMarks(t *rapid.T, given []aTool, got []json.RawMessage) {
	i := 0
	for _, tool := range given {
		if tool.name == "bellman_wait" {
			continue // the bridge's own stands in for it
		}
		var shown struct{ Description string }
		if err := json.Unmarshal(got[i], &shown); err != nil {
			t.Fatal(err)
		}
		mark, rest, metaEnd := "", shown.Description, ""
		switch tool.name {
		case "bellman_sync":
			mark, metaEnd = syncMark, `,"anthropic/alwaysLoad":true`
			rest = strings.TrimPrefix(rest, mark)
		case "bellman_start", "bellman_confirm", "bellman_send":
			mark = pointer
			rest = strings.TrimSuffix(rest, mark)
		}
		if want := tool.json(shown.Description, metaEnd); string(got[i]) != want {
			t.Fatalf("beside its description %s changed:\n got %s\nwant %s", tool.name, got[i], want)
		}
		if mark == "" {
			if rest != tool.description {
				t.Fatalf("%s: %q became %q", tool.name, tool.description, rest)
			}
		} else {
			checkText(t, tool, mark, rest, shown.Description)
		}
		i++
	}
	if len(got) != i+3 {
		t.Fatalf("%d tools, want %d and three of ours", len(got), i)
	}
}

func checkText(t *rapid.T, tool aTool, mark, rest, shown string) {
	if strings.Count(shown, mark) != 1 || len(rest) == len(shown) {
		t.Fatalf("%s: the mark stands %d times, or out of place", tool.name, strings.Count(shown, mark))
	}
	if n := utf8.RuneCountInString(shown); n > 4096 {
		t.Fatalf("%s: %d characters", tool.name, n)
	}
	bare := tool.description
	for strings.Contains(bare, syncMark) || strings.Contains(bare, pointer) {
		bare = strings.ReplaceAll(strings.ReplaceAll(bare, syncMark, ""), pointer, "")
	}
	if rest != bare {
		cut, found := strings.CutSuffix(rest, "…")
		if !found || !strings.HasPrefix(bare, cut) || utf8.RuneCountInString(shown) != 4096 {
			t.Fatalf("%s: the service's text %.60q became %.60q", tool.name, bare, rest)
		}
	}
}
