package main

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/sbom"
	"bellman.sh/desktop/build/sums"
	"bellman.sh/desktop/build/target"
)

// release is the subcommand: everything that is published for one version, in
// a folder that is either whole or not there.
func release(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("release")
	out := flags.String("out", filepath.Join(outDir, "release"), "")
	tag := flags.String("tag", "", "")
	var s signer
	s.flags(flags)
	if err := parseFlags(flags, args, 0); err != nil {
		return err
	}
	if err := s.check(); err != nil {
		return err
	}
	manifest, err := readManifest()
	if err != nil {
		return err
	}
	from, err := readSource(ctx, manifest.Version, *tag)
	if err != nil {
		return err
	}
	text, err := notes("CHANGELOG.md", manifest.Version)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(*out), 0o755); err != nil { //nolint:gosec // what is built is for everyone to read
		return err
	}
	staging, err := os.MkdirTemp(filepath.Dir(*out), ".release-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(staging)
	r := &folder{dir: filepath.Join(staging, "release"), signed: map[string]string{}}
	if err := os.Mkdir(r.dir, 0o755); err != nil { //nolint:gosec // what is built is for everyone to read
		return err
	}
	if err := r.fill(ctx, t, &s, manifest, from, staging, text); err != nil {
		return err
	}
	if err := os.RemoveAll(*out); err != nil {
		return err
	}
	if err := os.Rename(r.dir, *out); err != nil {
		return err
	}
	return r.table(t, *out)
}

// folder is where a release is put together. Signed says by the name of a
// file how it is signed itself.
type folder struct {
	dir    string
	signed map[string]string
}

func (r *folder) add(name string, data []byte, signed string) error {
	r.signed[name] = signed
	return os.WriteFile(filepath.Join(r.dir, name), data, 0o644) //nolint:gosec // a release is for everyone to read
}

func (r *folder) fill(ctx context.Context, t terminal, s *signer, m mcpb.Manifest, from source, staging, text string) error {
	bridge := target.Program{Root: ".", Package: "./server", Version: m.Version}
	bridges, err := buildBridges(ctx, t, bridge, target.All, staging)
	if err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(bridges)) {
		if bridges[name], err = s.program(ctx, t, staging, name, bridges[name]); err != nil {
			return err
		}
	}
	hubs, err := buildHubs(ctx, t, m.Version, staging)
	if err != nil {
		return err
	}
	programs := maps.Clone(bridges)
	maps.Copy(programs, hubs)
	if err := r.addPrograms(programs, from); err != nil {
		return err
	}
	if err := r.addBundles(ctx, t, s, m, staging, bridges); err != nil {
		return err
	}
	templates, err := fleetArchive()
	if err != nil {
		return err
	}
	if err := r.add("bellman-fleet.zip", templates, ""); err != nil {
		return err
	}
	if err := r.add("RELEASE-NOTES.md", []byte(text), ""); err != nil {
		return err
	}
	return r.seal(ctx, t, s, from)
}

// buildHubs compiles the hub for the systems that teams host it on.
func buildHubs(ctx context.Context, t terminal, version, staging string) (map[string]binary, error) {
	hubs := map[string]binary{}
	p := target.Program{Root: ".", Package: "./hub", Version: version}
	for _, goal := range target.All {
		if goal.OS != "linux" {
			continue
		}
		data, err := buildOne(ctx, t, p, goal, staging)
		if err != nil {
			return nil, err
		}
		hubs["bellman-hub-linux-"+goal.Arch] = binary{data: data, linked: data}
	}
	return hubs, nil
}

// addPrograms adds each program with its bill of materials.
func (r *folder) addPrograms(programs map[string]binary, from source) error {
	for _, name := range slices.Sorted(maps.Keys(programs)) {
		b := programs[name]
		bill, err := sbom.Write(sbom.Program{Name: name, Version: from.version, Data: b.data, Linked: b.linked, Built: from.built})
		if err != nil {
			return err
		}
		if err := errors.Join(r.add(name, b.data, b.signed), r.add(name+".cdx.json", bill, "")); err != nil {
			return err
		}
		if err := os.Chmod(filepath.Join(r.dir, name), 0o755); err != nil { //nolint:gosec // it is a program
			return err
		}
	}
	return nil
}

// addBundles adds the bundle for every system and one for each.
func (r *folder) addBundles(ctx context.Context, t terminal, s *signer, m mcpb.Manifest, staging string, bridges map[string]binary) error {
	if s.bundleCert == "" {
		t.say("bundles: no signature inside, for there is no --bundle-cert")
	}
	programs, err := deflate(bridges)
	if err != nil {
		return err
	}
	for _, platform := range []string{"all", "darwin", "linux", "windows"} {
		targets, name, err := choose(platform)
		if err != nil {
			return err
		}
		files, err := bundleFiles(m, targets, programs)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		if err := mcpb.Pack(&packed, files); err != nil {
			return err
		}
		data, signed := packed.Bytes(), ""
		if s.bundleCert != "" {
			if data, err = s.seal(ctx, staging, data); err != nil {
				return err
			}
			signed = "PKCS #7 inside"
		}
		if err := r.add(name, data, signed); err != nil {
			return err
		}
	}
	return nil
}

// seal adds what vouches for the rest: the provenance, the sums of everything
// and the signature over them.
func (r *folder) seal(ctx context.Context, t terminal, s *signer, from source) error {
	list, err := r.sums()
	if err != nil {
		return err
	}
	statement, err := provenance(from, list, compilers(ctx))
	if err != nil {
		return err
	}
	if err := r.add("provenance.intoto.json", statement, ""); err != nil {
		return err
	}
	if list, err = r.sums(); err != nil {
		return err
	}
	if err := r.add(sums.Name, list.Encode(), ""); err != nil {
		return err
	}
	if s.minisignKey == "" {
		t.say("%s: not signed, for there is no --minisign-key", sums.Name)
		return nil
	}
	path := filepath.Join(r.dir, sums.Name)
	if err := s.sums(ctx, path, "bellman "+from.version); err != nil {
		return err
	}
	t.say("%s: signed (minisign)", sums.Name)
	r.signed[sums.Name] = "minisign"
	return nil
}

func (r *folder) sums() (sums.List, error) {
	list := sums.List{}
	for name := range r.signed {
		sum, err := sums.Of(filepath.Join(r.dir, name))
		if err != nil {
			return nil, err
		}
		list[name] = sum
	}
	return list, nil
}

// compilers are the C compilers of the release, as they name themselves.
func compilers(ctx context.Context) []string {
	var list []string
	for _, name := range target.Compilers() {
		out, err := execute(ctx, nil, name, "--version")
		if err != nil {
			continue // the pure Go build has none
		}
		first, _, _ := strings.Cut(string(out), "\n")
		list = append(list, first)
	}
	return list
}

// table shows what is in the release.
func (r *folder) table(t terminal, out string) error {
	fmt.Fprintf(t.out, "%s\n", out)
	for _, name := range slices.Sorted(maps.Keys(r.signed)) {
		path := filepath.Join(out, name)
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		sum, err := sums.Of(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(t.out, "  %-38s %9d  %x  %s\n", name, info.Size(), sum, cmp.Or(r.signed[name], "in the sums"))
	}
	return nil
}
