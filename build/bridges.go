package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bellman.sh/desktop/build/macho"
	"bellman.sh/desktop/build/pe"
	"bellman.sh/desktop/build/signer"
	"bellman.sh/desktop/build/target"
)

// binary is a program that was built: the bytes that ship, and those the
// linker left, which tell what is inside.
type binary struct {
	data, linked []byte
	signed       string // how, for people; empty when it is not
}

// buildBridges compiles p for each target by way of the staging folder and
// returns the programs by the name a bundle gives them: the slices of darwin
// signed ad hoc and joined, the one for Windows with its version inside.
func buildBridges(ctx context.Context, t terminal, p target.Program, targets []target.Target, staging string) (map[string]binary, error) {
	for _, goal := range targets { // before anything is compiled
		if goal == target.Host() {
			continue // it can do without
		}
		if err := goal.Ready(); err != nil {
			return nil, err
		}
	}
	binaries := map[string]binary{}
	var slices [][]byte
	for _, goal := range targets {
		linked, err := buildOne(ctx, t, p, goal, staging)
		if err != nil {
			return nil, err
		}
		b := binary{data: linked, linked: linked}
		switch goal.OS {
		case "darwin":
			slice, err := macho.Sign(linked, signer.Identifier)
			if err != nil {
				return nil, err
			}
			slices = append(slices, slice)
			if b.data, err = macho.Universal(slices...); err != nil {
				return nil, fmt.Errorf("join the binaries for darwin: %w", err)
			}
			b.signed = "Mach-O, ad hoc"
		case "windows":
			if b.data, err = pe.Stamp(linked, windowsInfo(p.Version)); err != nil {
				return nil, err
			}
		}
		binaries[goal.BundleName()] = b
	}
	return binaries, nil
}

// buildOne compiles p for one target and returns what the linker left.
func buildOne(ctx context.Context, t terminal, p target.Program, goal target.Target, staging string) ([]byte, error) {
	out := filepath.Join(staging, strings.ReplaceAll(goal.String(), "/", "-"))
	how, err := p.Build(ctx, goal, out)
	if err != nil {
		return nil, err
	}
	data, err := os.ReadFile(out)
	if err != nil {
		return nil, fmt.Errorf("read what was built for %s: %w", goal, err)
	}
	t.say("built %s for %s: %s, %.1f MB", p.Package, goal, how, float64(len(data))/1e6)
	return data, os.Remove(out)
}

// windowsInfo is what Windows shows about the bridge.
func windowsInfo(version string) pe.Info {
	return pe.Info{
		Version:     version,
		File:        "bellman-bridge.exe",
		Product:     "Bellman for Claude Desktop",
		Description: "Bellman bridge",
		Company:     "Bellman",
		Copyright:   "Copyright © 2026 Bellman",
	}
}
