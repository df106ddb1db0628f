package hub

// What the fuzz targets look at.
var (
	CleanFileName = cleanFileName
	ExtValue      = extValue
	MediaType     = mediaType
	Handshake     = handshake
	ReadAfter     = readAfter
)
