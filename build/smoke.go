package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"bellman.sh/desktop/build/host"
	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/target"
)

// smokeLimit is how long a packed bridge has for the whole conversation. It is
// generous because a fresh machine scans what it has never run before.
const smokeLimit = time.Minute

// smoke is the subcommand: it unpacks a bundle as badly as hosts are known to,
// starts it on this machine and asks for its tools. It needs no network.
func smoke(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("smoke")
	if err := parseFlags(flags, args, 1); err != nil {
		return err
	}
	path := filepath.Join(outDir, "bellman.mcpb")
	if flags.NArg() == 1 {
		path = flags.Arg(0)
	}
	temp, err := os.MkdirTemp("", "bellman smoke ")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	manifest, launch, err := unpackBadly(path, filepath.Join(temp, "Claude Extensions"))
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, smokeLimit)
	defer cancel()
	served, err := listTools(ctx, launch, temp)
	if err != nil {
		return fmt.Errorf("start %s: %w", path, err)
	}
	var promised []string
	for _, tool := range manifest.Tools {
		promised = append(promised, tool.Name)
	}
	slices.Sort(promised)
	slices.Sort(served)
	if !slices.Equal(promised, served) {
		return fmt.Errorf("the bridge serves %s; the manifest promises %s", strings.Join(served, " "), strings.Join(promised, " "))
	}
	fmt.Fprintf(t.out, "%s starts on %s and serves its %d tools\n", path, target.Host(), len(served))
	return nil
}

// unpackBadly unpacks a bundle, takes every mode away and resolves what this
// machine's host would start.
func unpackBadly(path, dir string) (mcpb.Manifest, mcpb.Launch, error) {
	manifest, err := mcpb.Unpack(path, dir)
	if err != nil {
		return mcpb.Manifest{}, mcpb.Launch{}, err
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return mcpb.Manifest{}, mcpb.Launch{}, err
	}
	defer root.Close()
	err = fs.WalkDir(root.FS(), ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		return root.Chmod(name, 0o600)
	})
	if err != nil {
		return mcpb.Manifest{}, mcpb.Launch{}, err
	}
	launch, err := mcpb.Resolve(manifest, mcpb.Host{Dir: dir, Platform: target.Host().Platform()})
	return manifest, launch, err
}

// listTools starts a bridge, asks for its tools, closes its input and waits
// for it to leave by itself.
func listTools(ctx context.Context, launch mcpb.Launch, temp string) ([]string, error) {
	launch.Env["BELLMAN_STATE_DIR"] = filepath.Join(temp, "state")
	launch.Env["BELLMAN_CREDENTIAL_STORE"] = "memory"
	launch.Env["BELLMAN_URL"] = "http://127.0.0.1:9/mcp"
	server, err := host.Start(ctx, launch, os.Environ())
	if err != nil {
		return nil, err
	}
	var names []string
	if err = server.Initialize(); err == nil {
		names, err = server.Tools()
	}
	return names, errors.Join(err, server.Leave())
}
