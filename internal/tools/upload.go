package tools

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
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
		return failure("%s. Nothing was sent.", bellman.EscapeText(err.Error()))
	}
	f, size, err := openUpload(b.cfg.Upload, b.cfg.Dir, a.Path)
	if err != nil {
		return failure("%s. Nothing was sent.", bellman.EscapeText(err.Error()))
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

func uploadArguments(params json.RawMessage) (uploadArgs, error) {
	var p struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	var a uploadArgs
	if json.Unmarshal(params, &p) != nil {
		return a, errors.New("arguments must be an object")
	}
	if err := readArguments(p.Arguments, &a); err != nil {
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
	}
	if !slices.Contains([]string{"", "file", "image", "html"}, a.Kind) {
		return a, errors.New("kind must be file, image or html")
	}
	return a, nil
}

// sendFile uploads, through a sign-in if one is needed.
func (b *Bridge) sendFile(ctx context.Context, c Call, a uploadArgs, f *os.File, size int64) (remote.Blob, *Answer) {
	post := func() (remote.Blob, error) {
		return b.cfg.Remote.UploadBlob(ctx, remote.Upload{
			Room: a.SessionID, Member: a.MemberID, Name: filepath.Base(a.Path), Type: mediaType(a.Path), Size: size,
			Body: b.fileBody(c, f, size),
			Open: func() (io.ReadCloser, error) { return io.NopCloser(b.fileBody(c, f, size)), nil },
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
		return blob, nil
	}
	var refused Answer
	e, _ := errors.AsType[*remote.Error](err)
	switch {
	case errors.Is(err, errShorter):
		refused = failure("%s became shorter while it was read. Nothing was stored; call again.", bellman.EscapeText(a.Path))
	case e != nil && e.Status != 0:
		refused = failure("upload refused (%d): %s. Nothing was stored.", e.Status, bellman.EscapeText(e.Detail))
	default:
		refused = failure("upload failed: %s. Nothing was placed; call again.", explain(err))
	}
	return blob, &refused
}

var errShorter = errors.New("file became shorter")

// fileBody reads exactly size bytes of f, whatever becomes of the file, and
// reports progress.
func (b *Bridge) fileBody(c Call, f *os.File, size int64) io.Reader {
	return &fileReader{r: io.NewSectionReader(f, 0, size), size: size, report: func(at int64) {
		if c.Progress != nil {
			b.progress(c.Progress, float64(at), float64(size), "Uploading")
		}
	}}
}

// progressStep is how many bytes lie between two progress reports.
const progressStep = 1 << 20

type fileReader struct {
	r        io.Reader
	at, size int64
	report   func(at int64)
}

func (r *fileReader) Read(p []byte) (int, error) {
	n, err := r.r.Read(p)
	before := r.at
	r.at += int64(n)
	if r.at/progressStep != before/progressStep {
		r.report(r.at)
	}
	if errors.Is(err, io.EOF) && r.at < r.size {
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
	send := Call{Method: "tools/call", Tool: bellman.ToolSend, Params: params, Progress: c.Progress}
	stored := fmt.Sprintf("The file is stored as blob %s (%d bytes, %s)", blob.ID, blob.Bytes, plain(strings.ReplaceAll(blob.Type, "/", "-")))
	raw, _, answer := b.forward(ctx, send, params, key)
	var r *reply
	var err error
	if answer == nil {
		r, err = parseReply(raw)
	} else {
		r, err = parseReply(answer.Result)
	}
	if answer != nil || err != nil || r.isError || r.structured == nil {
		why := "the service's answer could not be read"
		if err == nil {
			why = strings.TrimPrefix(r.firstText(), "Error: ")
		}
		return failure("%s but was not placed as %s under key %q: %s You can place it without uploading again: bellman_send type surface with payload { key, kind: \"file\", blob: { id: %q } }.",
			stored, kind, a.Key, bellman.EscapeText(why), blob.ID)
	}
	if o, known := b.own(ctx); known {
		b.touch(ctx, o, queue.Member{Room: a.SessionID, ID: a.MemberID}, number(r.structured.get("cursor")))
	}
	res := uploadResult{
		BlobID: blob.ID, Bytes: blob.Bytes, Type: blob.Type, Kind: kind,
		Cursor: number(r.structured.get("cursor")), RoomMembers: r.structured.get("room_members"),
	}
	if res.RoomMembers == nil {
		res.RoomMembers = json.RawMessage("[]")
	}
	return success(bellman.EscapeText(string(encode(res))), res)
}
