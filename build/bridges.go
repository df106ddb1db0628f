package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"bellman.sh/desktop/build/macho"
	"bellman.sh/desktop/build/pe"
	"bellman.sh/desktop/build/target"
)

// identifier is the name under which the bridge is signed.
const identifier = "sh.bellman.desktop.bridge"

// buildBridges compiles p for each target by way of the staging folder and
// returns the binaries by the name a bundle gives them: the slices of darwin
// signed and joined, the one for Windows with its version inside.
func buildBridges(ctx context.Context, t terminal, p target.Program, targets []target.Target, staging string) (map[string][]byte, error) {
	binaries := map[string][]byte{}
	var slices [][]byte
	for _, goal := range targets {
		out := filepath.Join(staging, strings.ReplaceAll(goal.String(), "/", "-"))
		how, err := p.Build(ctx, goal, out)
		if err != nil {
			return nil, err
		}
		data, err := os.ReadFile(out)
		if err != nil {
			return nil, fmt.Errorf("read what was built for %s: %w", goal, err)
		}
		t.say("built the bridge for %s: %s, %.1f MB", goal, how, float64(len(data))/1e6)
		switch goal.OS {
		case "darwin":
			if data, err = macho.Sign(data, identifier); err != nil {
				return nil, err
			}
			slices = append(slices, data)
			continue
		case "windows":
			if data, err = pe.Stamp(data, windowsInfo(p.Version)); err != nil {
				return nil, err
			}
		}
		binaries[goal.BundleName()] = data
	}
	if len(slices) > 0 {
		universal, err := macho.Universal(slices...)
		if err != nil {
			return nil, fmt.Errorf("join the binaries for darwin: %w", err)
		}
		binaries["bellman-bridge-darwin"] = universal
	}
	return binaries, nil
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
