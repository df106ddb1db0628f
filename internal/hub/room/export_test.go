package room

// What the fuzz targets look at.
var (
	NormalCode = normalCode
	NewCode    = newCode
)

// ReadPayload reads a payload and returns what is stored, what is compared,
// and whether it is nested too deep.
func ReadPayload(raw []byte) (compact, sorted []byte, units int, deep bool, err error) {
	p, err := readPayload(raw)
	return p.compact, p.sorted, p.units, p.deep, err
}

// ReadWrite reads a surface write.
func ReadWrite(raw []byte) error {
	_, err := readWrite(raw)
	return err
}

// KeepFolded is how many unused rooms stay in memory.
const KeepFolded = keepFolded

// Folded is how many rooms are in memory, and how many bytes of events.
func (h *House) Folded() (rooms int, bytes int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.rooms), h.bytes
}
