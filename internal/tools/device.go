package tools

import (
	"slices"
	"strings"
)

// namesDevice reports whether Windows reads the path as a device, or as a
// stream beside a file's content, rather than as a file: "NUL", "COM1.txt",
// "a.txt:hidden". What it knows does not depend on the system it runs on.
func namesDevice(path string) bool {
	path = strings.ReplaceAll(path, "/", `\`)
	for _, prefix := range []string{`\\.\`, `\\?\`, `\??\`} {
		if strings.HasPrefix(path, prefix) {
			return true
		}
	}
	if len(path) > 1 && path[1] == ':' { // the letter of a drive
		path = path[2:]
	}
	return strings.Contains(path, ":") || slices.ContainsFunc(strings.Split(path, `\`), isDevice)
}

// isDevice reports whether a name without directories is a device's. What
// follows a dot does not make it a file's, nor do spaces before that.
func isDevice(name string) bool {
	name, _, _ = strings.Cut(name, ".")
	name = strings.ToUpper(strings.TrimRight(name, " "))
	switch name {
	case "CON", "PRN", "AUX", "NUL", "CONIN$", "CONOUT$":
		return true
	}
	port, ok := strings.CutPrefix(name, "COM")
	if !ok {
		port, ok = strings.CutPrefix(name, "LPT")
	}
	return ok && slices.Contains([]string{"0", "1", "2", "3", "4", "5", "6", "7", "8", "9", "¹", "²", "³"}, port)
}
