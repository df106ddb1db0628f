//go:build unix

package sqlite

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"
)

// lockFile takes the exclusive lock of the file at path until it is closed.
func lockFile(path string) (*os.File, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = f.Close()
		return nil, fmt.Errorf("%s: %w", path, ErrInUse)
	}
	return f, nil
}
