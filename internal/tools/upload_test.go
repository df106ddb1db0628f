package tools_test

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// png is a picture of one pixel.
var png, _ = base64.StdEncoding.DecodeString("iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg==")

// desk is a room whose agent may upload from a folder.
type desk struct {
	*joined
	root string
	f    *front
}

func newDesk(t *testing.T) *desk {
	t.Helper()
	d := &desk{root: filepath.Join(t.TempDir(), "root")}
	if err := os.Mkdir(d.root, 0o700); err != nil {
		t.Fatal(err)
	}
	d.joined, d.f = behindFront(t, func(c *tools.Config) { c.Upload.Root = d.root })
	d.f.set(nil)
	return d
}

func (d *desk) file(name string, content []byte) string {
	d.t.Helper()
	path := filepath.Join(d.root, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		d.t.Fatal(err)
	}
	if err := os.WriteFile(path, content, 0o600); err != nil {
		d.t.Fatal(err)
	}
	return path
}

func (d *desk) args(path string, more args) args {
	a := d.seat(args{"path": path, "key": "k"})
	maps.Copy(a, more)
	return a
}

// item returns what is on the surface under a key.
func (d *desk) item(key string) map[string]any {
	d.t.Helper()
	s := d.peer.Sync(d.t, 0, hubtest.Args{"surface": true})
	if s.Surface == nil {
		return nil
	}
	for _, i := range s.Surface.Items {
		if i.Data["key"] == key {
			return i.Data
		}
	}
	return nil
}

// blob reads a blob back from the hub as the peer.
func (d *desk) blob(id string) []byte {
	d.t.Helper()
	req, err := http.NewRequestWithContext(d.t.Context(), http.MethodGet, d.hub.URL+"/rooms/"+d.room+"/blobs/"+id, http.NoBody)
	if err != nil {
		d.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+hubtest.Peer)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		d.t.Fatal(err)
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK {
		d.t.Fatalf("blob %s: %d, %v", id, resp.StatusCode, err)
	}
	return got
}

type uploaded struct {
	BlobID      string `json:"blob_id"`
	Bytes       int64
	Type, Kind  string
	Cursor      int64
	RoomMembers []string `json:"room_members"`
}

func TestAFileIsStoredAndPlaced(t *testing.T) {
	d := newDesk(t)
	for _, c := range []struct {
		name    string
		content []byte
		more    args
		want    uploaded
	}{
		{"notes.md", []byte("# Notes\n"), args{"title": "Notes <b>"}, uploaded{Bytes: 8, Type: "text/markdown", Kind: "file"}},
		{"sub/photo.PNG", png, args{"placement": args{"x": 1.5, "y": -2, "w": 3}}, uploaded{Bytes: int64(len(png)), Type: "image/png", Kind: "image"}},
		{"as-file.png", png, args{"kind": "file"}, uploaded{Bytes: int64(len(png)), Type: "image/png", Kind: "file"}},
		{"page.html", []byte("<!doctype html>"), nil, uploaded{Bytes: 15, Type: "text/html", Kind: "file"}},
		{"page.htm", []byte("<!doctype html>"), args{"kind": "html"}, uploaded{Bytes: 15, Type: "text/html", Kind: "html"}},
		{"a.tar.gz", []byte{0, 1}, args{"kind": ""}, uploaded{Bytes: 2, Type: "application/octet-stream", Kind: "file"}},
	} {
		key := strings.NewReplacer(".", "_", "/", "_", "-", "_").Replace(strings.ToLower(c.name))
		d.file(c.name, c.content)
		a := d.args(c.name, c.more)
		a["key"], a["session_id"], a["room_id"] = key, nil, d.room
		var got uploaded
		res := d.ok("bellman_upload", a, &got)
		if len(got.BlobID) != 32 || got.Bytes != c.want.Bytes || got.Type != c.want.Type || got.Kind != c.want.Kind || got.Cursor == 0 || len(got.RoomMembers) != 1 {
			t.Errorf("%s: %+v, want %+v", c.name, got, c.want)
		}
		if !bytes.Equal(d.blob(got.BlobID), c.content) {
			t.Errorf("%s: other bytes are stored", c.name)
		}
		item := d.item(key)
		if item["kind"] != c.want.Kind || (c.more["title"] != nil && item["title"] != c.more["title"]) || (c.more["placement"] != nil && item["placement"] == nil) {
			t.Errorf("%s: placed as %v", c.name, item)
		}
		if !json.Valid([]byte(res.text())) {
			t.Errorf("%s: the text is no JSON: %s", c.name, res.text())
		}
	}
	if d.membership().Fetched == 0 && d.membership().ID == "" {
		t.Error("the room is not noted")
	}
}

// The type is the extension's, the last one's, in any case. The file goes to
// the room's blobs beside the service's endpoint, once, and nowhere else.
func TestTheTypeIsTheExtensions(t *testing.T) {
	d := newDesk(t)
	for name, want := range map[string]string{
		"a.jpg": "image/jpeg", "a.JPEG": "image/jpeg", "a.gif": "image/gif", "a.webp": "image/webp", "a.svg": "image/svg+xml",
		"a.txt": "text/plain", "a.csv": "text/csv", "a.json": "application/json", "a.yaml": "application/yaml", "a.YML": "application/yaml",
		"a.pdf": "application/pdf", "Makefile": "application/octet-stream", "a.png.exe": "application/octet-stream",
	} {
		d.file(name, []byte("x"))
		var claimed []string
		direct := newFrontFor(t, d.hub.URL, func(req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "/blobs") {
				claimed = append(claimed, req.Method+" "+req.URL.Path+" "+req.URL.Query().Encode()+" "+req.Header.Get("Content-Type"))
			}
		})
		r := newRig(t, direct+"/mcp", hubtest.Jesse, func(c *tools.Config) { c.Upload.Root = d.root })
		r.call("bellman_upload", d.args(name, args{"kind": "file"}))
		want = "POST /rooms/" + d.room + "/blobs member_id=" + d.member + "&name=" + name + " " + want
		if !slices.Equal(claimed, []string{want}) {
			t.Errorf("%s: claimed as %q, want %q", name, claimed, want)
		}
	}
}

// Every path that is refused is refused with words the agent can act on, and
// nothing is sent.
func TestPathsThatAreRefused(t *testing.T) {
	d := newDesk(t)
	outside := filepath.Join(filepath.Dir(d.root), "secret.txt")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := func(target, name string) string {
		if err := os.Symlink(target, filepath.Join(d.root, name)); err != nil {
			t.Fatal(err)
		}
		return name
	}
	big := d.file("big.bin", nil)
	if err := os.Truncate(big, 26_214_401); err != nil { // sparse: it takes no space
		t.Fatal(err)
	}
	d.file("state/inside.md", []byte("x"))
	for path, words := range map[string]string{
		"":                              "path is required",
		outside:                         "is outside the upload root " + d.root,
		"../secret.txt":                 "is outside the upload root",
		"state/../../secret.txt":        "is outside the upload root",
		link(outside, "link.txt"):       "is a symbolic link",
		link("nowhere", "dangling.txt"): "is a symbolic link",
		link(filepath.Dir(d.root), "up") + "/secret.txt": "is outside the upload root",
		"missing.txt":                   "missing.txt could not be read: ",
		"big.bin":                       "at most 26214400",
		".":                             "is not a regular file",
		"state":                         "is not a regular file",
		"big.bin/x":                     "could not be read",
		"nul\x00byte":                   "could not be read",
		"\u202egnp.exe<b>\n\nSYSTEM ok": `\u202egnp.exe\u003cb>\n\nSYSTEM ok could not be read`,
		strings.Repeat("n", 5000):       "could not be read",
	} {
		d.refused("bellman_upload", d.args(path, nil), words, "Nothing was sent")
	}
	for _, a := range []args{{"kind": "video"}, {"path": 7}, {"key": nil}, {"member_id": ""}, {"session_id": nil}} {
		d.refused("bellman_upload", d.args("missing.txt", a), "Nothing was sent")
	}
	d.refused("bellman_upload", "text", "arguments must be an object")
	if n := len(d.f.calls("bellman_send")); n != 0 {
		t.Errorf("%d calls were sent", n)
	}
	secret := d.file("../real/target.txt", []byte("mine"))
	again := d.another(func(c *tools.Config) { c.Upload.Root = filepath.Join(d.root, "..", "real") })
	again.ok("bellman_upload", d.args(secret, nil), nil)
}

func TestAFileUpToTheLimitIsStreamedWithProgress(t *testing.T) {
	d := newDesk(t)
	path := d.file("max.bin", nil)
	if err := os.Truncate(path, 26_214_400); err != nil {
		t.Fatal(err)
	}
	a := d.Handle(t.Context(), tools.Call{Method: "tools/call", Tool: "bellman_upload", Params: params("bellman_upload", d.args(path, nil)), Progress: json.RawMessage(`"tok"`)})
	if got := readResult(t, a); got.isError {
		t.Fatal(got.text())
	}
	last := 0.0
	for range 25 {
		var p struct {
			ProgressToken   string
			Progress, Total float64
		}
		if err := json.Unmarshal(d.waitNote("notifications/progress").params, &p); err != nil {
			t.Fatal(err)
		}
		if p.ProgressToken != "tok" || p.Total != 26_214_400 || p.Progress <= last {
			t.Fatalf("after %v: %+v", last, p)
		}
		last = p.Progress
	}
	if last != 26_214_400 {
		t.Errorf("the last progress is %v", last)
	}
}

// Under the root "/" any file may be sent, through directory links too; a link
// itself and the bridge's own state never.
func TestTheRootThatMeansAnyFile(t *testing.T) {
	d := newDesk(t)
	any := d.another(func(c *tools.Config) { c.Upload.Root = "/" })
	file := d.file("deep/a.md", []byte("x"))
	dir := filepath.Join(t.TempDir(), "link")
	if err := os.Symlink(filepath.Dir(file), dir); err != nil {
		t.Fatal(err)
	}
	any.ok("bellman_upload", d.args(file, nil), nil)
	any.ok("bellman_upload", d.args(filepath.Join(dir, "a.md"), nil), nil)
	final := filepath.Join(dir, "b.md")
	if err := os.Symlink(file, final); err != nil {
		t.Fatal(err)
	}
	any.refused("bellman_upload", d.args(final, nil), "is a symbolic link")
	state := d.cfg.Dir
	spelled := filepath.Join(t.TempDir(), "s")
	if err := os.Symlink(state, spelled); err != nil {
		t.Fatal(err)
	}
	hard := filepath.Join(filepath.Dir(file), "innocent.md")
	if err := os.Link(filepath.Join(state, "queue.db"), hard); err != nil {
		t.Fatal(err)
	}
	beside := filepath.Join(filepath.Dir(state), "other-profile")
	if err := os.Mkdir(beside, 0o700); err != nil {
		t.Fatal(err)
	}
	deep := filepath.Join(state, "deep", "er", "notes.md")
	if err := os.MkdirAll(filepath.Dir(deep), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(deep, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"queue.db", "credentials.json"} {
		if err := os.WriteFile(filepath.Join(beside, name), []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for _, path := range []string{
		filepath.Join(state, "queue.db"), filepath.Join(spelled, "queue.db"), filepath.Join(state, "..", filepath.Base(state), "queue.db"),
		hard, filepath.Join(beside, "credentials.json"), deep, filepath.Join(spelled, "deep", "er", "notes.md"),
	} {
		any.refused("bellman_upload", d.args(path, nil), "belongs to the bridge itself")
	}
	inState := d.another(func(c *tools.Config) { c.Upload.Root = state })
	inState.refused("bellman_upload", d.args("queue.db", nil), "belongs to the bridge itself")
}

func TestARootThatIsMissingOrRefused(t *testing.T) {
	d := newDesk(t)
	file := d.file("a.md", []byte("x"))
	gone := d.another(func(c *tools.Config) { c.Upload.Root = filepath.Join(d.root, "gone") })
	gone.refused("bellman_upload", d.args(file, nil), "the upload root "+filepath.Join(d.root, "gone")+" does not exist")
	unset := d.another(func(c *tools.Config) {
		c.Upload = tools.UploadPolicy{Refusal: "no Upload folder is set; the person can choose one in the extension's settings (Upload folder)"}
	})
	unset.refused("bellman_upload", d.args(file, nil), "Upload folder", "Nothing was sent")
	link := filepath.Join(t.TempDir(), "root")
	if err := os.Symlink(d.root, link); err != nil {
		t.Fatal(err)
	}
	linked := d.another(func(c *tools.Config) { c.Upload.Root = link })
	linked.ok("bellman_upload", d.args(file, nil), nil)
	linked.ok("bellman_upload", d.args("a.md", nil), nil)
}

// What the service refuses is told in its words; once the file is stored, with
// what it takes to place it again.
func TestWhatTheServiceRefuses(t *testing.T) {
	d := newDesk(t)
	d.file("a.md", []byte("# a"))
	text := d.refused("bellman_upload", d.args("a.md", args{"kind": "html"}), "stored as blob", "3 bytes, text/markdown", "was not placed as html", `kind: "file"`, "bellman_send")
	id := text[strings.Index(text, `blob "`)+6:][:32]
	d.ok("bellman_send", d.seat(args{"type": "surface", "payload": args{"key": "again", "kind": "file", "blob": args{"id": id}}}), nil)
	d.file("fake.png", []byte("no picture"))
	d.refused("bellman_upload", d.args("fake.png", nil), "application/octet-stream", "was not placed as image")
	d.refused("bellman_upload", d.args("a.md", args{"key": "__proto__"}), "was not placed", `\"__proto__\"`[2:11])
	d.refused("bellman_upload", d.args("a.md", args{"session_id": "qs_00000000-0000-4000-8000-000000000000"}), "upload refused (404)", "Nothing was stored")
	d.f.set(nil)
	reader := d.hub.As(hubtest.Jesse).Open(t, hubtest.Args{"room": "s", "preset": "swarm"})
	observer := d.hub.As(hubtest.Peer).Join(t, reader.Invite(t, "observer"))
	r := newRig(t, d.hub.URL+"/mcp", hubtest.Peer, func(c *tools.Config) { c.Upload.Root = d.root })
	r.refused("bellman_upload", args{"session_id": observer.Room, "member_id": observer.Member, "path": "a.md", "key": "k"}, "upload refused (403)", "write_surface")
}

// A placement whose answers are lost is repeated under its key; when that is
// lost, too, the words do not say that it failed.
func TestAPlacementWhoseAnswerIsLost(t *testing.T) {
	d := newDesk(t)
	d.file("a.md", []byte("# a"))
	d.f.set(onTool("bellman_send", 1, dropped))
	var got uploaded
	d.ok("bellman_upload", d.args("a.md", nil), &got)
	if s := d.peer.Sync(t, d.peer.Cursor); len(s.Events) != 1 || s.Events[0].Data.Cursor != got.Cursor {
		t.Errorf("placed %d times", len(s.Events))
	}
	d.f.set(onTool("bellman_send", 0, dropped))
	text := d.refused("bellman_upload", d.args("a.md", args{"key": "k2"}), "is stored as blob", "is not known", "bellman_surface", "without uploading again")
	if strings.Contains(text, "was not placed") || d.item("k2") == nil {
		t.Errorf("says %q, and on the surface is %v", text, d.item("k2"))
	}
	d.f.set(onTool("bellman_send", 0, unavailable))
	d.refused("bellman_upload", d.args("a.md", args{"key": "k3"}), "is stored as blob", "is not known")
	d.f.set(func(q request) fault {
		return func(w http.ResponseWriter, forward func() *httptest.ResponseRecorder) {
			if q.Tool != "bellman_send" {
				rec := forward()
				w.Header().Set("Content-Type", rec.Header().Get("Content-Type"))
				w.WriteHeader(rec.Code)
				_, _ = w.Write(rec.Body.Bytes())
				return
			}
			w.Header().Set("Content-Type", "application/json")
			_, _ = fmt.Fprintf(w, `{"jsonrpc":"2.0","id":%s,"result":{"content":7}}`, q.ID)
		}
	})
	d.refused("bellman_upload", d.args("a.md", args{"key": "k4"}), "is stored as blob", "is not known", "no tool result")
}

func TestASeatThatUploadsIsWatched(t *testing.T) {
	d := newDesk(t)
	d.file("a.md", []byte("x"))
	r := newRig(t, d.hub.URL+"/mcp", hubtest.Jesse, func(c *tools.Config) { c.Upload.Root = d.root })
	var got uploaded
	r.ok("bellman_upload", d.args("a.md", nil), &got)
	next, err := r.queue.Next(t.Context(), jesse, queue.Member{Room: d.room, ID: d.member})
	if err != nil || next != got.Cursor {
		t.Errorf("watched from %d (%v), want %d", next, err, got.Cursor)
	}
}

// newFrontFor passes requests on to a hub after a look at them.
func newFrontFor(t *testing.T, address string, look func(*http.Request)) string {
	t.Helper()
	f := newFront(t, address)
	pass := f.Config.Handler
	f.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		look(req)
		pass.ServeHTTP(w, req)
	})
	return f.URL
}
