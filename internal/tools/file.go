package tools

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
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
// a symbolic link, not the bridge's own state, and of at most maxUpload bytes.
// Nothing but a regular file is ever opened, opening never blocks, and what was
// checked is what is read: the open goes through os.Root and the descriptor is
// compared with the name. See bridge.md 6.
func openUpload(p UploadPolicy, state, path string) (f *os.File, size int64, err error) {
	if p.Refusal != "" {
		return nil, 0, errors.New(p.Refusal)
	}
	if runtime.GOOS == "windows" && namesDevice(path) {
		return nil, 0, fmt.Errorf("%s is no name of a file", path)
	}
	at, err := resolveUpload(p.Root, path)
	if err != nil {
		return nil, 0, err
	}
	dir, err := os.OpenRoot(at.root)
	if err != nil {
		return nil, 0, fmt.Errorf("the upload root %s could not be opened: %w", p.Root, cause(err))
	}
	defer func() { _ = dir.Close() }()
	f, err = dir.OpenFile(at.rel, os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, 0, fmt.Errorf("%s could not be read: %w", path, cause(err))
	}
	size, err = checkUpload(f, at.named, path)
	if err == nil && isState(state, at.real, at.named) {
		err = fmt.Errorf("%s belongs to the bridge itself and is never uploaded", path)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, size, nil
}

// location is where a path leads: the file as its name shows it, its name without
// links, and the same relative to the root without links.
type location struct {
	named           fs.FileInfo
	real, root, rel string
}

// resolveUpload follows links in the directories of root and path and requires
// the one to lie under the other.
func resolveUpload(root, path string) (at location, err error) {
	full := path
	if !filepath.IsAbs(full) {
		full = filepath.Join(root, full)
	}
	if root == "/" { // any file; where file systems have letters, on any of them
		root = filepath.VolumeName(full) + string(filepath.Separator)
	}
	if at.root, err = filepath.EvalSymlinks(root); err != nil {
		return at, fmt.Errorf("the upload root %s does not exist or cannot be opened: %w", root, cause(err))
	}
	if at.named, err = os.Lstat(full); err != nil {
		return at, fmt.Errorf("%s could not be read: %w", path, cause(err))
	}
	switch {
	case at.named.Mode()&fs.ModeSymlink != 0:
		return at, fmt.Errorf("%s is a symbolic link; name the file itself", path)
	case !at.named.Mode().IsRegular():
		return at, fmt.Errorf("%s is not a regular file", path)
	}
	if at.real, err = filepath.EvalSymlinks(full); err != nil {
		return at, fmt.Errorf("%s could not be read: %w", path, cause(err))
	}
	at.rel, err = filepath.Rel(at.root, at.real)
	if err != nil || !filepath.IsLocal(at.rel) {
		return at, fmt.Errorf("%s is outside the upload root %s", path, root)
	}
	return at, nil
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

// cause leaves out the path that a PathError repeats, and the full stop that
// some systems end their sentences with.
func cause(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		err = p.Err
	}
	return errors.New(strings.TrimSuffix(err.Error(), "."))
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
