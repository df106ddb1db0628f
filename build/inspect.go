package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"bellman.sh/desktop/build/macho"
	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/pe"
	"bellman.sh/desktop/build/program"
	"bellman.sh/desktop/build/target"
)

// content checks what a file says about itself: bundles against their
// manifest, programs against their signatures.
func (v *verifier) content(ctx context.Context, path string, data []byte) {
	switch {
	case strings.HasSuffix(path, ".mcpb"):
		v.bundle(ctx, path, data)
	case strings.HasSuffix(path, ".exe"):
		v.windows(ctx, path, data)
	case strings.HasSuffix(path, "-darwin"):
		v.apple(path, data)
	}
}

func (v *verifier) bundle(ctx context.Context, path string, data []byte) {
	manifest, files, err := mcpb.Read(data)
	if !v.check(path+" has a manifest hosts accept", err) {
		return
	}
	v.check(path+" holds all that its manifest starts", complete(manifest, files))
	for _, f := range files {
		switch name := path + ": " + f.Name; filepath.Base(f.Name) {
		case "bellman-bridge.exe":
			v.windows(ctx, name, f.Data)
		case "bellman-bridge-darwin":
			v.apple(name, f.Data)
		}
	}
	v.embedded(ctx, path, data)
}

// complete compares a manifest with what is packed beside it.
func complete(m mcpb.Manifest, files []mcpb.File) error {
	has := func(name string, executable bool) error {
		i := slices.IndexFunc(files, func(f mcpb.File) bool { return f.Name == name })
		if i < 0 {
			return fmt.Errorf("there is no %s", name)
		}
		if executable && !files[i].Executable {
			return fmt.Errorf("%s is not executable", name)
		}
		return nil
	}
	faults := []error{has(m.Icon, false), has(m.Server.EntryPoint, true)}
	for _, platform := range m.Compatibility.Platforms {
		launch, err := mcpb.Resolve(m, mcpb.Host{Dir: ".", Platform: platform})
		if err != nil {
			return err
		}
		for _, text := range append([]string{launch.Command}, launch.Args...) {
			if name, ours := strings.CutPrefix(text, "./"); ours {
				faults = append(faults, has(name, true))
			}
		}
	}
	for _, t := range target.All {
		if !slices.Contains(m.Compatibility.Platforms, t.Platform()) {
			continue
		}
		// A bundle for the machine it was made on holds one of Linux's two.
		if err := has("server/"+t.BundleName(), true); err != nil && (t.OS != "linux" || len(m.Compatibility.Platforms) > 1) {
			faults = append(faults, err)
		}
	}
	return errors.Join(faults...)
}

// apple checks both slices of the program for macOS. It cannot tell who signed
// it: that takes macOS.
func (v *verifier) apple(name string, data []byte) {
	slices, err := macho.Slices(data)
	if !v.check(name+" is a program for macOS", err) {
		return
	}
	seen := map[string]bool{}
	for _, s := range slices {
		seen[s.Arch] = true
		v.check(fmt.Sprintf("%s: the code of %s is as it was signed", name, s.Arch), macho.Verify(s.Data))
	}
	if !seen["amd64"] || !seen["arm64"] {
		v.check(name+" runs on both processors", errors.New("one is missing"))
	}
	v.skip(name+": who signed it", "codesign on macOS tells")
}

func (v *verifier) windows(ctx context.Context, name string, data []byte) {
	signed, err := pe.Signed(data)
	if !v.check(name+" is a program for Windows", err) {
		return
	}
	if !signed {
		v.skip(name+": Authenticode", "it carries no signature")
		return
	}
	dir, err := os.MkdirTemp("", "bellman-verify-")
	if err != nil {
		v.check(name, err)
		return
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, "program.exe")
	if err := os.WriteFile(path, data, 0o600); err != nil {
		v.check(name, err)
		return
	}
	args := []string{"verify", "-in", path}
	if v.ca != "" {
		args = append(args, "-CAfile", v.ca, "-TSA-CAfile", v.ca)
	}
	out, err := exec.CommandContext(ctx, "osslsigncode", args...).CombinedOutput()
	switch {
	case errors.Is(err, exec.ErrNotFound):
		v.skip(name+": Authenticode", "no osslsigncode here")
	case bytes.Contains(out, []byte("Signature verification: ok")):
		v.check(name+": Authenticode", nil)
	case v.ca == "" && matchingDigest(out):
		v.check(name+": the bytes are those that were signed", nil)
		v.skip(name+": who signed it", "name the authorities with --ca")
	default:
		v.check(name+": Authenticode", errors.New("the signature does not hold"))
	}
}

// matchingDigest tells whether osslsigncode found the same digest in the
// signature as over the file.
func matchingDigest(out []byte) bool {
	var current, calculated string
	for line := range strings.Lines(string(out)) {
		if key, value, ok := strings.Cut(line, ":"); ok {
			switch strings.TrimSpace(key) {
			case "Current message digest":
				current = strings.TrimSpace(value)
			case "Calculated message digest":
				calculated = strings.TrimSpace(value)
			}
		}
	}
	return current != "" && current == calculated
}

// embedded checks the signature inside a bundle.
func (v *verifier) embedded(ctx context.Context, path string, data []byte) {
	content, signature, err := mcpb.Unseal(data)
	if errors.Is(err, mcpb.ErrUnsealed) {
		v.skip(path+": signature inside", "it carries none")
		return
	}
	if err != nil {
		v.check(path+": signature inside", err)
		return
	}
	dir, err := os.MkdirTemp("", "bellman-verify-")
	if err != nil {
		v.check(path, err)
		return
	}
	defer os.RemoveAll(dir)
	der := filepath.Join(dir, "signature.der")
	if err := os.WriteFile(der, signature, 0o600); err != nil {
		v.check(path, err)
		return
	}
	args := []string{"cms", "-verify", "-binary", "-inform", "DER", "-in", der, "-content", "/dev/stdin", "-out", os.DevNull, "-purpose", "any"}
	if v.ca == "" {
		args = append(args, "-noverify")
	} else {
		args = append(args, "-CAfile", v.ca)
	}
	_, err = program.Run(ctx, content, "openssl", args...)
	if v.check(path+": the signature inside belongs to these bytes", err) && v.ca == "" {
		v.skip(path+": who made the signature inside", "name the authorities with --ca")
	}
}
