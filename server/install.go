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
		own, _ := filepath.Glob(filepath.Join(getenv("LOCALAPPDATA"), "Packages", "Claude_*", "LocalCache", "Roaming", "Claude")) // the pattern is well formed
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
	entry := desktopEntry{Command: self, Args: []string{"--profile", "claude-desktop"}, Env: map[string]string{}}
	for env, value := range f.given {
		if env == "BELLMAN_PROFILE" {
			entry.Args[1] = value
			continue
		}
		entry.Env[env] = value
	}
	return editDesktopConfig(f.dryRun, getenv, s, func(servers map[string]json.RawMessage) (string, error) {
		raw, err := json.Marshal(entry)
		servers[entryName] = raw
		return "Claude Desktop starts " + self + " from its next launch on.", err
	})
}

// uninstall takes the entry out again. The state is kept.
func uninstall(f flagValues, getenv func(string) string, s streams) error {
	return editDesktopConfig(f.dryRun, getenv, s, func(servers map[string]json.RawMessage) (string, error) {
		if _, ok := servers[entryName]; !ok {
			return "", errNotInstalled
		}
		delete(servers, entryName)
		return "Claude Desktop no longer starts the bridge after its next launch. Rooms and waiting events are kept.", nil
	})
}

var errNotInstalled = hinted{errors.New("no entry for the bridge in Claude Desktop's configuration"), "an installed bundle is removed in Claude Desktop's settings"}

// editDesktopConfig changes the servers in the file: in one step, with a copy
// of the old file beside it, or not at all.
func editDesktopConfig(dryRun bool, getenv func(string) string, s streams, edit func(map[string]json.RawMessage) (string, error)) error {
	dir, err := desktopFolder(runtime.GOOS, getenv)
	if err != nil {
		return fmt.Errorf("find Claude Desktop's configuration: %w", err)
	}
	path := filepath.Join(dir, "claude_desktop_config.json")
	old, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read Claude Desktop's configuration: %w", err)
	}
	config, servers := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	if len(old) > 0 {
		if err := json.Unmarshal(old, &config); err != nil {
			return hinted{fmt.Errorf("%s is not a JSON object: %w", path, err), "nothing was changed; mend or remove the file"}
		}
	}
	if raw, ok := config["mcpServers"]; ok {
		if err := json.Unmarshal(raw, &servers); err != nil {
			return hinted{fmt.Errorf("mcpServers in %s is not an object", path), "nothing was changed; mend or remove the file"}
		}
	}
	done, err := edit(servers)
	if err != nil {
		return err
	}
	if config["mcpServers"], err = json.Marshal(servers); err != nil {
		return fmt.Errorf("write servers: %w", err)
	}
	text, err := json.MarshalIndent(config, "", "  ")
	if err != nil {
		return fmt.Errorf("write configuration: %w", err)
	}
	if dryRun {
		fmt.Fprintf(s.out, "%s would become:\n%s\n", path, text)
		return nil
	}
	text = append(text, '\n')
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
