package main

import (
	"fmt"
	"os"
)

// makeDir makes the profile's state directory, for this person alone.
func makeDir(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make state directory: %w", err)
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // a directory needs its execute bit
		return fmt.Errorf("close state directory to others: %w", err)
	}
	return nil
}
