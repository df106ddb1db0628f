package hub_test

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
)

const png = "\x89PNG\r\n\x1a\n and what follows"

// uploaded is the answer to an upload.
type uploaded struct {
	ID          string `json:"blob_id"`
	Bytes       int64  `json:"bytes"`
	Type        string `json:"type"`
	Name        string `json:"name"`
	Error       string `json:"error"`
	Used        *int64 `json:"used"`
	Ceiling     *int64 `json:"ceiling"`
	Description string `json:"error_description"`
}

func uploadTo(t *testing.T, s *hubtest.Server, token, room, member, name, kind, body string) (int, uploaded) {
	t.Helper()
	q := url.Values{"member_id": {member}, "name": {name}}
	response, answer := do(t, s, http.MethodPost, "/rooms/"+room+"/blobs?"+q.Encode(), body, map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": kind,
	})
	var u uploaded
	decode(t, answer, &u)
	return response.StatusCode, u
}

// Case 37: an upload is stored and said to be what it is; who may not upload
// learns as little as can be.
func TestUpload(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	status, u := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "a/../hello\u202e.txt", "Text/Plain; charset=utf-8", "hello")
	if status != http.StatusCreated || len(u.ID) != 32 || u.Bytes != 5 || u.Type != "text/plain" || u.Name != "a..hello.txt" {
		t.Errorf("upload: %d %+v", status, u)
	}
	if status, u := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "empty", "", ""); status != http.StatusCreated || u.Bytes != 0 {
		t.Errorf("empty file: %d %+v", status, u)
	}
	_, unknown := uploadTo(t, s, hubtest.Outsider, "qs_unknown", "m_00000000", "x", "", "x")
	cases := []struct {
		name, token, room, member string
		status                    int
	}{
		{"no credential", "wrong", a.Room, a.Member, 401},
		{"unknown room", hubtest.Outsider, "qs_unknown", a.Member, 404},
		{"stranger", hubtest.Outsider, a.Room, "m_00000000", 404},
		{"another's handle", hubtest.Peer, a.Room, a.Member, 404},
		{"no verb", hubtest.Peer, a.Room, b.Member, 403},
		{"no member", hubtest.Jesse, a.Room, "", 400},
	}
	for _, c := range cases {
		status, got := uploadTo(t, s, c.token, c.room, c.member, "x", "", "x")
		if status != c.status {
			t.Errorf("%s: %d %+v, want %d", c.name, status, got, c.status)
		}
		if c.status == 404 && got != unknown {
			t.Errorf("%s: %+v differs from an unknown room's %+v", c.name, got, unknown)
		}
	}
	for _, name := range []string{"", "/", "\u200d \u00ad", "\x00\n", strings.Repeat("n", 201)} {
		if status, _ := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, name, "", "x"); status != 400 {
			t.Errorf("name %q: %d, want 400", name, status)
		}
	}
	a.OK(t, bellman.ToolLeave, a.Ref(), nil)
	if status, _ := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "x", "", "x"); status != 403 {
		t.Errorf("who left: %d, want 403", status)
	}
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	if status, _ := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "x", "", "x"); status != 409 {
		t.Errorf("closed room: %d, want 409", status)
	}
}

// rawUpload sends an upload with these header lines, then the body, and
// returns the status line.
func rawUpload(t *testing.T, s *hubtest.Server, a *hubtest.Seat, lines, body string) string {
	t.Helper()
	conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", strings.TrimPrefix(s.URL, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(10 * time.Second))
	head := "POST /rooms/" + a.Room + "/blobs?name=x&member_id=" + a.Member + " HTTP/1.1\r\nHost: " + strings.TrimPrefix(s.URL, "http://") +
		"\r\nAuthorization: Bearer " + a.Token + "\r\n" + lines + "\r\n"
	if _, err := io.WriteString(conn, head+body); err != nil {
		t.Fatal(err)
	}
	if body == "short" { // Only then: a server may take half a close for a whole one.
		_ = conn.(*net.TCPConn).CloseWrite()
	}
	line, _ := bufio.NewReader(conn).ReadString('\n')
	return strings.TrimPrefix(strings.TrimSpace(line), "HTTP/1.1 ")
}

// Cases 38 and 39: a length is required, bounded and exact; a body that is
// refused by its length is not read, one that is short is not kept.
func TestUploadLengths(t *testing.T) {
	data := t.TempDir()
	s := hubtest.Start(t, func(c *hub.Config) { c.Data = data })
	a := s.As(hubtest.Peer).Open(t, nil)
	for name, c := range map[string]struct{ lines, body, want string }{
		"none":    {"", "", "411"},
		"chunked": {"Transfer-Encoding: chunked\r\n", "1\r\nx\r\n0\r\n\r\n", "411"},
		"words":   {"Content-Length: abc\r\n", "", "400"},
		"large":   {"Content-Length: 26214401\r\n", "", "413"},
		"short":   {"Content-Length: 10\r\n", "short", "400"},
		"exact":   {"Content-Length: 5\r\n", "exact", "201"},
	} {
		if got := rawUpload(t, s, a, c.lines, c.body); !strings.HasPrefix(got, c.want) {
			t.Errorf("%s: %s, want %s", name, got, c.want)
		}
	}
	files := 0
	err := filepath.Walk(filepath.Join(data, "blobs"), func(_ string, info os.FileInfo, err error) error {
		if err == nil && !info.IsDir() {
			files++
		}
		return err
	})
	if err != nil || files != 1 {
		t.Errorf("%d files are kept (%v), want the exact one", files, err)
	}
}

// Case 38: what would pass the room's ceiling is refused with the numbers,
// before the body.
func TestUploadQuota(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Peer).Open(t, nil)
	big := strings.Repeat("x", 25<<20)
	for range 2 {
		if status, _ := uploadTo(t, s, hubtest.Peer, a.Room, a.Member, "big", "", big); status != http.StatusCreated {
			t.Fatalf("upload: %d", status)
		}
	}
	// The ceiling of the free plan is now used to the byte.
	status, u := uploadTo(t, s, hubtest.Peer, a.Room, a.Member, "one", "", "x")
	if status != 413 || u.Error != "over_quota" || u.Used == nil || *u.Used != 50<<20 || *u.Ceiling != 50<<20 {
		t.Errorf("one byte more: %d %+v", status, u)
	}
	if got := rawUpload(t, s, a, "Content-Length: 26214400\r\n", ""); !strings.HasPrefix(got, "413") {
		t.Errorf("over the ceiling without a body: %s, want 413", got)
	}
}

// Cases 40 and 41: files come back so that no browser takes them for a page.
func TestDownload(t *testing.T) {
	s := hubtest.Start(t)
	a, b := pair(t, s)
	cases := []struct{ name, claimed, body, stored, disposition string }{
		{"bell.png", "image/png", png, "image/png", ""},
		{"page.html", "text/html", "<script>", "application/octet-stream", "attachment; filename*=UTF-8''page.html"},
		{"x.svg", "image/svg+xml", "<svg/>", "application/octet-stream", "attachment; filename*=UTF-8''x.svg"},
		{"fake.png", "image/png", "<script>", "application/octet-stream", "attachment; filename*=UTF-8''fake.png"},
		{"r\u00e9sum\u00e9 (1).md", "text/markdown", "# hi", "application/octet-stream", "attachment; filename*=UTF-8''r%C3%A9sum%C3%A9%20%281%29.md"},
	}
	for _, c := range cases {
		_, u := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, c.name, c.claimed, c.body)
		path := "/rooms/" + a.Room + "/blobs/" + u.ID
		as := map[string]string{"Authorization": "Bearer " + hubtest.Peer}
		response, body := do(t, s, http.MethodGet, path, "", as)
		head := response.Header
		if response.StatusCode != 200 || body != c.body || head.Get("Content-Type") != c.stored || head.Get("Content-Disposition") != c.disposition {
			t.Errorf("%s: %d %q %q %q", c.name, response.StatusCode, body, head.Get("Content-Type"), head.Get("Content-Disposition"))
		}
		if head.Get("X-Content-Type-Options") != "nosniff" || head.Get("Content-Security-Policy") != "sandbox" ||
			head.Get("Cache-Control") != "private, max-age=300" || head.Get("Content-Length") != itoa(int64(len(c.body))) {
			t.Errorf("%s: headers %v", c.name, head)
		}
		as["If-None-Match"] = head.Get("ETag")
		if response, body := do(t, s, http.MethodGet, path, "", as); response.StatusCode != 304 || body != "" {
			t.Errorf("%s again: %d %q", c.name, response.StatusCode, body)
		}
	}
	_, u := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "x", "", "x")
	get := func(token, id string) int {
		response, _ := do(t, s, http.MethodGet, "/rooms/"+a.Room+"/blobs/"+id, "", map[string]string{"Authorization": "Bearer " + token})
		return response.StatusCode
	}
	for _, id := range []string{strings.ToUpper(u.ID[:31]) + "F", u.ID[:31], "..%2F" + u.ID, strings.Repeat("0", 32)} {
		if got := get(hubtest.Peer, id); got != 404 {
			t.Errorf("id %s: %d, want 404", id, got)
		}
	}
	b.OK(t, bellman.ToolLeave, b.Ref(), nil)
	for token, want := range map[string]int{hubtest.Peer: 200, hubtest.Outsider: 404, "wrong": 401} {
		if got := get(token, u.ID); got != want {
			t.Errorf("%s: %d, want %d", token, got, want)
		}
	}
	c := s.As(hubtest.Outsider).Join(t, a.Invite(t, ""))
	a.OK(t, bellman.ToolEvict, c.Ref(), nil)
	if got := get(hubtest.Outsider, u.ID); got != 403 {
		t.Errorf("removed: %d, want 403", got)
	}
}

// A file is placed by its id, with the service's own facts, and only as what
// it was stored as.
func TestPlaceBlob(t *testing.T) {
	s := hubtest.Start(t)
	a := s.As(hubtest.Jesse).Open(t, nil)
	_, image := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "bell.png", "image/png", png)
	_, page := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "p.html", "text/html", "<p>")
	_, fake := uploadTo(t, s, hubtest.Jesse, a.Room, a.Member, "fake.png", "image/png", "no")
	place := func(key, kind, id string) args {
		return args{"key": key, "kind": kind, "blob": args{"id": id}}
	}
	a.Send(t, "surface", place("pic", "image", image.ID))
	a.Send(t, "surface", place("page", "html", page.ID))
	a.Send(t, "surface", place("any", "file", fake.ID))
	a.Refused(t, bellman.ToolSend, sending(a, "surface", place("x", "image", fake.ID)), "image item", "octet-stream")
	a.Refused(t, bellman.ToolSend, sending(a, "surface", place("x", "html", image.ID)), "html item", "image/png")
	_, items := surface(t, a)
	want := map[string]any{"id": image.ID, "bytes": float64(len(png)), "type": "image/png", "name": "bell.png"}
	for _, item := range items {
		if item["key"] == "pic" && !equal(item["blob"], want) {
			t.Errorf("blob of the item %v, want %v", item["blob"], want)
		}
	}
	// Another room's blob is nobody's here.
	other := s.As(hubtest.Jesse).Open(t, nil)
	other.Refused(t, bellman.ToolSend, sending(other, "surface", place("x", "image", image.ID)), "no blob")
}
