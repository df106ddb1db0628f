package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"bellman.sh/desktop/build/target"
)

// compile is the subcommand: it builds one program for this machine.
func compile(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("compile")
	out := flags.String("out", outDir, "")
	if err := parseFlags(flags, args, 1); err != nil {
		return err
	}
	packages := map[string]string{"bridge": "./server", "hub": "./hub"}
	name := flags.Arg(0)
	pkg, ok := packages[name]
	if !ok {
		return &usageError{fmt.Sprintf("there is no program %q", name)}
	}
	manifest, err := readManifest()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil { //nolint:gosec // what is built is for everyone to read
		return err
	}
	path := filepath.Join(*out, "bellman-"+name+target.Host().Extension())
	how, err := target.Program{Root: ".", Package: pkg, Version: manifest.Version}.Build(ctx, target.Host(), path)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s  %s, version %s\n", path, how, manifest.Version)
	return nil
}
