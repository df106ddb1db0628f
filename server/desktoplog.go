package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
)

const (
	logTail  = 256 << 10 // how much of a log is looked at
	warnings = 5
	logLine  = 400
)

// trouble is a line in which the bridge warned, in a log that also holds what
// the host says.
var trouble = regexp.MustCompile(`\[bellman\] level=(?:WARN|ERROR) .*`)

// checkLog shows what running bridges last warned of. Claude Desktop keeps
// what they say; they keep no log of their own.
func checkLog(c *checkup, getenv func(string) string) {
	dir, err := desktopLogs(runtime.GOOS, getenv)
	if err != nil {
		c.fine("last error", "Claude Desktop's logs are not found: %v", err)
		return
	}
	var seen bool
	for _, path := range filesIn(dir, "mcp-server-*.log") {
		lines, err := lastWarnings(path)
		if err != nil {
			c.fine("last error", "%v", err)
			continue
		}
		for _, line := range lines {
			seen = true
			c.fine("last error", "%s", line)
		}
	}
	if !seen {
		c.fine("last error", "none in %s", dir)
	}
}

// lastWarnings returns the last lines of a log in which the bridge warned.
func lastWarnings(path string) ([]string, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil {
		return nil, err
	} else if at := info.Size() - logTail; at > 0 {
		if _, err := f.Seek(at, io.SeekStart); err != nil {
			return nil, err
		}
	}
	tail, err := io.ReadAll(io.LimitReader(f, logTail))
	if err != nil {
		return nil, fmt.Errorf("read %s: %w", path, err)
	}
	lines := trouble.FindAllString(string(tail), -1)
	lines = slices.Compact(lines)
	lines = lines[max(0, len(lines)-warnings):]
	for i, line := range lines {
		lines[i] = strings.ToValidUTF8(line[:min(len(line), logLine)], "")
	}
	return lines, nil
}

// desktopLogs is where Claude Desktop keeps the logs of its servers on a
// system.
func desktopLogs(system string, getenv func(string) string) (string, error) {
	switch system {
	case "windows":
		if dir := filepath.Join(getenv("LOCALAPPDATA"), "Claude", "logs"); exists(dir) {
			return dir, nil
		}
	case "darwin":
		home, err := os.UserHomeDir()
		return filepath.Join(home, "Library", "Logs", "Claude"), err
	}
	dir, err := desktopFolder(system, getenv)
	return filepath.Join(dir, "logs"), err
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return !errors.Is(err, fs.ErrNotExist)
}
