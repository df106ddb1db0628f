package oauth

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxFile is more than any file of ours can be.
const maxFile = 256 << 10

// makeDir makes dir and what is above it, and sees to it that dir itself is a
// real directory that only the person can enter.
func makeDir(dir string) error {
	if !filepath.IsAbs(dir) {
		return fmt.Errorf("state directory %s is not an absolute path", dir)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("look at state directory: %w", err)
	}
	if !info.IsDir() {
		return fmt.Errorf("state directory %s is a link or a file", dir)
	}
	// The mode given to MkdirAll says nothing about a directory that existed.
	if info.Mode().Perm()&0o077 != 0 {
		if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // A directory needs its execute bit.
			return fmt.Errorf("close state directory to others: %w", err)
		}
	}
	return nil
}

// readFile reads a file of ours. It refuses what is not a regular file, a
// link above all, and returns fs.ErrNotExist when there is none.
func readFile(path string) ([]byte, fs.FileInfo, error) {
	named, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	if !named.Mode().IsRegular() {
		return nil, nil, fmt.Errorf("%s is not a regular file", path)
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, nil, fmt.Errorf("look at %s: %w", path, err)
	}
	if !os.SameFile(named, info) {
		return nil, nil, fmt.Errorf("%s was replaced while it was opened", path)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err != nil {
		return nil, nil, fmt.Errorf("read %s: %w", path, err)
	}
	if len(b) > maxFile {
		return nil, nil, fmt.Errorf("%s is larger than %d bytes", path, maxFile)
	}
	return b, info, nil
}

// writeFile replaces the file at path in one step: readers see the old bytes
// or the new ones, and a full disk leaves the old ones. The file is born with
// mode 0600.
func writeFile(path string, b []byte) (err error) {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, "."+filepath.Base(path)+".*") // Born with mode 0600.
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	defer func() {
		if err != nil {
			_ = f.Close()
			_ = os.Remove(f.Name())
			err = fmt.Errorf("write %s: %w", path, err)
		}
	}()
	if _, err := f.Write(b); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	if err := replaceFile(f.Name(), path); err != nil {
		return err
	}
	return syncDir(dir)
}

// removeFile removes the file at path; there being none is no error.
func removeFile(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
