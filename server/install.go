package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"time"
)

// entryName is the bridge's name among Claude Desktop's servers.
const entryName = "bellman"

// desktopEntry is one server in Claude Desktop's configuration.
type desktopEntry struct {
	Command string            `json:"command"`
	Args    []string          `json:"args,omitempty"`
	Env     map[string]string `json:"env,omitempty"`
}

// desktopFolder is where Claude Desktop keeps its configuration on a system. On
// Windows the app from the store sees a folder of its own in that place.
func desktopFolder(system string, getenv func(string) string) (string, error) {
	switch system {
	case "windows":
		own := filesIn(getenv("LOCALAPPDATA"), "Packages/Claude_*/LocalCache/Roaming/Claude")
		if len(own) == 1 {
			return own[0], nil
		}
		if dir := getenv("APPDATA"); filepath.IsAbs(dir) {
			return filepath.Join(dir, "Claude"), nil
		}
		return "", errors.New("APPDATA is not set")
	case "darwin":
		home, err := os.UserHomeDir()
		return filepath.Join(home, "Library", "Application Support", "Claude"), err
	}
	if dir := getenv("XDG_CONFIG_HOME"); filepath.IsAbs(dir) {
		return filepath.Join(dir, "Claude"), nil
	}
	home, err := os.UserHomeDir()
	return filepath.Join(home, ".config", "Claude"), err
}

// install writes the bridge into Claude Desktop's configuration, for people who
// cannot use the bundle. What was given as a flag is kept for the bridge; the
// rest of the file stays, and so does a copy of it as it was.
func install(f flagValues, getenv func(string) string, s streams) error {
	if _, ok := f.given["BELLMAN_KEY"]; ok {
		return hinted{errors.New("a key is not written into a file that others may read"), "set BELLMAN_KEY in the environment of Claude Desktop instead"}
	}
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	entry := desktopEntry{Command: self, Args: []string{"--profile", desktopProfile}, Env: map[string]string{}}
	for env, value := range f.given {
		if env == "BELLMAN_PROFILE" {
			entry.Args[1] = value
			continue
		}
		entry.Env[env] = value
	}
	return editDesktopConfig(f.dryRun, getenv, s, "Claude Desktop starts "+self+" from its next launch on.",
		func(servers object, i int, margin string) ([]byte, error) {
			return servers.put(i, entryName, entry, margin)
		})
}

// uninstall takes the entry out again. The state is kept.
func uninstall(f flagValues, getenv func(string) string, s streams) error {
	return editDesktopConfig(f.dryRun, getenv, s,
		"Claude Desktop no longer starts the bridge after its next launch. Rooms and waiting events are kept.",
		func(servers object, i int, _ string) ([]byte, error) {
			if i < 0 {
				return nil, errNotInstalled
			}
			return servers.remove(i), nil
		})
}

var errNotInstalled = hinted{errors.New("no entry for the bridge in Claude Desktop's configuration"), "an installed bundle is removed in Claude Desktop's settings"}

// editDesktopConfig changes the servers in the file: in one step, with a copy
// of the old file beside it, or not at all. Edit gets the servers, the place of
// the bridge's entry, -1 when there is none, and the margin of the servers.
func editDesktopConfig(dryRun bool, getenv func(string) string, s streams, done string, edit func(servers object, i int, margin string) ([]byte, error)) error {
	dir, err := desktopFolder(runtime.GOOS, getenv)
	if err != nil {
		return fmt.Errorf("find Claude Desktop's configuration: %w", err)
	}
	path := filepath.Join(dir, "claude_desktop_config.json")
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read Claude Desktop's configuration: %w", err)
	}
	text, err := editServers(path, old, edit)
	if err != nil {
		return err
	}
	if dryRun {
		fmt.Fprintf(s.out, "%s would become:\n%s\n", path, bytes.TrimSpace(text))
		return nil
	}
	if bytes.Equal(old, text) {
		fmt.Fprintf(s.out, "%s says so already; nothing was changed.\n", path)
		return nil
	}
	if err := replaceFile(path, old, text); err != nil {
		return err
	}
	fmt.Fprintf(s.out, "%s was changed.\n%s\n", path, done)
	return nil
}

// editServers returns the text of the file with other servers in it.
func editServers(path string, old []byte, edit func(servers object, i int, margin string) ([]byte, error)) ([]byte, error) {
	refused := func(format string, args ...any) error {
		return hinted{fmt.Errorf(format, args...), "nothing was changed; mend or remove the file"}
	}
	text := old
	if len(bytes.TrimSpace(old)) == 0 {
		text = []byte("{}\n")
	}
	file, err := parseObject(text)
	if err != nil {
		return nil, refused("%s is not a JSON object: %w", path, err)
	}
	const key = "mcpServers"
	at, err := file.find(key)
	if err != nil {
		return nil, refused("%s: %w", path, err)
	}
	raw, margin := []byte("{}"), "\n  "
	if at >= 0 {
		margin = file.margin(at)
		if v := file.value(at); string(v) != "null" {
			raw = v
		}
	} else if n := len(file.members); n > 0 {
		margin = file.margin(n - 1)
	}
	servers, err := parseObject(raw)
	if err != nil {
		return nil, refused("%s in %s is not an object", key, path)
	}
	i, err := servers.find(entryName)
	if err != nil {
		return nil, refused("%s in %s: %w", key, path, err)
	}
	edited, err := edit(servers, i, margin)
	if err != nil {
		return nil, err
	}
	text, err = file.put(at, key, json.RawMessage(edited), "\n")
	if err == nil && len(file.members) == 0 {
		text = append(text, '\n')
	}
	return text, err
}

// replaceFile writes path in one step and keeps what was there. A link stays a
// link, and the file keeps its mode.
func replaceFile(path string, old, text []byte) error {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		path = real
	}
	dir, name := filepath.Split(path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("make folder of %s: %w", path, err)
	}
	mode := fs.FileMode(0o600)
	if old != nil {
		info, err := os.Stat(path)
		if err != nil {
			return fmt.Errorf("keep a copy: %w", err)
		}
		mode = info.Mode().Perm()
		backup := name + ".before-bellman-" + time.Now().UTC().Format("20060102T150405") + "-*"
		if _, err := writeNew(dir, backup, old, mode); err != nil {
			return fmt.Errorf("keep a copy: %w", err)
		}
	}
	fresh, err := writeNew(dir, ".bellman-*.tmp", text, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	if err := os.Rename(fresh, path); err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(fresh))
	}
	return nil
}

// writeNew writes a file that was not there before, down to the disk, and
// returns its path. Nothing is left of one that could not be written whole.
func writeNew(dir, pattern string, text []byte, mode fs.FileMode) (string, error) {
	f, err := os.CreateTemp(dir, pattern)
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	if err == nil {
		err = errors.Join(f.Chmod(mode), f.Sync())
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return "", errors.Join(err, os.Remove(f.Name()))
	}
	return f.Name(), nil
}
