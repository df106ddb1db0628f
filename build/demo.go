package main

import (
	"context"
	"os"
	"path/filepath"

	"bellman.sh/desktop/build/demo"
	"bellman.sh/desktop/build/target"
)

// runDemo is the subcommand: it builds and packs what ships and shows it doing
// its whole job.
func runDemo(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("demo")
	if err := parseFlags(flags, args, 0); err != nil {
		return err
	}
	if err := bundle(ctx, t, nil); err != nil {
		return err
	}
	if err := compile(ctx, t, []string{"hub"}); err != nil {
		return err
	}
	manifest, err := readManifest()
	if err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "bellman demo ")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	return demo.Run(ctx, demo.Config{
		Bundle:   filepath.Join(outDir, "bellman.mcpb"),
		Hub:      filepath.Join(outDir, "bellman-hub"+target.Host().Extension()),
		Platform: target.Host().Platform(),
		Version:  manifest.Version,
		Work:     work,
		Out:      t.out,
	})
}
