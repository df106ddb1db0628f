package main

import "golang.org/x/sys/unix"

// quarantine returns the mark macOS puts on a downloaded file, "" when it has
// none.
func quarantine(path string) string {
	value := make([]byte, 256)
	n, err := unix.Getxattr(path, "com.apple.quarantine", value)
	if err != nil {
		return ""
	}
	return string(value[:n])
}
