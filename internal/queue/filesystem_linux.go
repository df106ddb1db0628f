package queue

import (
	"bufio"
	"fmt"
	"os"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// networkTypes are file systems whose machines do not see each other's shared
// memory, which SQLite's write-ahead log needs.
var networkTypes = []string{
	"nfs", "nfs4", "cifs", "smb3", "smbfs", "ncpfs", "afs", "ceph", "lustre", "gfs2", "ocfs2", "glusterfs", "beegfs",
	"fuse.sshfs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.s3fs", "fuse.rclone", "fuse.davfs", "fuse.gvfsd-fuse",
	"davfs", "vboxsf", "prl_fs",
}

// networkFileSystem returns the type of dir's file system when it is one over
// a network, else "".
func networkFileSystem(dir string) string {
	var st unix.Stat_t
	if unix.Stat(dir, &st) != nil {
		return ""
	}
	device := fmt.Sprintf("%d:%d", unix.Major(st.Dev), unix.Minor(st.Dev))
	f, err := os.Open("/proc/self/mountinfo")
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		if kind := mountType(lines.Text(), device); slices.Contains(networkTypes, kind) {
			return kind
		}
	}
	return ""
}

// mountType returns the type in a line of mountinfo that is about device.
func mountType(line, device string) string {
	fields := strings.Fields(line)
	separator := slices.Index(fields, "-")
	if len(fields) < 3 || fields[2] != device || separator < 0 || separator+1 >= len(fields) {
		return ""
	}
	return fields[separator+1]
}
