package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// maxUpload is the largest file the service takes, in bytes.
const maxUpload = 26_214_400

// UploadPolicy says what bellman_upload may read. Refusal, when set, refuses
// everything with these words. Otherwise Root is an absolute directory, the
// only place files are read from; "/" means any file.
type UploadPolicy struct {
	Root    string
	Refusal string
}

// openUpload opens the file at path for reading and returns it with its size.
// It is refused unless it is a regular file under the policy's root, not itself
// a symbolic link, not under forbidden, and of at most maxUpload bytes. Opening
// never blocks, not even on a FIFO, and what was checked is what is read: the
// open goes through os.Root and the descriptor is compared with the name.
// See bridge.md 6.
func openUpload(p UploadPolicy, forbidden, path string) (f *os.File, size int64, err error) {
	if p.Refusal != "" {
		return nil, 0, errors.New(p.Refusal)
	}
	named, rel, root, err := resolveUpload(p.Root, forbidden, path)
	if err != nil {
		return nil, 0, err
	}
	dir, err := os.OpenRoot(root)
	if err != nil {
		return nil, 0, fmt.Errorf("the upload root %s could not be opened: %w", p.Root, cause(err))
	}
	defer func() { _ = dir.Close() }()
	f, err = dir.OpenFile(rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("%s could not be read: %w", path, cause(err))
	}
	size, err = checkUpload(f, named, path)
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

// resolveUpload follows links in the directories of root and path and requires
// the one to lie under the other. named is path as the name itself shows it.
func resolveUpload(root, forbidden, path string) (named fs.FileInfo, rel, realRoot string, err error) {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(root, full)
	}
	if realRoot, err = filepath.EvalSymlinks(root); err != nil {
		return nil, "", "", fmt.Errorf("the upload root %s does not exist or cannot be opened: %w", root, cause(err))
	}
	if named, err = os.Lstat(full); err != nil {
		return nil, "", "", fmt.Errorf("%s could not be read: %w", path, cause(err))
	}
	if named.Mode()&fs.ModeSymlink != 0 {
		return nil, "", "", fmt.Errorf("%s is a symbolic link; name the file itself", path)
	}
	real, err := filepath.EvalSymlinks(full)
	if err != nil {
		return nil, "", "", fmt.Errorf("%s could not be read: %w", path, cause(err))
	}
	if within(forbidden, real) {
		return nil, "", "", fmt.Errorf("%s belongs to the bridge itself and is never uploaded", path)
	}
	rel, err = filepath.Rel(realRoot, real)
	if err != nil || !filepath.IsLocal(rel) {
		return nil, "", "", fmt.Errorf("%s is outside the upload root %s", path, root)
	}
	return named, rel, realRoot, nil
}

// within reports whether path is dir or lies under it.
func within(dir, path string) bool {
	if dir == "" {
		return false
	}
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	rel, err := filepath.Rel(dir, path)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}

func checkUpload(f *os.File, named fs.FileInfo, path string) (int64, error) {
	opened, err := f.Stat()
	switch {
	case err != nil:
		return 0, fmt.Errorf("%s could not be read: %w", path, cause(err))
	case !opened.Mode().IsRegular():
		return 0, fmt.Errorf("%s is not a regular file", path)
	case !os.SameFile(named, opened):
		return 0, fmt.Errorf("%s changed while it was opened; try again", path)
	case opened.Size() > maxUpload:
		return 0, fmt.Errorf("%s has %d bytes; a file may have at most %d", path, opened.Size(), maxUpload)
	}
	return opened.Size(), nil
}

// cause leaves out the path that a PathError repeats.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}

var mediaTypes = map[string]string{
	".png": "image/png", ".jpg": "image/jpeg", ".jpeg": "image/jpeg", ".gif": "image/gif", ".webp": "image/webp",
	".svg": "image/svg+xml", ".md": "text/markdown", ".txt": "text/plain", ".csv": "text/csv",
	".json": "application/json", ".yaml": "application/yaml", ".yml": "application/yaml",
	".html": "text/html", ".htm": "text/html", ".pdf": "application/pdf",
}

// mediaType is the claimed type of a file, from its last extension.
func mediaType(name string) string {
	if t, ok := mediaTypes[strings.ToLower(filepath.Ext(name))]; ok {
		return t
	}
	return "application/octet-stream"
}

func defaultKind(mediaType string) string {
	switch mediaType {
	case "image/png", "image/jpeg", "image/gif", "image/webp":
		return "image"
	}
	return "file"
}
