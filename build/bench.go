package main

import (
	"context"
	"io"
	"os"
	"path/filepath"

	"bellman.sh/desktop/build/bench"
	"bellman.sh/desktop/build/target"
)

// runBench is the subcommand: the benchmarks of the packages, then those of
// whole programs. Its output has one line for each result and nothing else.
func runBench(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("bench")
	if err := parseFlags(flags, args, 0); err != nil {
		return err
	}
	quiet := terminal{io.Discard, t.err}
	if err := bundle(ctx, quiet, nil); err != nil {
		return err
	}
	for _, name := range []string{"bridge", "hub"} {
		if err := compile(ctx, quiet, []string{name}); err != nil {
			return err
		}
	}
	if err := bench.Packages(ctx, ".", t.out, "./internal/...", "./server", "./hub"); err != nil {
		return err
	}
	work, err := os.MkdirTemp("", "bellman-bench-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(work)
	remote, err := filepath.Abs(".cache/npm/node_modules/.bin/mcp-remote")
	if err != nil {
		return err
	}
	if _, err := os.Stat(remote); err != nil {
		t.say("no mcp-remote to compare with (make tools)")
		remote = ""
	}
	ext := target.Host().Extension()
	return bench.Run(ctx, bench.Config{
		Bridge: filepath.Join(outDir, "bellman-bridge"+ext), Hub: filepath.Join(outDir, "bellman-hub"+ext),
		Bundle: filepath.Join(outDir, "bellman.mcpb"), Remote: remote, Work: work, Out: t.out,
	})
}
