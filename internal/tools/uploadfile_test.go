package tools_test

import (
	"bytes"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/tools"
)

// eager is a body that does something once its first bytes have been read.
type eager struct {
	io.ReadCloser

	then func()
	once atomic.Bool
}

// Read implements io.Reader.
func (e *eager) Read(p []byte) (int, error) {
	n, err := e.ReadCloser.Read(p)
	if e.once.CompareAndSwap(false, true) {
		e.then()
	}
	return n, err
}

// A file that shrinks while it is read is not sent as another; one that grows
// is sent as it was.
func TestAFileThatChangesWhileItIsRead(t *testing.T) {
	d := newDesk(t)
	const size = 20 << 20 // more than is under way in between
	path := d.file("a.bin", bytes.Repeat([]byte("x"), size))
	change := func(to int64) *rig {
		address := newFrontFor(t, d.hub.URL, func(req *http.Request) {
			if strings.HasSuffix(req.URL.Path, "/blobs") {
				req.Body = &eager{ReadCloser: req.Body, then: func() {
					if err := os.Truncate(path, to); err != nil {
						t.Error(err)
					}
				}}
			}
		})
		return newRig(t, address+"/mcp", hubtest.Jesse, func(c *tools.Config) { c.Upload.Root = d.root })
	}
	var got uploaded
	change(size+1<<20).ok("bellman_upload", d.args("a.bin", nil), &got)
	if stored := d.blob(got.BlobID); got.Bytes != size || len(stored) != size || bytes.Trim(stored, "x") != nil {
		t.Errorf("of a file that grew: %+v, and %d bytes are stored", got, len(stored))
	}
	change(1<<20).refused("bellman_upload", d.args("a.bin", args{"key": "k2"}), "became shorter while it was read", "Nothing was placed")
	if d.item("k2") != nil {
		t.Error("half a file is on the surface")
	}
}

// Holes in a file are read as what they are.
func TestASparseFile(t *testing.T) {
	d := newDesk(t)
	path := d.file("holes.bin", []byte("begin"))
	if err := os.Truncate(path, 3<<20); err != nil {
		t.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString("end"); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	var got uploaded
	d.ok("bellman_upload", d.args("holes.bin", nil), &got)
	want := append([]byte("begin"), make([]byte, 3<<20-5)...)
	if !bytes.Equal(d.blob(got.BlobID), append(want, "end"...)) {
		t.Errorf("stored as something else: %+v", got)
	}
	d.file("empty.txt", nil)
	if d.ok("bellman_upload", d.args("empty.txt", nil), &got); got.Bytes != 0 || len(d.blob(got.BlobID)) != 0 {
		t.Errorf("an empty file: %+v", got)
	}
}

// A frozen room takes no file: its refusal is passed on and nothing is placed.
func TestAFrozenRoomTakesNoFile(t *testing.T) {
	d := newDesk(t)
	d.file("a.md", []byte("x"))
	if err := d.hub.Hub.Freeze(t.Context(), d.room); err != nil {
		t.Fatal(err)
	}
	d.f.set(nil)
	d.refused("bellman_upload", d.args("a.md", nil), "upload refused (409)", "frozen", "Nothing was stored")
	if n := len(d.f.calls("bellman_send")); n != 0 {
		t.Errorf("%d placements were sent", n)
	}
}

// What an administrator or a missing setting forbids is refused in their words,
// before the path is even looked at.
func TestUploadsThatAreForbidden(t *testing.T) {
	d := newDesk(t)
	d.f.set(nil)
	for _, words := range []string{"uploads are managed by your organization and switched off", "no Upload folder is set"} {
		r := d.another(func(c *tools.Config) { c.Upload = tools.UploadPolicy{Root: d.root, Refusal: words} })
		for _, path := range []string{d.file("a.md", []byte("x")), "missing", "../x"} {
			r.refused("bellman_upload", d.args(path, nil), words, "Nothing was sent")
		}
	}
	if n := len(d.f.calls("")); n != 0 {
		t.Errorf("%d requests were made", n)
	}
}

// However long what an agent passes is, its refusal fits the host.
func TestArgumentsThatAreTooLong(t *testing.T) {
	d := newDesk(t)
	d.file("a.md", []byte("# a"))
	for _, name := range []string{"session_id", "member_id", "path", "key"} {
		text := d.refused("bellman_upload", d.args("a.md", args{name: strings.Repeat("<", 1<<20)}), name, "is too long", "Nothing was sent")
		if len(text) > 200 {
			t.Errorf("%s: %d bytes", name, len(text))
		}
	}
	if raw := d.call("bellman_upload", d.args("a.md", args{"key": strings.Repeat("<", 32<<10)})).raw; len(raw) > 900<<10 {
		t.Errorf("a reply of %d bytes", len(raw))
	}
	if text := d.call("bellman_upload", d.args(strings.Repeat("\x00", 32<<10), nil)).raw; len(text) > 900<<10 {
		t.Errorf("a reply of %d bytes", len(text))
	}
}

// An answer that is not the blob store's is not taken for its refusal.
func TestWhatElseMayAnswerAnUpload(t *testing.T) {
	root := t.TempDir()
	if err := os.WriteFile(filepath.Join(root, "a.md"), []byte("# a"), 0o600); err != nil {
		t.Fatal(err)
	}
	for status, words := range map[int]string{
		http.StatusOK:         "something else answers in the service's place (200): the sign-in page of a network",
		http.StatusCreated:    "the service answered 201 Created: the answer names no blob",
		http.StatusFound:      "something else answers in the service's place (302): the sign-in page of a network",
		http.StatusConflict:   "upload refused (409): \\u003cb>no. Nothing was stored",
		http.StatusBadGateway: "the service failed at the upload (502). Nothing was placed; call again",
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<b>no", status) }))
		t.Cleanup(s.Close)
		r := newRig(t, s.URL+"/mcp", "key", func(c *tools.Config) { c.Upload.Root = root })
		text := r.refused("bellman_upload", args{"session_id": "qs_1", "member_id": "m_1", "path": "a.md", "key": "k"}, words)
		if status < 400 && !strings.Contains(text, "Nothing was placed; call again") {
			t.Errorf("%d: %s", status, text)
		}
	}
}
