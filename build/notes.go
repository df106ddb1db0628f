package main

import (
	"crypto/sha256"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"

	"bellman.sh/desktop/build/macho"
	"bellman.sh/desktop/build/pe"
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

// notes adds to what the changelog says how each file is signed, and the sums
// by which administrators allow the programs.
func (r *folder) notes(text string, programs map[string]binary) (string, error) {
	var b strings.Builder
	b.WriteString(text)
	b.WriteString("\n### Signatures\n\n`SHA256SUMS` has the sum of every file; `docs/INSTALL.md` in the repository says how to verify it. Signed themselves:\n\n")
	unsigned := true
	for _, name := range slices.Sorted(maps.Keys(r.signed)) {
		if how := r.signed[name]; how != "" {
			unsigned = false
			fmt.Fprintf(&b, "- `%s`: %s\n", name, how)
		}
	}
	if unsigned {
		b.WriteString("- none\n")
	}
	b.WriteString("\n### Sums for allow-rules\n\n| program | kind | sum |\n| --- | --- | --- |\n")
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		rows, err := allowRows(name, programs[name].data)
		if err != nil {
			return "", err
		}
		b.WriteString(rows)
	}
	return b.String(), nil
}

// allowRows are the sums that rules name a program by: of the file everywhere,
// of what Authenticode covers on Windows, of the code directory on macOS.
func allowRows(name string, data []byte) (string, error) {
	var b strings.Builder
	row := func(kind string, sum []byte) { fmt.Fprintf(&b, "| `%s` | %s | `%x` |\n", name, kind, sum) }
	file := sha256.Sum256(data)
	row("SHA-256 of the file", file[:])
	switch {
	case strings.HasSuffix(name, ".exe"):
		sum, err := pe.Digest(data)
		if err != nil {
			return "", err
		}
		row("Authenticode SHA-256", sum[:])
	case strings.HasSuffix(name, "-darwin"):
		slices, err := macho.Slices(data)
		if err != nil {
			return "", err
		}
		for _, s := range slices {
			sum, err := macho.DirectoryHash(s.Data)
			if err != nil {
				return "", err
			}
			row("cdhash, "+s.Arch, sum[:])
		}
	}
	return b.String(), nil
}
