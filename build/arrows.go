package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
)

const module = "bellman.sh/desktop"

// fenced are the packages whose arrows are broken. None of what they are made
// to import makes a cycle, so that what fails is the rule and not the compiler.
var fenced = []string{
	"internal/bellman", "internal/queue", "internal/oauth", "internal/keychain", "internal/policy",
	"internal/stdio", "internal/remote", "internal/room", "internal/tools", "internal/hub",
	"server", "hub", "build", "build/mcpb",
}

// finding is how the linter reports an import that a rule refuses.
var finding = regexp.MustCompile(`(?m)^(\S+)/arrow\.go:\d+:\d+: import '(\S+)' is not allowed from list`)

// forbidden returns one package of ours and one of others that from must not
// import.
func forbidden(from string) []string {
	ours, others := module+"/internal/hub", "github.com/zalando/go-keyring"
	switch from {
	case "internal/hub":
		ours = module + "/internal/leaf"
	case "internal/keychain":
		others = "golang.org/x/oauth2"
	case "hub":
		ours = module + "/internal/leaf"
	}
	return []string{ours, others}
}

// arrows is the subcommand: it breaks arrows out of every package in a tree of
// its own, under the rules of this one, and makes sure that the linter named
// by the argument refuses each of them.
func arrows(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("arrows")
	if err := parseFlags(flags, args, 1); err != nil {
		return err
	}
	if flags.NArg() == 0 {
		return &usageError{"which linter?"}
	}
	linter, err := filepath.Abs(flags.Arg(0))
	if err != nil {
		return err
	}
	dir, err := os.MkdirTemp("", "bellman-arrows-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := breakAll(dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, linter, "run", "--allow-parallel-runners", "--enable-only=depguard", "./...")
	cmd.Dir = dir
	output, err := cmd.CombinedOutput()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return fmt.Errorf("run the linter: %w", err)
	}
	if let := passed(output); len(let) > 0 {
		return fmt.Errorf("the linter lets %s\n%s", strings.Join(let, ", "), output)
	}
	fmt.Fprintf(t.out, "arrows: the linter refuses every broken one out of %d packages\n", len(fenced))
	return nil
}

// passed returns the broken arrows that the linter's output does not name.
func passed(output []byte) []string {
	refused := map[string]bool{}
	for _, m := range finding.FindAllSubmatch(output, -1) {
		refused[string(m[1])+" "+string(m[2])] = true
	}
	var let []string
	for _, from := range fenced {
		for _, to := range forbidden(from) {
			if !refused[from+" "+to] {
				let = append(let, from+" import "+to)
			}
		}
	}
	return let
}

// breakAll makes a module in dir that has the linter's rules and the broken
// packages, and nothing else.
func breakAll(dir string) error {
	for _, name := range []string{"go.mod", "go.sum", ".golangci.yml"} {
		data, err := os.ReadFile(name)
		if err != nil {
			return err
		}
		if err := writeFile(filepath.Join(dir, name), data); err != nil {
			return err
		}
	}
	for _, from := range fenced {
		if err := breakArrows(dir, from); err != nil {
			return err
		}
	}
	return nil
}

// breakArrows writes package from into dir, nothing but imports it must not
// have, and the packages of ours that it imports.
func breakArrows(dir, from string) error {
	text := []byte("package arrow\n")
	for _, to := range forbidden(from) {
		text = fmt.Appendf(text, "\nimport _ %q\n", to)
		if name, ours := strings.CutPrefix(to, module+"/"); ours {
			if err := writeFile(filepath.Join(dir, filepath.FromSlash(name), "empty.go"), []byte("package arrow\n")); err != nil {
				return err
			}
		}
	}
	return writeFile(filepath.Join(dir, filepath.FromSlash(from), "arrow.go"), text)
}

func writeFile(path string, data []byte) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, data, 0o600)
}
