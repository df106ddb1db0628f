package main

import (
	"context"
	"fmt"
	"os"

	"bellman.sh/desktop/build/icon"
)

// drawIcon is the subcommand: it writes the icon, to icon.png when no other
// file is named.
func drawIcon(_ context.Context, t terminal, args []string) error {
	flags := newFlags("icon")
	if err := parseFlags(flags, args, 1); err != nil {
		return err
	}
	path := "icon.png"
	if flags.NArg() == 1 {
		path = flags.Arg(0)
	}
	data, err := icon.Draw()
	if err != nil {
		return err
	}
	if err := os.WriteFile(path, data, 0o644); err != nil { //nolint:gosec // an icon is for everyone to read
		return err
	}
	fmt.Fprintf(t.out, "%s  %d bytes\n", path, len(data))
	return nil
}
