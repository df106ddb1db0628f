package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// checkLaunch shows how this program was started and what lies on its file.
func checkLaunch(c *checkup) {
	if self, err := os.Executable(); err != nil {
		c.bad("program", "install it again", "its file is not known: %v", err)
	} else if info, err := os.Stat(self); err != nil {
		c.bad("program", "install it again", "%v", err)
	} else {
		c.fine("program", "%s, mode %v, %d bytes", self, info.Mode().Perm(), info.Size())
		checkQuarantine(c, self)
	}
	c.fine("started as", "%s, by process %d", shape(os.Args), os.Getppid())
	if cwd, err := os.Getwd(); err != nil {
		c.fine("started in", "a folder that is gone")
	} else {
		c.fine("started in", "%s", cwd)
	}
	c.fine("environment", "%s", strings.Join(telling(os.Environ()), " "))
}

func checkQuarantine(c *checkup, self string) {
	if mark := quarantine(self); mark != "" {
		c.bad("quarantine", fmt.Sprintf("xattr -dr com.apple.quarantine %q", filepath.Dir(self)), "macOS holds the program back: %s", mark)
	}
}

// shape returns a command line without the values in it, some of which are
// secret.
func shape(args []string) string {
	var words []string
	for i, arg := range args {
		name, _, valued := strings.Cut(arg, "=")
		switch {
		case i == 0:
			words = append(words, filepath.Base(arg))
		case strings.HasPrefix(arg, "-") && valued:
			words = append(words, name+"=…")
		case strings.HasPrefix(arg, "-") || slices.Contains(commands, arg):
			words = append(words, arg)
		default:
			words = append(words, "…")
		}
	}
	return strings.Join(words, " ")
}

// telling returns the names of the variables that can explain how the bridge
// behaves, sorted; never a value.
func telling(environ []string) []string {
	var names []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		upper := strings.ToUpper(name)
		if slices.ContainsFunc([]string{"BELLMAN_", "SSL_CERT_", "XDG_", "DBUS_", "ELECTRON_", "CLAUDE_"},
			func(prefix string) bool { return strings.HasPrefix(upper, prefix) }) ||
			strings.HasSuffix(upper, "_PROXY") ||
			slices.Contains([]string{"HOME", "USERPROFILE", "APPDATA", "LOCALAPPDATA", "DISPLAY", "WAYLAND_DISPLAY", "BROWSER", "GODEBUG", "TMPDIR"}, upper) {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}
