package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// roomFileName is where a project keeps the manifest of its room, relative to
// the directory the bridge was started in.
const roomFileName = ".bellman/room.yaml"

// maxRoomFile is the largest room file read, in bytes.
const maxRoomFile = 64 << 10

// roomFileExists reports whether dir has something by the name of a room file,
// readable or not.
func roomFileExists(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(roomFileName)))
	return err == nil
}

// readRoomFile returns the manifest in dir's room file as JSON, nil when there
// is none. Opening never blocks, and neither the file nor its directory may be
// a link: a project from elsewhere must not choose what is read here. Errors
// name the file and stand for themselves. See bridge.md 7.
func readRoomFile(dir string) (json.RawMessage, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("%s could not be read: %w", roomFileName, cause(err))
	}
	defer func() { _ = root.Close() }()
	named, err := lookAtRoomFile(root)
	if err != nil || named == nil {
		return nil, err
	}
	f, err := root.OpenFile(filepath.FromSlash(roomFileName), os.O_RDONLY|nonblock, 0)
	if err != nil {
		return nil, fmt.Errorf("%s could not be read: %w", roomFileName, cause(err))
	}
	defer func() { _ = f.Close() }()
	opened, err := f.Stat()
	if err != nil || !os.SameFile(named, opened) {
		return nil, fmt.Errorf("%s changed while it was opened; try again", roomFileName)
	}
	text, err := io.ReadAll(io.LimitReader(f, maxRoomFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("%s could not be read: %w", roomFileName, cause(err))
	case len(text) > maxRoomFile:
		return nil, fmt.Errorf("%s is too large: at most %d bytes", roomFileName, maxRoomFile)
	}
	manifest, err := yamlMapping(text)
	if err != nil {
		return nil, fmt.Errorf("%s %w", roomFileName, err)
	}
	return manifest, nil
}

// lookAtRoomFile returns the file by its name, nil when there is none.
func lookAtRoomFile(root *os.Root) (fs.FileInfo, error) {
	dir, err := root.Lstat(".bellman")
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // no file and no error: there is none
	case err != nil:
		return nil, fmt.Errorf("%s could not be read: %w", roomFileName, cause(err))
	case dir.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is not read: .bellman is a symbolic link", roomFileName)
	case !dir.IsDir():
		return nil, nil //nolint:nilnil // a file of that name is no directory of ours
	}
	named, err := root.Lstat(filepath.FromSlash(roomFileName))
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil //nolint:nilnil // as above
	case err != nil:
		return nil, fmt.Errorf("%s could not be read: %w", roomFileName, cause(err))
	case named.Mode()&fs.ModeSymlink != 0:
		return nil, fmt.Errorf("%s is a symbolic link", roomFileName)
	case !named.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file", roomFileName)
	}
	return named, nil
}

// withRoomFile gives a bellman_start without a manifest the one in the room
// file. Params pass on as they are when there is a manifest, no file, or
// nothing to read them by.
func (b *Bridge) withRoomFile(params json.RawMessage) (json.RawMessage, error) {
	if b.cfg.RoomDir == "" {
		return params, nil
	}
	p, args, err := arguments(params)
	if err != nil || args.get("manifest") != nil {
		return params, nil //nolint:nilerr // the service words its own refusal of such params
	}
	manifest, err := readRoomFile(b.cfg.RoomDir)
	if err != nil || manifest == nil {
		return params, err
	}
	b.cfg.Log.Info("a room is started from a file", "file", roomFileName)
	args.set("manifest", manifest)
	p.set("arguments", args.raw())
	return p.raw(), nil
}
