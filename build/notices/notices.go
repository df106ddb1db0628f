// Package notices collects what the licences of others ask us to pass on with
// the programs that hold their work.
package notices

import (
	"bytes"
	"context"
	"debug/buildinfo"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// Name is what the file with the notices is called.
const Name = "THIRD-PARTY-NOTICES.txt"

const head = `Bellman for Claude Desktop holds work of others, under the terms below.

The programs for Linux also hold parts of the GNU C Library, under the GNU
Lesser General Public License, version 2.1 or later: its source is Debian's
package glibc, and https://bellman.sh/desktop builds these programs again with
another version of it. Those for Windows hold parts of mingw-w64 and, under the
GCC Runtime Library Exception, of libgcc. SQLite is in the public domain.
`

// texts are files at the root of a module that a person must see.
var texts = regexp.MustCompile(`(?i)^(licen[cs]e|copying|copyright|notice|patents)([-.].*)?$`)

// Write returns the notices for programs as the linker left them, built from
// the module in folder root: Go's own and those of every module inside any of
// them. The same programs give the same bytes. A module without a licence is
// an error: it must not ship.
func Write(ctx context.Context, root string, programs ...[]byte) ([]byte, error) {
	modules := map[string]bool{}
	for _, data := range programs {
		info, err := buildinfo.Read(bytes.NewReader(data))
		if err != nil {
			return nil, fmt.Errorf("write notices: what a program is made of: %w", err)
		}
		for _, m := range info.Deps {
			if m.Replace != nil {
				m = m.Replace
			}
			modules[m.Path] = true
		}
	}
	goRoot, err := goCommand(ctx, root, "env", "GOROOT")
	if err != nil {
		return nil, fmt.Errorf("write notices: %w", err)
	}
	b := bytes.NewBufferString(head)
	if err := add(b, "Go", filepath.Join(strings.TrimSpace(goRoot), "LICENSE")); err != nil {
		return nil, fmt.Errorf("write notices: %w", err)
	}
	if len(modules) == 0 {
		return b.Bytes(), nil
	}
	names := slices.Sorted(maps.Keys(modules))
	listed, err := goCommand(ctx, root, append([]string{"list", "-mod=readonly", "-m", "-f", "{{.Path}}\t{{.Version}}\t{{.Dir}}"}, names...)...)
	if err != nil {
		return nil, fmt.Errorf("write notices: %w", err)
	}
	for line := range strings.Lines(listed) {
		fields := strings.Split(strings.TrimSpace(line), "\t")
		if len(fields) != 3 {
			return nil, fmt.Errorf("write notices: the source of %s is not here (go mod download)", fields[0])
		}
		if err := addModule(b, fields[0]+" "+fields[1], fields[2]); err != nil {
			return nil, fmt.Errorf("write notices: %w", err)
		}
	}
	return b.Bytes(), nil
}

func addModule(b *bytes.Buffer, title, dir string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return err
	}
	var paths []string
	for _, e := range entries {
		if texts.MatchString(e.Name()) && e.Type().IsRegular() {
			paths = append(paths, filepath.Join(dir, e.Name()))
		}
	}
	if len(paths) == 0 {
		return fmt.Errorf("%s has no licence", title)
	}
	return add(b, title, paths...)
}

func add(b *bytes.Buffer, title string, paths ...string) error {
	fmt.Fprintf(b, "\n%s\n%s\n", strings.Repeat("=", 78), title)
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(b, "\n%s\n", bytes.TrimSpace(bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))))
	}
	return nil
}

func goCommand(ctx context.Context, dir string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = dir
	out, err := cmd.Output()
	if failed, ok := errors.AsType[*exec.ExitError](err); ok {
		return "", fmt.Errorf("run go %s: %w: %s", args[0], err, bytes.TrimSpace(failed.Stderr))
	}
	return string(out), err
}
