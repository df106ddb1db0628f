package tools_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/tools"
)

const roomYAML = `# our workbench
room: Böse <b> "workbench"
mode: swarm
roles:
  lead: {can: [send, invite, revoke, request_actions, respond_actions, write_surface]}
  helper:
    can: &verbs [send, respond_actions]
    description: |
      Helps.
  other: {can: *verbs}
default_role: helper
creator_role: lead
`

// project is a directory with a room file that holds text, or without one.
func project(tb testing.TB, text string) string {
	tb.Helper()
	dir := tb.TempDir()
	if text != "" {
		writeRoom(tb, dir, text)
	}
	return dir
}

func writeRoom(tb testing.TB, dir, text string) {
	tb.Helper()
	if err := os.MkdirAll(filepath.Join(dir, ".bellman"), 0o755); err != nil {
		tb.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, ".bellman", "room.yaml"), []byte(text), 0o644); err != nil {
		tb.Fatal(err)
	}
}

func inProject(tb testing.TB, address, dir string) *rig {
	tb.Helper()
	return newRig(tb, address, hubtest.Jesse, func(c *tools.Config) { c.RoomDir = dir })
}

func TestARoomIsStartedFromItsFile(t *testing.T) {
	h := hubtest.Start(t)
	r := inProject(t, h.URL+"/mcp", project(t, roomYAML))
	var got struct {
		Room struct {
			Mode     string
			YourRole string `json:"your_role"`
			Roles    map[string][]string
			Text     struct{ Data struct{ Room string } }
		}
	}
	r.ok("bellman_start", args{"brief": hubtest.Brief("g")}, &got)
	if got.Room.Mode != "swarm" || got.Room.YourRole != "lead" || len(got.Room.Roles["other"]) != 2 || got.Room.Text.Data.Room != `Böse <b> "workbench"` {
		t.Errorf("started %+v", got.Room)
	}
	if n := strings.Count(r.log.String(), ".bellman/room.yaml"); n != 1 {
		t.Errorf("the log names the file %d times", n)
	}
}

// A manifest that is given wins over any file; without a file the service words
// its own refusal; other tools never read it.
func TestWhenTheFileIsNotRead(t *testing.T) {
	h := hubtest.Start(t)
	f := newFront(t, h.URL)
	broken := inProject(t, f.URL+"/mcp", project(t, "room: [unclosed"))
	broken.ok("bellman_start", args{"manifest": args{"room": "mine", "preset": "pair"}, "brief": hubtest.Brief("g")}, nil)
	broken.ok("bellman_rooms", nil, nil)
	f.set(nil)
	broken.refused("bellman_start", args{"brief": hubtest.Brief("g")}, ".bellman/room.yaml is not valid YAML", "Nothing was sent")
	if n := len(f.calls("bellman_start")); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	inProject(t, f.URL+"/mcp", project(t, "")).refused("bellman_start", args{"brief": hubtest.Brief("g")}, "manifest")
	newRig(t, f.URL+"/mcp", hubtest.Jesse).refused("bellman_start", args{"brief": hubtest.Brief("g")}, "manifest")
	for _, q := range f.calls("bellman_start") {
		if strings.Contains(string(q.Params), "manifest") {
			t.Errorf("a manifest of nobody's: %s", q.Params)
		}
	}
}

// bellman_start is listed with an optional manifest only while a file is in
// reach, and is otherwise what it is.
func TestTheListingOffersTheFileWhileItIsInReach(t *testing.T) {
	dir := project(t, "")
	r := inProject(t, nowhere, dir)
	before := r.list()
	writeRoom(t, dir, roomYAML)
	after := r.list()
	if again := r.list(); string(again[0]) != string(after[0]) {
		t.Error("listing twice differs")
	}
	for i := range before {
		if changed := string(before[i]) != string(after[i]); changed != (i == 0) {
			t.Errorf("tool %d changed: %v", i, changed)
		}
	}
	var was, is struct {
		Name, Description string
		InputSchema       struct {
			Required   []string
			Properties map[string]json.RawMessage
		}
	}
	if json.Unmarshal(before[0], &was) != nil || json.Unmarshal(after[0], &is) != nil {
		t.Fatal("no tools")
	}
	if is.Name != "bellman_start" || fmt.Sprint(was.InputSchema.Required) != "[manifest brief]" || fmt.Sprint(is.InputSchema.Required) != "[brief]" {
		t.Errorf("%s requires %v, then %v", is.Name, was.InputSchema.Required, is.InputSchema.Required)
	}
	if string(was.InputSchema.Properties["manifest"]) != string(is.InputSchema.Properties["manifest"]) {
		t.Error("the schema of manifest changed")
	}
	service := strings.TrimSuffix(was.Description, pointer)
	if !strings.HasPrefix(is.Description, service) || !strings.HasSuffix(is.Description, pointer) || strings.Count(is.Description, ".bellman/room.yaml") != 1 {
		t.Errorf("described as %q", is.Description)
	}
}

// A service that says so itself, or that requires nothing but a manifest, is
// listed no other: the note stands once, and what is required is left out when
// nothing is.
func TestTheListingOffersTheFileOnce(t *testing.T) {
	dir := project(t, roomYAML)
	var own listed
	if err := json.Unmarshal(inProject(t, nowhere, dir).list()[0], &own); err != nil {
		t.Fatal(err)
	}
	description, err := json.Marshal(own.Description)
	if err != nil {
		t.Fatal(err)
	}
	s, _ := lister(t, `{"tools":[{"name":"bellman_start","description":`+string(description)+`,"inputSchema":{"type":"object","required":["manifest"],"x":1.0}}]}`)
	r := inProject(t, s.URL+"/mcp", dir)
	r.ok("bellman_rooms", nil, nil)
	r.waitNote("notifications/tools/list_changed")
	if got, want := string(r.list()[0]), `"inputSchema":{"type":"object","x":1.0}}`; !strings.HasSuffix(got, want) || r.tools()["bellman_start"].Description != own.Description {
		t.Errorf("listed as %s", got)
	}
}

// What is in the file is refused with its name and what is wrong.
func TestRoomFilesThatAreRefused(t *testing.T) {
	for text, words := range map[string]string{
		"# only a comment\n":           "got an empty document",
		"---\n":                        "got an empty document",
		"~":                            "got an empty document",
		"- a\n- b\n":                   "must hold a mapping, got a list",
		"just text":                    "must hold a mapping, got a single value",
		"a: 1\n---\nb: 2\n":            "must hold one document",
		"a: [1":                        "is not valid YAML",
		"a: 1\na: 2\n":                 "has a key twice, in line 2",
		"[x]: 1\n":                     "a key that is no plain text, in line 1",
		"a: &a {x: 1}\nb:\n  <<: *a\n": "a key that is no plain text, in line 3",
		"a: .inf\n":                    "a number that JSON cannot hold, in line 1",
		"a: &a [*a]\n":                 "room.yaml",
		"\x00":                         "is not valid YAML",
		"room: x\n" + strings.Repeat("#", 65_536-8) + "#": "is too large",
		bomb():                    "unfolds into too much",
		strings.Repeat("[", 9000): "room.yaml",
		"a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100): "unfolds into too much",
	} {
		inProject(t, nowhere, project(t, text)).refused("bellman_start", args{}, ".bellman/room.yaml", words, "Nothing was sent")
	}
}

// bomb is a small file that names a large text in it very often.
func bomb() string {
	return "a: &a " + strings.Repeat("x", 30_000) + "\nb: [" + strings.TrimSuffix(strings.Repeat("*a ,", 5000), ",") + "]\n"
}

// Values reach the service as the file has them.
func TestTheValuesOfARoomFile(t *testing.T) {
	s := newService(t, func(_ context.Context, q request) string {
		if q.Method == "tools/call" {
			return `{"content":[]}`
		}
		return ""
	})
	text := "s: plain\nq: \"a<\\u202e\"\ni: 12345678901234567890\nhex: 0x10\noct: 0o17\nneg: -3\nf: 1.5\nt: true\nno: no\nn: null\ne:\nd: 2026-12-01\nm: {z: 1, a: 2}\nl: []\no: {}\n5: five\n"
	r := inProject(t, s.URL+"/mcp", project(t, text+strings.Repeat("#", 65_536-len(text))))
	r.ok("bellman_start", args{"brief": "b"}, nil)
	var p struct {
		Arguments struct{ Manifest json.RawMessage }
	}
	if err := json.Unmarshal(s.calls("tools/call")[0].Params, &p); err != nil {
		t.Fatal(err)
	}
	want := `{"s":"plain","q":"a<` + "\u202e" + `","i":12345678901234567890,"hex":16,"oct":15,"neg":-3,"f":1.5,"t":true,"no":"no","n":null,"e":null,"d":"2026-12-01","m":{"z":1,"a":2},"l":[],"o":{},"5":"five"}`
	if got := strings.ReplaceAll(string(p.Arguments.Manifest), `\u003c`, "<"); got != want {
		t.Errorf("manifest\n got %s\nwant %s", got, want)
	}
}

// A project from elsewhere chooses nothing on this machine: no link is
// followed, and nothing but a file is opened.
func TestRoomFilesThatAreNoFiles(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret.yaml")
	if err := os.WriteFile(secret, []byte("room: secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	linked := project(t, "")
	if err := os.Mkdir(filepath.Join(linked, ".bellman"), 0o755); err != nil {
		t.Fatal(err)
	}
	dangling, linkedDir, directory := project(t, ""), project(t, ""), project(t, "")
	if err := os.MkdirAll(filepath.Join(directory, ".bellman", "room.yaml"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dangling, ".bellman"), 0o755); err != nil {
		t.Fatal(err)
	}
	for from, to := range map[string]string{
		filepath.Join(linked, ".bellman", "room.yaml"): secret, filepath.Join(dangling, ".bellman", "room.yaml"): "nowhere",
		filepath.Join(linkedDir, ".bellman"): filepath.Join(project(t, roomYAML), ".bellman"),
	} {
		if err := os.Symlink(to, from); err != nil {
			t.Fatal(err)
		}
	}
	for dir, words := range map[string]string{linked: "symbolic link", dangling: "symbolic link", linkedDir: "symbolic link", directory: "not a regular file"} {
		text := inProject(t, nowhere, dir).refused("bellman_start", args{}, words, "Nothing was sent")
		if strings.Contains(text, secret) || strings.Contains(text, "secret") {
			t.Errorf("names the target: %q", text)
		}
	}
	plain := project(t, "")
	if err := os.WriteFile(filepath.Join(plain, ".bellman"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	inProject(t, nowhere, plain).refused("bellman_start", args{}, "cannot be reached") // as if there were none
	inProject(t, nowhere, filepath.Join(plain, "gone")).refused("bellman_start", args{}, "room.yaml could not be read")
}

func FuzzRoomFile(f *testing.F) {
	f.Add(roomYAML)
	f.Add("a: &a [*a]")
	f.Add("? {x: 1}\n: y")
	f.Add("a: !!binary aGk=\nb: !!float 1\nc: 0b1_0")
	dir := f.TempDir()
	writeRoom(f, dir, "x: 1")
	r, fixed, s := answering(f)
	res := `{"content":[]}`
	fixed.Store(&res)
	b := r.another(func(c *tools.Config) { c.RoomDir = dir })
	f.Fuzz(func(t *testing.T, text string) {
		writeRoom(t, dir, text)
		s.mu.Lock()
		s.seen = nil
		s.mu.Unlock()
		got := readResult(t, b.begin(t.Context(), "bellman_start", nil))
		if got.isError && !strings.Contains(got.text(), "room.yaml") {
			t.Fatalf("%q: %s", text, got.text())
		}
		for _, q := range s.calls("tools/call") {
			if !json.Valid(q.Params) || !strings.Contains(string(q.Params), `"manifest":{`) {
				t.Fatalf("%q: sent %s", text, q.Params)
			}
		}
	})
}
