package tools

import (
	"io/fs"
	"os"
	"path/filepath"
)

// isState reports whether a file is the bridge's own: by its place, under dir
// or the state directory of another profile beside it, or by what it is, a hard
// link to a file in there. Directories are compared as files, because a name
// can be spelled in several ways.
func isState(dir, real string, file fs.FileInfo) bool {
	if dir == "" {
		return false
	}
	for _, d := range stateDirs(dir) {
		if liesUnder(d, real) || holds(d, file) {
			return true
		}
	}
	return false
}

// stateDirs lists dir and the state directories of other profiles beside it.
func stateDirs(dir string) []string {
	dirs := []string{dir}
	beside := filepath.Dir(dir)
	entries, err := os.ReadDir(beside)
	if err != nil {
		return dirs
	}
	for _, e := range entries {
		if _, err := os.Lstat(filepath.Join(beside, e.Name(), "queue.db")); err == nil {
			dirs = append(dirs, filepath.Join(beside, e.Name()))
		}
	}
	return dirs
}

// liesUnder reports whether a name without links lies under dir.
func liesUnder(dir, real string) bool {
	top, err := os.Stat(dir)
	if err != nil {
		return false // there is nothing in it then
	}
	for at := filepath.Dir(real); ; at = filepath.Dir(at) {
		if info, err := os.Stat(at); err == nil && os.SameFile(top, info) {
			return true
		}
		if filepath.Dir(at) == at {
			return false
		}
	}
}

// holds reports whether dir itself has the file under any name. What lies
// deeper in it holds no secret.
func holds(dir string, file fs.FileInfo) bool {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return false
	}
	for _, e := range entries {
		if info, err := e.Info(); err == nil && os.SameFile(info, file) {
			return true
		}
	}
	return false
}
