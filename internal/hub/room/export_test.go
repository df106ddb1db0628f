package room

// What the fuzz targets look at.
var (
	NormalCode = normalCode
	NewCode    = newCode
)

// KeepFolded is how many unused rooms stay in memory.
const KeepFolded = keepFolded

// Folded is how many rooms are in memory, and how many bytes of events.
func (h *House) Folded() (rooms int, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.rooms), h.bytes
}
