package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/remote"
)

type uploadArgs struct {
	SessionID string          `json:"session_id"`
	RoomID    string          `json:"room_id"`
	MemberID  string          `json:"member_id"`
	Path      string          `json:"path"`
	Key       string          `json:"key"`
	Kind      string          `json:"kind"`
	Title     string          `json:"title"`
	Placement json.RawMessage `json:"placement"`
}

type uploadResult struct {
	BlobID      string          `json:"blob_id"`
	Bytes       int64           `json:"bytes"`
	Type        string          `json:"type"`
	Kind        string          `json:"kind"`
	Cursor      int64           `json:"cursor"`
	RoomMembers json.RawMessage `json:"room_members"`
}

// upload answers bellman_upload: the file goes to the room's blob store, then
// onto its surface. Whatever fails after the upload, the answer names the blob.
func (b *Bridge) upload(ctx context.Context, c Call) Answer {
	a, err := uploadArguments(c.Params)
	if err != nil {
		return failure("%v. Nothing was sent.", err)
	}
	f, size, err := openUpload(b.cfg.Upload, b.cfg.Dir, a.Path)
	if err != nil {
		return failure("%v. Nothing was sent.", err)
	}
	defer func() { _ = f.Close() }()
	kind := a.Kind
	if kind == "" {
		kind = defaultKind(mediaType(a.Path))
	}
	blob, answer := b.sendFile(ctx, c, a, f, size)
	if answer != nil {
		return *answer
	}
	return b.place(ctx, c, a, kind, blob)
}

// maxArgument bounds what a refusal repeats, in bytes. No system has longer
// paths.
const maxArgument = 32 << 10

func uploadArguments(params json.RawMessage) (uploadArgs, error) {
	var a uploadArgs
	if err := readArguments(params, &a); err != nil {
		return a, err
	}
	if a.SessionID == "" {
		a.SessionID = a.RoomID
	}
	for _, need := range []struct{ name, value string }{
		{"session_id (or room_id)", a.SessionID}, {"member_id", a.MemberID}, {"path", a.Path}, {"key", a.Key},
	} {
		if need.value == "" {
			return a, fmt.Errorf("%s is required; bellman_upload needs session_id (or room_id), member_id, path and key", need.name)
		}
		if len(need.value) > maxArgument {
			return a, fmt.Errorf("%s is too long: at most %d bytes", need.name, maxArgument)
		}
	}
	if !slices.Contains([]string{"", "file", "image", "html"}, a.Kind) {
		return a, errors.New("kind must be file, image or html")
	}
	return a, nil
}

// sendFile uploads, through a sign-in if one is needed.
func (b *Bridge) sendFile(ctx context.Context, c Call, a uploadArgs, f *os.File, size int64) (remote.Blob, *Answer) {
	var shorter, over atomic.Bool
	defer over.Store(true) // the transport may read on for a moment, but the call's progress ends with it
	open := func() io.Reader {
		return &fileReader{r: io.NewSectionReader(f, 0, size), size: size, shorter: &shorter, report: func(at int64) {
			if c.Progress != nil && !over.Load() {
				b.progress(c.Progress, float64(at), float64(size), "Uploading")
			}
		}}
	}
	post := func() (remote.Blob, error) {
		return b.cfg.Remote.UploadBlob(ctx, remote.Upload{
			Room: a.SessionID, Member: a.MemberID, Name: filepath.Base(a.Path), Type: mediaType(a.Path), Size: size, Open: open,
		})
	}
	blob, err := post()
	if errors.Is(err, remote.ErrSignInNeeded) {
		answer, ok := b.signIn(ctx, c)
		if !ok {
			return blob, &answer
		}
		blob, err = post()
	}
	if err == nil {
		b.refreshCatalogue(ctx)
		return blob, nil
	}
	refused := uploadRefusal(a.Path, shorter.Load(), err)
	return blob, &refused
}

func uploadRefusal(path string, shorter bool, err error) Answer {
	e, _ := errors.AsType[*remote.Error](err)
	switch {
	case shorter:
		return failure("%s became shorter while it was read. Nothing was placed; call again.", path)
	case e != nil && e.Status >= http.StatusInternalServerError:
		return failure("the service failed at the upload (%d). Nothing was placed; call again in a moment.", e.Status)
	case e != nil && e.Status >= http.StatusBadRequest && e.Detail != "":
		return failure("upload refused (%d): %s. Nothing was stored.", e.Status, strings.TrimSuffix(e.Detail, "."))
	case e != nil && e.Status >= http.StatusBadRequest:
		return failure("upload refused (%d). Nothing was stored.", e.Status)
	case errors.Is(err, context.DeadlineExceeded):
		return failure("the upload took too long for one call. Nothing was placed; call again, or upload a smaller file.")
	}
	return failure("upload failed: %s. Nothing was placed; call again.", explain(err))
}

var errShorter = errors.New("file became shorter")

// progressStep is how many bytes lie between two progress reports.
const progressStep = 1 << 20

// fileReader reads exactly size bytes, whatever becomes of the file, and reports
// how far it is. A file that ends before is noted in shorter.
type fileReader struct {
	r        io.Reader
	at, size int64
	shorter  *atomic.Bool
	report   func(at int64)
}

// Read implements io.Reader.
func (r *fileReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	before := r.at
	r.at += int64(n)
	if r.at/progressStep != before/progressStep {
		r.report(r.at)
	}
	if errors.Is(err, io.EOF) && r.at < r.size {
		r.shorter.Store(true)
		return n, errShorter
	}
	return n, err
}

// place puts the blob on the surface by a bellman_send of ours, which is
// repeated under its key when its answer is lost.
func (b *Bridge) place(ctx context.Context, c Call, a uploadArgs, kind string, blob remote.Blob) Answer {
	payload := map[string]any{"key": a.Key, "kind": kind, "blob": map[string]string{"id": blob.ID}}
	if a.Title != "" {
		payload["title"] = a.Title
	}
	if a.Placement != nil && string(a.Placement) != "null" {
		payload["placement"] = a.Placement
	}
	key := "upload-" + rand.Text()
	params := encode(map[string]any{"name": bellman.ToolSend, "arguments": map[string]any{
		"session_id": a.SessionID, "member_id": a.MemberID, "type": "surface", "payload": payload, "idempotency_key": key,
	}})
	who := b.person()
	send := Call{Method: c.Method, Tool: bellman.ToolSend, Params: params, Progress: c.Progress}
	s := b.forward(ctx, send, params, key)
	r, why := readPlacement(send, s)
	if why != "" {
		return notPlaced(a, kind, blob, s.unknown() || r == nil && s.err == nil, why)
	}
	b.observe(ctx, who, send, r)
	res := uploadResult{
		BlobID: blob.ID, Bytes: blob.Bytes, Type: blob.Type, Kind: kind,
		Cursor: cursor(r.structured), RoomMembers: r.structured.get("room_members"),
	}
	if res.RoomMembers == nil {
		res.RoomMembers = json.RawMessage("[]")
	}
	return success(string(encode(res)), res)
}

// readPlacement returns the answer to a placement, and why it was not placed. An
// answer that cannot be read is none.
func readPlacement(send Call, s sent) (r *reply, why string) {
	raw := s.raw
	if s.err != nil {
		a := report(send, "", s)
		if a.Error != nil {
			return nil, a.Error.Message
		}
		raw = a.Result
	}
	r, err := parseReply(raw)
	switch {
	case err != nil:
		return nil, "the service's answer is no tool result"
	case r.isError:
		return r, strings.TrimPrefix(r.firstText(), "Error: ")
	case r.structured == nil:
		return nil, "the service's answer holds no cursor"
	}
	return r, ""
}

// notPlaced is the answer when the file is stored and not, or perhaps not, on
// the surface.
func notPlaced(a uploadArgs, kind string, blob remote.Blob, unknown bool, why string) Answer {
	stored := fmt.Sprintf("The file is stored as blob %s (%d bytes, %s)", quoted(blob.ID), blob.Bytes, plain(blob.Type))
	again := fmt.Sprintf("bellman_send type surface with payload { key: %s, kind: \"file\", blob: { id: %s } }", quoted(a.Key), quoted(blob.ID))
	if unknown {
		return failure("%s, but whether it was placed as %s under key %s is not known: %s. Call bellman_surface to see; if it is not there, place it without uploading again: %s.",
			stored, kind, quoted(a.Key), strings.TrimSuffix(why, "."), again)
	}
	return failure("%s but was not placed as %s under key %s: %s. You can place it without uploading again: %s.",
		stored, kind, quoted(a.Key), strings.TrimSuffix(why, "."), again)
}
