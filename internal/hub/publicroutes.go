package hub

import (
	"net/http"
)

// publicRoutes are the routes anybody may read a public room by, from any web
// page and without a credential. Everything that is not there to be seen is
// one 404.
func (h *Hub) publicRoutes() http.Handler {
	mux := http.NewServeMux()
	serve := map[string]http.HandlerFunc{
		"GET /public/rooms/{id}":              h.publicRoom,
		"GET /public/rooms/{id}/surface":      h.publicSurface,
		"GET /public/rooms/{id}/events":       h.publicEvents,
		"GET /public/rooms/{id}/blobs/{blob}": h.publicBlob,
	}
	for path, f := range serve {
		mux.HandleFunc(path, f)
	}
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		writeProblem(w, http.StatusNotFound, "not_found", "there is nothing here")
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Access-Control-Allow-Origin", "*")
		mux.ServeHTTP(w, r)
	})
}

func (h *Hub) publicRoom(w http.ResponseWriter, r *http.Request) {
	front, err := h.house.PublicFront(r.Context(), r.PathValue("id"))
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, front)
}

func (h *Hub) publicSurface(w http.ResponseWriter, r *http.Request) {
	board, err := h.house.PublicBoard(r.Context(), r.PathValue("id"))
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeBoard(w, r, board)
}

func (h *Hub) publicEvents(w http.ResponseWriter, r *http.Request) {
	after, err := readAfter(r)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	page, err := h.house.PublicEvents(r.Context(), r.PathValue("id"), after)
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	writeJSON(w, http.StatusOK, page)
}

func (h *Hub) publicBlob(w http.ResponseWriter, r *http.Request) {
	b, err := h.house.PublicBlob(r.Context(), r.PathValue("id"), r.PathValue("blob"))
	if err != nil {
		h.writeError(w, r, err)
		return
	}
	h.serveBlob(w, r, b, "public")
}
