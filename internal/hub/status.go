package hub

import (
	"net/http"

	"bellman.sh/desktop/internal/hub/room"
)

// statusOf is the HTTP status of a refusal. See protocol.md 5.3.
func statusOf(code room.Code) int {
	switch code {
	case room.NotFound:
		return http.StatusNotFound
	case room.Closed, room.Frozen, room.Conflict:
		return http.StatusConflict
	case room.Forbidden:
		return http.StatusForbidden
	case room.OverQuota:
		return http.StatusRequestEntityTooLarge
	case room.Invalid:
	}
	return http.StatusBadRequest
}
