package main

import (
	"errors"
	"os"
	"path/filepath"
	"runtime"
)

// stateDir is where the state is kept unless the person says otherwise.
func stateDir(getenv func(string) string) (string, error) {
	switch runtime.GOOS {
	case "windows":
		if dir := getenv("LOCALAPPDATA"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "Bellman"), nil
		}
		return "", errors.New("LOCALAPPDATA is not set; set BELLMAN_STATE_DIR")
	case "darwin":
		if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
			return filepath.Join(home, "Library", "Application Support", "Bellman"), nil
		}
		return "", errors.New("the home directory is not known; set BELLMAN_STATE_DIR")
	}
	if dir := getenv("XDG_STATE_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "bellman"), nil
	}
	if home, err := os.UserHomeDir(); err == nil && filepath.IsAbs(home) {
		return filepath.Join(home, ".local", "state", "bellman"), nil
	}
	return "", errors.New("the home directory is not known; set BELLMAN_STATE_DIR")
}
