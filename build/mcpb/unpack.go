package mcpb

import (
	"archive/zip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// maxUnpacked is the size of one file above which a host refuses a bundle.
const maxUnpacked = 512 << 20

// Unpack writes what file holds into dir as an install does, and returns the
// manifest. Dir is made when it is not there. Modes are those the bundle
// stores; a host may drop them, which the launcher copes with. A name that
// leaves dir, a link and a file that is too large are errors.
func Unpack(file, dir string) (Manifest, error) {
	r, err := zip.OpenReader(file)
	if err != nil {
		return Manifest{}, fmt.Errorf("open bundle %s: %w", file, err)
	}
	defer r.Close()
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what an install makes, others may read
		return Manifest{}, fmt.Errorf("unpack bundle: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, fmt.Errorf("unpack bundle: %w", err)
	}
	defer root.Close()
	for _, f := range r.File {
		if err := unpackFile(root, f); err != nil {
			return Manifest{}, fmt.Errorf("unpack %s: %w", f.Name, err)
		}
	}
	data, err := root.ReadFile(ManifestName)
	if err != nil {
		return Manifest{}, fmt.Errorf("unpack bundle: %w", err)
	}
	return ParseManifest(data)
}

func unpackFile(root *os.Root, f *zip.File) (err error) {
	if err := checkName(f.Name); err != nil {
		return err
	}
	if !f.Mode().IsRegular() {
		return fmt.Errorf("mode %s is not that of a file", f.Mode())
	}
	if f.UncompressedSize64 > maxUnpacked {
		return errors.New("larger than a host accepts")
	}
	src, err := f.Open()
	if err != nil {
		return err
	}
	defer src.Close()
	name := filepath.FromSlash(f.Name)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	dst, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.Mode().Perm())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, dst.Close()) }()
	if _, err := io.Copy(dst, io.LimitReader(src, maxUnpacked)); err != nil {
		return err
	}
	// The mask of the process may have taken the execute bits away.
	return dst.Chmod(f.Mode().Perm())
}

// Read returns the files of a bundle in the order they are stored, and the
// manifest.
func Read(file string) (Manifest, []File, error) {
	r, err := zip.OpenReader(file)
	if err != nil {
		return Manifest{}, nil, fmt.Errorf("open bundle %s: %w", file, err)
	}
	defer r.Close()
	var files []File
	for _, f := range r.File {
		if err := checkName(f.Name); err != nil {
			return Manifest{}, nil, err
		}
		data, err := fs.ReadFile(r, f.Name)
		if err != nil {
			return Manifest{}, nil, fmt.Errorf("read %s: %w", f.Name, err)
		}
		files = append(files, File{Name: f.Name, Data: data, Executable: f.Mode()&0o111 != 0})
	}
	for _, f := range files {
		if f.Name == ManifestName {
			m, err := ParseManifest(f.Data)
			return m, files, err
		}
	}
	return Manifest{}, nil, fmt.Errorf("bundle %s holds no %s", file, ManifestName)
}
