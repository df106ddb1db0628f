package main

import (
	"fmt"
	"os"
	"strings"
)

// notes returns what the changelog says about a version. A version without a
// section, or with nothing in it, is an error: nobody learns of a release
// that does not say what it brings.
func notes(changelog, version string) (string, error) {
	text, err := os.ReadFile(changelog)
	if err != nil {
		return "", err
	}
	_, section, found := strings.Cut("\n"+string(text), "\n## ["+version+"]")
	if !found {
		return "", fmt.Errorf("%s has no section for %s", changelog, version)
	}
	_, section, _ = strings.Cut(section, "\n") // the date
	section, _, _ = strings.Cut(section, "\n## ")
	for line := range strings.Lines(section) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") && !strings.HasPrefix(line, "[") {
			return strings.TrimSpace(section) + "\n", nil
		}
	}
	return "", fmt.Errorf("%s says nothing about %s", changelog, version)
}
