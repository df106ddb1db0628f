package main

import (
	"bytes"
	"io/fs"
	"os"
	"path"

	"bellman.sh/desktop/build/mcpb"
)

// fleetDir holds the templates for administrators.
const fleetDir = "build/fleet"

// fleetArchive returns the templates as a ZIP file, by the packer of the
// bundle because that one is deterministic.
func fleetArchive() ([]byte, error) {
	var files []mcpb.File
	tree := os.DirFS(fleetDir)
	err := fs.WalkDir(tree, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		data, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		files = append(files, mcpb.File{Name: path.Join("bellman-fleet", name), Data: data})
		return nil
	})
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	if err := mcpb.Pack(&b, files); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}
