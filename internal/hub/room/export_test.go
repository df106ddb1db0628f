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
