package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/room"
)

// maxItem bounds the body of a surface write over HTTP, and of a preset.
const maxItem = 64 << 10

// problem is the body of a JSON error. See protocol.md 5.3.
type problem struct {
	Error       string `json:"error"`
	Description string `json:"error_description"`
	Used        *int64 `json:"used,omitempty"`
	Ceiling     *int64 `json:"ceiling,omitempty"`
}

func writeProblem(w http.ResponseWriter, status int, code, text string) {
	writeJSON(w, status, problem{Error: code, Description: text})
}

// writeError answers with a refusal, or with a fault of the hub's own.
func (h *Hub) writeError(w http.ResponseWriter, r *http.Request, err error) {
	refused, ok := errors.AsType[*room.Error](err)
	if !ok {
		if r.Context().Err() == nil {
			h.log.ErrorContext(r.Context(), "request failed", "path", r.URL.Path, "error", err)
		}
		writeProblem(w, http.StatusInternalServerError, "internal", "the hub could not do this")
		return
	}
	p := problem{Error: string(refused.Code), Description: refused.Text}
	if refused.Code == room.Invalid {
		p.Error = "invalid_request"
	}
	if refused.Code == room.OverQuota {
		p.Used, p.Ceiling = &refused.Used, &refused.Ceiling
	}
	writeJSON(w, statusOf(refused.Code), p)
}

// roomRoutes are the routes under /rooms and /presets.
func (h *Hub) roomRoutes() http.Handler {
	mux := http.NewServeMux()
	routes := map[string]map[string]http.HandlerFunc{
		"/rooms":                    {http.MethodGet: h.listRooms},
		"/rooms/{id}":               {http.MethodGet: h.viewRoom, http.MethodDelete: h.deleteRoom},
		"/rooms/{id}/events":        {http.MethodGet: h.roomEvents},
		"/rooms/{id}/surface":       {http.MethodGet: h.roomSurface},
		"/rooms/{id}/surface/{key}": {http.MethodPut: h.putItem, http.MethodDelete: h.deleteItem},
		"/rooms/{id}/unpublish":     {http.MethodPost: h.unpublishRoom},
		"/rooms/{id}/blobs":         {http.MethodPost: h.upload},
		"/rooms/{id}/blobs/{blob}":  {http.MethodGet: h.download},
		"/presets":                  {http.MethodGet: h.listPresets},
		"/presets/{name}":           {http.MethodPut: h.putPreset, http.MethodDelete: h.deletePreset},
	}
	for path, methods := range routes {
		mux.Handle(path, h.methods(methods))
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusNotFound, "not_found", "there is nothing here")
	})
	return mux
}

// methods serves a path by method, to people with a credential.
func (h *Hub) methods(by map[string]http.HandlerFunc) http.Handler {
	allowed := make([]string, 0, len(by))
	for _, method := range []string{http.MethodGet, http.MethodPost, http.MethodPut, http.MethodDelete} {
		if by[method] != nil {
			allowed = append(allowed, method)
		}
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		serve := by[r.Method]
		switch {
		case r.Method == http.MethodOptions:
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			w.WriteHeader(http.StatusNoContent)
			return
		case serve == nil:
			w.Header().Set("Allow", strings.Join(allowed, ", "))
			writeProblem(w, http.StatusMethodNotAllowed, "method_not_allowed", "use "+strings.Join(allowed, " or "))
			return
		}
		who, ok, err := h.identify(r)
		switch {
		case err != nil:
			h.writeError(w, r, err)
		case !ok:
			challenge(w, r)
			writeProblem(w, http.StatusUnauthorized, "unauthorized", "a valid access token or key is needed")
		default:
			serve(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
		}
	})
}

func (h *Hub) listRooms(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r.Context())
	viewer, admin := "member", r.URL.Query().Get("as") == "admin"
	if admin {
		viewer = "admin"
		if err := mayAudit(who); err != nil {
			h.writeError(w, r, err)
			return
		}
	}
	lines, more, err := h.house.Lines(r.Context(), who, admin)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"rooms": lines, "truncated": more, "viewer": viewer})
}

func (h *Hub) viewRoom(w http.ResponseWriter, r *http.Request) {
	view, err := h.house.View(r.Context(), callerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, view)
}

func (h *Hub) deleteRoom(w http.ResponseWriter, r *http.Request) {
	id := r.PathValue("id")
	if err := h.house.Delete(r.Context(), callerOf(r.Context()), id); err != nil {
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusAccepted, map[string]any{"id": id, "purge_at": bellman.FormatTime(h.now())})
}

func (h *Hub) unpublishRoom(w http.ResponseWriter, r *http.Request) {
	if err := h.house.Unpublish(r.Context(), callerOf(r.Context()), r.PathValue("id")); err != nil {
		h.writeError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

var afterForm = regexp.MustCompile(`^\d{1,15}$`)

// readAfter reads the query's after; -1 is the newest page.
func readAfter(r *http.Request) (int64, error) {
	q, err := url.ParseQuery(r.URL.RawQuery)
	text := q.Get("after")
	switch {
	case err == nil && !q.Has("after"):
		return -1, nil
	case err != nil || !afterForm.MatchString(text):
		return 0, invalid("after must be a cursor: 1 to 15 digits")
	}
	after, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read after: %w", err)
	}
	return after, nil
}

func (h *Hub) roomEvents(w http.ResponseWriter, r *http.Request) {
	after, err := readAfter(r)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	page, err := h.house.Events(r.Context(), callerOf(r.Context()), r.PathValue("id"), after)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, page)
}

func (h *Hub) roomSurface(w http.ResponseWriter, r *http.Request) {
	board, err := h.house.Board(r.Context(), callerOf(r.Context()), r.PathValue("id"))
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeBoard(w, r, board)
}

func writeBoard(w http.ResponseWriter, r *http.Request, board room.Surface) {
	etag := `"` + strconv.FormatInt(board.Cursor, 10) + `"`
	w.Header().Set("ETag", etag)
	if matchesETag(r, etag) {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"surface_cursor": board.Cursor, "items": board.Items})
}

// matchesETag reports whether the client has what an etag names. Weak and
// strong are alike here, as for any conditional GET.
func matchesETag(r *http.Request, etag string) bool {
	for _, line := range r.Header.Values("If-None-Match") {
		for word := range strings.SplitSeq(line, ",") {
			word = strings.TrimPrefix(strings.TrimSpace(word), "W/")
			if word == "*" || word == etag {
				return true
			}
		}
	}
	return false
}

// readBody reads the body of an item or a preset. When it returns false it has
// answered.
func readBody(w http.ResponseWriter, r *http.Request) ([]byte, bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxItem))
	if err != nil {
		writeProblem(w, http.StatusRequestEntityTooLarge, "too_large", "the body is larger than 65536 bytes or was cut short")
		return nil, false
	}
	return body, true
}

func (h *Hub) putItem(w http.ResponseWriter, r *http.Request) {
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	var item map[string]json.RawMessage
	if json.Unmarshal(body, &item) != nil || item == nil {
		writeProblem(w, http.StatusBadRequest, "invalid_request", "the body must be an item as a JSON object")
		return
	}
	key := r.PathValue("key")
	if _, ok := item["remove"]; ok {
		writeProblem(w, http.StatusBadRequest, "invalid_request", "remove an item with DELETE")
		return
	}
	if given, ok := item["key"]; ok {
		var same string
		if json.Unmarshal(given, &same) != nil || same != key {
			writeProblem(w, http.StatusBadRequest, "invalid_request", "key in the body differs from the path")
			return
		}
	}
	name, err := json.Marshal(key)
	if err != nil {
		h.writeError(w, r, fmt.Errorf("encode key: %w", err))
		return
	}
	item["key"] = name
	h.writeItem(w, r, item)
}

func (h *Hub) deleteItem(w http.ResponseWriter, r *http.Request) {
	h.writeItem(w, r, map[string]any{"key": r.PathValue("key"), "remove": true})
}

func (h *Hub) writeItem(w http.ResponseWriter, r *http.Request, item any) {
	member := r.URL.Query().Get("member_id")
	if member == "" {
		writeProblem(w, http.StatusBadRequest, "invalid_request", "member_id is required")
		return
	}
	payload, err := json.Marshal(item)
	if err != nil {
		h.writeError(w, r, fmt.Errorf("encode item: %w", err))
		return
	}
	sent, err := h.house.WriteItem(r.Context(), callerOf(r.Context()), r.PathValue("id"), member, payload)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"cursor": sent.Cursor, "room_members": sent.RoomMembers})
}
