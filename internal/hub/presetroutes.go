package hub

import (
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"bellman.sh/desktop/internal/hub/manifest"
)

// maxPresets is how many presets a person may save.
const maxPresets = 20

// listPresets answers with the built-in and the saved presets.
func (h *Hub) listPresets(w http.ResponseWriter, r *http.Request) {
	who := callerOf(r.Context())
	prefix := presetPrefix(who)
	items, err := h.presets.List(r.Context(), prefix)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	type saved struct {
		Name     string          `json:"name"`
		Manifest json.RawMessage `json:"manifest"`
	}
	list := make([]saved, len(items))
	for i, item := range items {
		list[i] = saved{item.Key[len(prefix):], item.Value}
	}
	writeJSON(w, http.StatusOK, map[string]any{"builtin": manifest.BuiltinNames(), "presets": list})
}

// putPreset saves a preset under a name, in place of one that is there.
func (h *Hub) putPreset(w http.ResponseWriter, r *http.Request) {
	name, who := r.PathValue("name"), callerOf(r.Context())
	if slices.Contains(manifest.BuiltinNames(), name) {
		writeProblem(w, http.StatusConflict, "builtin", "a built-in preset has this name")
		return
	}
	if !manifest.Slug(name) {
		writeProblem(w, http.StatusBadRequest, "invalid_request", "a preset's name is lower-case letters, digits and underscores")
		return
	}
	body, ok := readBody(w, r)
	if !ok {
		return
	}
	if _, err := manifest.ParsePreset(body); err != nil {
		writeProblem(w, http.StatusBadRequest, "invalid_manifest", err.Error())
		return
	}
	saved, err := h.savedPresets(r.Context(), who)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	if _, replaces := saved[name]; !replaces && len(saved) >= maxPresets {
		writeProblem(w, http.StatusConflict, "conflict", "there are 20 saved presets already: delete one first")
		return
	}
	if err := h.presets.Put(r.Context(), presetPrefix(who)+name, body, time.Time{}); err != nil {
		h.writeError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}

func (h *Hub) deletePreset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	if slices.Contains(manifest.BuiltinNames(), name) {
		writeProblem(w, http.StatusConflict, "builtin", "a built-in preset cannot be deleted")
		return
	}
	if err := h.presets.Drop(r.Context(), presetPrefix(callerOf(r.Context()))+name); err != nil {
		h.writeError(w, r, err)
		return
	}
	w.WriteHeader(http.StatusNoContent)
}
