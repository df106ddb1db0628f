package queue

import (
	"path/filepath"

	"golang.org/x/sys/windows"
)

// networkFileSystem returns what kind of drive dir is on when it is one over a
// network, else "".
func networkFileSystem(dir string) string {
	root, err := windows.UTF16PtrFromString(filepath.VolumeName(dir) + `\`)
	if err == nil && windows.GetDriveType(root) == windows.DRIVE_REMOTE {
		return "network drive"
	}
	return ""
}
