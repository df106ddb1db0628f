package main

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"

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
	if err := goBenchmarks(ctx, t); err != nil {
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

// goBenchmarks runs the benchmarks that stand beside the code and writes their
// results in our form. The area is the name of the package.
func goBenchmarks(ctx context.Context, t terminal) error {
	cmd := exec.CommandContext(ctx, "go", "test", "-run=^$", "-bench=.", "-p=1", "./internal/...", "./server", "./hub")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the benchmarks of the packages: %w\n%s%s", err, out, stderr.Bytes())
	}
	area := ""
	for lines := bufio.NewScanner(bytes.NewReader(out)); lines.Scan(); {
		line := lines.Text()
		if pkg, ok := strings.CutPrefix(line, "pkg: "); ok {
			area = path.Base(pkg)
		}
		for _, result := range translate(line) {
			fmt.Fprintf(t.out, "bench: %s/%s\n", area, result)
		}
	}
	return nil
}

var benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

// translate returns the results in one line of the testing package: "name value
// unit" each, times in a unit people can read.
func translate(line string) []string {
	m := benchmarkLine.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	name := strings.ToLower(regexp.MustCompile(`([a-z0-9])([A-Z])`).ReplaceAllString(m[1], "${1}_$2"))
	fields := strings.Fields(m[2])
	var results []string
	for i := 0; i+1 < len(fields); i += 2 {
		value, unit := fields[i], fields[i+1]
		if ns, err := strconv.ParseFloat(value, 64); err == nil && unit == "ns/op" {
			value, unit = strconv.FormatFloat(ns/1000, 'g', 4, 64), "µs"
			results = append(results, name+" "+value+" "+unit)
			continue
		}
		results = append(results, name+"_"+strings.ReplaceAll(unit, "/", "_per_")+" "+value+" "+unit)
	}
	return results
}
