//go:build unix

package oauth

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

func replaceFile(from, to string) error { return os.Rename(from, to) }

// syncDir makes a rename in dir survive a power cut.
func syncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

// ownedAlone reports why the file at path is not the person's alone, as an
// error.
func ownedAlone(path string, info fs.FileInfo) error {
	if perm := info.Mode().Perm(); perm&0o077 != 0 {
		return fmt.Errorf("%s can be read by others (mode %04o); run chmod 600 on it or sign in again", path, perm)
	}
	dir, err := os.Lstat(filepath.Dir(path))
	if err != nil {
		return err
	}
	if perm := dir.Mode().Perm(); !dir.IsDir() || perm&0o022 != 0 {
		return fmt.Errorf("%s can be replaced by others (its directory has mode %04o); run chmod 700 on the directory or sign in again", path, perm)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && int64(st.Uid) != int64(os.Getuid()) {
		return fmt.Errorf("%s belongs to another user", path)
	}
	return nil
}
