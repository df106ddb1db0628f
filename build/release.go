package main

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"bellman.sh/desktop/build/budget"
	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/notices"
	"bellman.sh/desktop/build/program"
	"bellman.sh/desktop/build/sbom"
	"bellman.sh/desktop/build/signer"
	"bellman.sh/desktop/build/sums"
	"bellman.sh/desktop/build/target"
)

// release is the subcommand: everything that is published for one version, in
// a folder that is either whole or not there.
func release(ctx context.Context, t terminal, args []string) error {
	flags := newFlags("release")
	out := flags.String("out", filepath.Join(outDir, "release"), "")
	tag := flags.String("tag", "", "")
	s := &signer.Signer{Say: t.say}
	s.Flags(flags)
	if err := parseFlags(flags, args, 0); err != nil {
		return err
	}
	if err := ready(s); err != nil {
		return err
	}
	if err := replaceable(*out); err != nil {
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
	if err := r.fill(ctx, t, s, manifest, from, staging, text); err != nil {
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

// ready finds what would fail later: flags, files, programs and compilers that
// are missing. A release is never pure Go for want of a compiler.
func ready(s *signer.Signer) error {
	err := s.Check()
	if misuse, ok := errors.AsType[*signer.MisuseError](err); ok {
		return &usageError{misuse.Error()}
	}
	for _, goal := range target.All {
		err = errors.Join(err, goal.Ready())
	}
	return err
}

// replaceable refuses to take the place of a folder that is no release: what
// is in it would be gone.
func replaceable(out string) error {
	entries, err := os.ReadDir(out)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if len(entries) > 0 && !slices.ContainsFunc(entries, func(e os.DirEntry) bool { return e.Name() == sums.Name }) {
		return fmt.Errorf("%s holds something else than a release; name another folder with --out", out)
	}
	return nil
}

// folder is where a release is put together. Signed says by the name of a
// file how it is signed itself.
type folder struct {
	dir    string
	signed map[string]string
}

func (r *folder) add(name string, data []byte, signed string) error {
	if err := budget.Check(name, data); err != nil {
		return err
	}
	r.signed[name] = signed
	return os.WriteFile(filepath.Join(r.dir, name), data, 0o644) //nolint:gosec // a release is for everyone to read
}

func (r *folder) fill(ctx context.Context, t terminal, s *signer.Signer, m mcpb.Manifest, from source, staging, text string) error {
	bridge := target.Program{Root: ".", Package: "./server", Version: m.Version}
	bridges, err := buildBridges(ctx, t, bridge, target.All, staging)
	if err != nil {
		return err
	}
	if err := signPrograms(ctx, s, staging, bridges); err != nil {
		return err
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
	terms, err := writeNotices(ctx, programs)
	if err != nil {
		return err
	}
	if err := r.add(notices.Name, terms, ""); err != nil {
		return err
	}
	if err := r.addBundles(ctx, s, m, staging, bridges, terms); err != nil {
		return err
	}
	templates, err := fleetArchive()
	if err != nil {
		return err
	}
	if err := r.add("bellman-fleet.zip", templates, ""); err != nil {
		return err
	}
	text, err = r.notes(text, programs)
	if err != nil {
		return err
	}
	if err := r.add("RELEASE-NOTES.md", []byte(text), ""); err != nil {
		return err
	}
	return r.seal(ctx, s, from)
}

// signPrograms signs the bridges of the systems that check signatures.
func signPrograms(ctx context.Context, s *signer.Signer, staging string, bridges map[string]binary) (err error) {
	for name, sign := range map[string]func(ctx context.Context, dir, name string, data []byte) ([]byte, string, error){
		"bellman-bridge.exe": s.Windows, "bellman-bridge-darwin": s.Apple,
	} {
		b := bridges[name]
		if b.data, b.signed, err = sign(ctx, staging, name, b.data); err != nil {
			return err
		}
		bridges[name] = b
	}
	return nil
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
func (r *folder) addBundles(ctx context.Context, s *signer.Signer, m mcpb.Manifest, staging string, bridges map[string]binary, terms []byte) error {
	s.SayBundles()
	programs, err := deflate(bridges)
	if err != nil {
		return err
	}
	for _, platform := range []string{"all", "darwin", "linux", "windows"} {
		targets, name, err := choose(platform)
		if err != nil {
			return err
		}
		files, err := bundleFiles(m, targets, programs, terms)
		if err != nil {
			return err
		}
		var packed bytes.Buffer
		if err := mcpb.Pack(&packed, files); err != nil {
			return err
		}
		data, signed, err := s.Bundle(ctx, staging, packed.Bytes())
		if err != nil {
			return err
		}
		if err := r.add(name, data, signed); err != nil {
			return err
		}
	}
	return nil
}

// seal adds what vouches for the rest: the provenance, the sums of everything
// and the signature over them.
func (r *folder) seal(ctx context.Context, s *signer.Signer, from source) error {
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
	kinds, err := s.Sums(ctx, filepath.Join(r.dir, sums.Name), "bellman "+from.version)
	if err != nil {
		return err
	}
	r.signed[sums.Name] = strings.Join(kinds, ", ")
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
		out, err := program.Run(ctx, nil, name, "--version")
		if err != nil {
			continue // the pure Go build has none
		}
		first, _, _ := strings.Cut(string(out), "\n")
		list = append(list, first)
	}
	return list
}

// table shows what is in the release, and how far somebody else can trust it.
func (r *folder) table(t terminal, out string) error {
	entries, err := os.ReadDir(out)
	if err != nil {
		return err
	}
	fmt.Fprintf(t.out, "%s\n  %-38s %9s  %-64s  %s\n", out, "name", "size", "sha256", "signed")
	for _, e := range entries {
		data, err := os.ReadFile(filepath.Join(out, e.Name()))
		if err != nil {
			return err
		}
		how := cmp.Or(r.signed[e.Name()], "by the sums")
		switch {
		case strings.HasPrefix(e.Name(), sums.Name+"."):
			how = "(a signature)"
		case r.signed[sums.Name] == "" && r.signed[e.Name()] == "":
			how = "no"
		}
		fmt.Fprintf(t.out, "  %-38s %9d  %x  %s\n", e.Name(), len(data), sha256.Sum256(data), how)
	}
	if r.signed[sums.Name] == "" {
		fmt.Fprintf(t.out, "NOT SIGNED: nobody can tell who made this, for no key was named; docs/RELEASE.md says how\n")
	}
	return nil
}
