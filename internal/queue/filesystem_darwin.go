package queue

import (
	"slices"

	"golang.org/x/sys/unix"
)

// networkFileSystem returns the type of dir's file system when it is one over
// a network, else "".
func networkFileSystem(dir string) string {
	var st unix.Statfs_t
	if unix.Statfs(dir, &st) != nil {
		return ""
	}
	kind := unix.ByteSliceToString(st.Fstypename[:])
	if slices.Contains([]string{"nfs", "smbfs", "afpfs", "webdav", "ftp", "macfuse", "osxfuse"}, kind) {
		return kind
	}
	return ""
}
