package hub

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"
	"unicode"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/blob"
	"bellman.sh/desktop/internal/hub/room"
)

const (
	// maxBlob bounds one upload.
	maxBlob = 25 << 20
	// uploadPatience is how long a whole upload or download may take.
	uploadPatience = 10 * time.Minute
	octetStream    = "application/octet-stream"
)

// upload stores a file in a room. The refusals come in the order of
// protocol.md 5.4, and no byte of the body is read before the quota said yes.
func (h *Hub) upload(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	member := q.Get("member_id")
	name, ok := cleanFileName(q.Get("name"))
	if member == "" || !ok {
		writeProblem(w, http.StatusBadRequest, "invalid_request", "member_id, and a name of 1 to 200 characters, are required")
		return
	}
	length, ok := contentLength(r)
	switch {
	case !ok:
		writeProblem(w, http.StatusLengthRequired, "length_required", "Content-Length must say how long the body is")
		return
	case length > maxBlob:
		writeProblem(w, http.StatusRequestEntityTooLarge, "too_large", "a file must have at most 26214400 bytes")
		return
	}
	who, id := callerOf(r.Context()), r.PathValue("id")
	if err := h.house.MayUpload(r.Context(), who, id, member, length); err != nil {
		h.writeError(w, r, err)
		return
	}
	// A file takes as long as the line it comes over, and is answered after it.
	line := http.NewResponseController(w)
	_ = line.SetReadDeadline(time.Now().Add(uploadPatience))
	_ = line.SetWriteDeadline(time.Now().Add(uploadPatience + time.Minute))
	stored, err := h.blobs.Put(r.Context(), r.Body, length)
	if errors.Is(err, blob.ErrLength) {
		writeProblem(w, http.StatusBadRequest, "invalid_request", "the body is not as long as Content-Length says")
		return
	}
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	b := room.Blob{ID: stored.ID, Bytes: stored.Bytes, Type: mediaType(r.Header.Get("Content-Type"), stored.Head), Name: name, Member: member}
	// Whether it counts is settled even when the client has gone: else a file
	// would stay that no room knows.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), 30*time.Second)
	defer cancel()
	if err := h.house.Charge(ctx, who, id, b); err != nil {
		// After a fault it may count all the same; the sweep will know.
		if _, refused := errors.AsType[*room.Error](err); refused {
			err = errors.Join(err, h.blobs.Remove(b.ID))
		}
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusCreated, map[string]any{"blob_id": b.ID, "bytes": b.Bytes, "type": b.Type, "name": b.Name})
}

// contentLength returns the length a request announces. A chunked body
// announces none.
func contentLength(r *http.Request) (int64, bool) {
	if r.ContentLength < 0 || len(r.TransferEncoding) > 0 {
		return 0, false
	}
	// Without a body the server reports 0, whether or not the header is there.
	if r.ContentLength == 0 && r.Header.Get("Content-Length") == "" {
		return 0, false
	}
	return r.ContentLength, true
}

// cleanFileName takes out of a name what could make it a path or hide a part
// of it.
func cleanFileName(name string) (string, bool) {
	kept := map[rune]bool{'\u00ad': true, '\u200c': true, '\u200d': true}
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if r == '/' || r == '\\' || !kept[r] && (unicode.Is(unicode.Cc, r) || unicode.Is(unicode.Cf, r)) {
			return -1
		}
		return r
	}, name))
	visible := strings.ContainsFunc(name, func(r rune) bool { return !kept[r] && !unicode.IsSpace(r) })
	return name, visible && bellman.Units(name) <= 200
}

var typeForm = regexp.MustCompile(`^[a-z0-9][a-z0-9!#$&^_.+-]*/[a-z0-9][a-z0-9!#$&^_.+-]*$`)

// signatures are what the files of the image types begin with.
var signatures = map[string]func(head string) bool{
	"image/png":  func(head string) bool { return strings.HasPrefix(head, "\x89PNG\r\n\x1a\n") },
	"image/jpeg": func(head string) bool { return strings.HasPrefix(head, "\xff\xd8\xff") },
	"image/gif":  func(head string) bool { return strings.HasPrefix(head, "GIF8") },
	"image/webp": func(head string) bool {
		return len(head) >= 12 && strings.HasPrefix(head, "RIFF") && head[8:12] == "WEBP"
	},
}

// mediaType is the type a file is stored under: the claimed one, unless it is
// malformed or an image that the bytes do not bear out.
func mediaType(claimed string, head []byte) string {
	kind, _, _ := strings.Cut(claimed, ";")
	kind = strings.ToLower(strings.TrimSpace(kind))
	if len(kind) > 100 || !typeForm.MatchString(kind) {
		return octetStream
	}
	if strings.HasPrefix(kind, "image/") {
		if matches := signatures[kind]; matches == nil || !matches(string(head)) {
			return octetStream
		}
	}
	return kind
}

// download serves a file so that no browser takes it for a page. See
// protocol.md 5.5.
func (h *Hub) download(w http.ResponseWriter, r *http.Request) {
	b, err := h.house.Download(r.Context(), callerOf(r.Context()), r.PathValue("id"), r.PathValue("blob"))
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	h.serveBlob(w, r, b, "private")
}

func (h *Hub) serveBlob(w http.ResponseWriter, r *http.Request, b room.Blob, reach string) {
	head := w.Header()
	etag := `"` + b.ID + `"`
	head.Set("Cache-Control", reach+", max-age=300")
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Content-Security-Policy", "sandbox")
	head.Set("ETag", etag)
	if matchesETag(r, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	f, err := h.blobs.Open(b.ID)
	if err != nil {
		h.writeError(w, r, fmt.Errorf("serve blob: %w", err))
		return
	}
	defer func() { _ = f.Close() }()
	head.Set("Content-Length", strconv.FormatInt(b.Bytes, 10))
	if signatures[b.Type] != nil {
		head.Set("Content-Type", b.Type)
	} else {
		head.Set("Content-Type", octetStream)
		head.Set("Content-Disposition", "attachment; filename*=UTF-8''"+extValue(b.Name))
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(uploadPatience))
	w.WriteHeader(http.StatusOK)
	_, _ = io.Copy(w, f) // The client has left; there is nobody to tell.
}

// extValue encodes a name as RFC 8187 has it.
func extValue(name string) string {
	const plain = "!#$&+-.^_`|~"
	var b strings.Builder
	for _, c := range []byte(name) {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(plain, c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
