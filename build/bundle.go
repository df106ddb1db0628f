package main

import (
	"context"
	"crypto/sha256"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/notices"
	"bellman.sh/desktop/build/target"
	"bellman.sh/desktop/internal/bellman"
)

// outDir is where everything that is built goes, below the root.
const outDir = "build/out"

// bundle is the subcommand: it builds the bridge for the platforms asked for
// and leaves one bundle in the output folder, or nothing when it fails.
func bundle(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("bundle")
	platform := flags.String("platform", "host", "")
	out := flags.String("out", outDir, "")
	source := flags.String("source", "./server", "")
	if err := parseFlags(flags, args, 0); err != nil {
		return err
	}
	targets, name, err := choose(*platform)
	if err != nil {
		return err
	}
	manifest, err := readManifest()
	if err != nil {
		return err
	}
	if err := os.MkdirAll(*out, 0o755); err != nil { //nolint:gosec // what is built is for everyone to read
		return err
	}
	staging, err := os.MkdirTemp(*out, ".staging-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	program := target.Program{Root: ".", Package: *source, Version: manifest.Version}
	binaries, err := buildBridges(ctx, t, program, targets, staging)
	if err != nil {
		return err
	}
	programs, err := deflate(binaries)
	if err != nil {
		return err
	}
	terms, err := writeNotices(ctx, binaries)
	if err != nil {
		return err
	}
	files, err := bundleFiles(manifest, targets, programs, terms)
	if err != nil {
		return err
	}
	path := filepath.Join(*out, name)
	size, sum, err := writeBundle(path, staging, files)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s  %.1f MB  sha256 %x\n", path, float64(size)/1e6, sum)
	return nil
}

// choose returns the targets of a --platform value and the bundle's name.
func choose(platform string) ([]target.Target, string, error) {
	switch platform {
	case "host":
		return []target.Target{target.Host()}, "bellman.mcpb", nil
	case "all":
		return target.All, "bellman.mcpb", nil
	case "darwin", "linux", "windows":
		targets := slices.DeleteFunc(slices.Clone(target.All), func(t target.Target) bool { return t.OS != platform })
		return targets, "bellman-" + platform + ".mcpb", nil
	}
	return nil, "", &usageError{fmt.Sprintf("no platform %q", platform)}
}

// readManifest reads the manifest of the repository, which is also the one
// place where the version stands.
func readManifest() (mcpb.Manifest, error) {
	data, err := os.ReadFile(mcpb.ManifestName)
	if errors.Is(err, os.ErrNotExist) {
		return mcpb.Manifest{}, errors.New("no manifest.json here: run it from the root of the repository")
	}
	if err != nil {
		return mcpb.Manifest{}, err
	}
	m, err := mcpb.ParseManifest(data)
	if err != nil {
		return mcpb.Manifest{}, err
	}
	return m, inStep(m)
}

// inStep compares the tools a manifest promises with those the bridge lists.
func inStep(m mcpb.Manifest) error {
	var promised, listed []string
	for _, tool := range m.Tools {
		if !strings.HasSuffix(tool.Description, ".") || len(tool.Description) > 80 {
			return fmt.Errorf("manifest.json describes %s with %q, which is not one short sentence", tool.Name, tool.Description)
		}
		promised = append(promised, tool.Name)
	}
	for _, tool := range append(bellman.ServiceTools(), bellman.LocalTools()...) {
		listed = append(listed, tool.Name)
	}
	slices.Sort(promised)
	slices.Sort(listed)
	if !slices.Equal(promised, listed) {
		return fmt.Errorf("manifest.json promises %s; the bridge lists %s", strings.Join(promised, " "), strings.Join(listed, " "))
	}
	return nil
}

// deflate returns the files of a bundle's server folder by their names there,
// compressed at the same time as each other.
func deflate(binaries map[string]binary) (map[string]mcpb.File, error) {
	files := map[string]mcpb.File{}
	var (
		wg    sync.WaitGroup
		mu    sync.Mutex
		fault error
	)
	for name, b := range binaries {
		wg.Go(func() {
			f, err := mcpb.File{Name: "server/" + name, Data: b.data, Executable: true}.Deflate()
			mu.Lock()
			defer mu.Unlock()
			files[name] = f
			fault = errors.Join(fault, err)
		})
	}
	wg.Wait()
	return files, fault
}

// writeNotices collects the terms of others for everything in binaries.
func writeNotices(ctx context.Context, binaries map[string]binary) ([]byte, error) {
	var linked [][]byte
	for _, b := range binaries {
		linked = append(linked, b.linked)
	}
	return notices.Write(ctx, ".", linked...)
}

// bundleFiles are the files of a bundle for these targets, given the programs
// by their names in its server folder and the terms of what is in them.
func bundleFiles(m mcpb.Manifest, targets []target.Target, programs map[string]mcpb.File, terms []byte) ([]mcpb.File, error) {
	var platforms []string
	for _, t := range targets {
		if p := t.Platform(); !slices.Contains(platforms, p) {
			platforms = append(platforms, p)
		}
	}
	encoded, err := m.For(platforms, "server/"+targets[0].BundleName()).Encode()
	if err != nil {
		return nil, err
	}
	files := []mcpb.File{{Name: mcpb.ManifestName, Data: encoded}, {Name: notices.Name, Data: terms}}
	for _, t := range targets {
		f := programs[t.BundleName()]
		if !slices.ContainsFunc(files, func(other mcpb.File) bool { return other.Name == f.Name }) {
			files = append(files, f)
		}
	}
	from := map[string]string{"icon.png": "icon.png", "LICENSE": "LICENSE"}
	if slices.ContainsFunc(targets, func(t target.Target) bool { return t.OS != "windows" }) {
		from["server/launch.sh"] = "build/launch.sh"
	}
	for name, path := range from {
		data, err := os.ReadFile(path)
		if err != nil {
			return nil, err
		}
		files = append(files, mcpb.File{Name: name, Data: data, Executable: strings.HasSuffix(name, ".sh")})
	}
	return files, nil
}

// writeBundle packs files into path by way of the staging folder, so that
// path is either whole or not there.
func writeBundle(path, staging string, files []mcpb.File) (size int64, sum []byte, err error) {
	temp := filepath.Join(staging, "bundle")
	f, err := os.Create(temp)
	if err != nil {
		return 0, nil, err
	}
	hash := sha256.New()
	if err := errors.Join(mcpb.Pack(io.MultiWriter(f, hash), files), f.Close()); err != nil {
		return 0, nil, err
	}
	info, err := os.Stat(temp)
	if err != nil {
		return 0, nil, err
	}
	if err := os.Chmod(temp, 0o644); err != nil { //nolint:gosec // a bundle is for everyone to read
		return 0, nil, err
	}
	return info.Size(), hash.Sum(nil), os.Rename(temp, path)
}

func newFlags(name string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	return flags
}

// parseFlags reports anything that does not parse, and more than most
// arguments, as wrong usage.
func parseFlags(flags *flag.FlagSet, args []string, most int) error {
	if err := flags.Parse(args); err != nil {
		return &usageError{err.Error()}
	}
	if flags.NArg() > most {
		return &usageError{fmt.Sprintf("unexpected argument %q", flags.Arg(most))}
	}
	return nil
}
