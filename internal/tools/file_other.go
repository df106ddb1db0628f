//go:build !unix

package tools

import (
	"path/filepath"
	"strings"
)

// nonblock is not needed where opening a file by name cannot block.
const nonblock = 0

// oddName reports whether the path names a device or a stream beside a file's
// content rather than a file: "NUL", "COM1.txt", "a.txt:hidden".
func oddName(path string) bool {
	rest := path[len(filepath.VolumeName(path)):]
	if strings.HasPrefix(path, `\\.\`) || strings.HasPrefix(path, `\\?\`) || strings.Contains(rest, ":") {
		return true
	}
	for _, part := range strings.FieldsFunc(rest, func(r rune) bool { return r == '/' || r == '\\' }) {
		if part != "." && part != ".." && !filepath.IsLocal(part) {
			return true
		}
	}
	return false
}
