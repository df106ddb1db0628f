package mcpb

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
)

// maxUnpacked is more than the files of one bundle have together: a host
// refuses one file of this size, and a small archive can claim any.
const maxUnpacked = 512 << 20

// Unpack writes what file holds into dir as an install does, and returns the
// manifest. Dir is made when it is not there. Modes are those the bundle
// stores; a host may drop them, which the launcher copes with. What Read
// refuses is not unpacked, and nothing that is there is overwritten.
func Unpack(file, dir string) (Manifest, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return Manifest{}, fmt.Errorf("open bundle: %w", err)
	}
	m, files, err := Read(data)
	if err != nil {
		return Manifest{}, fmt.Errorf("open bundle %s: %w", file, err)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil { //nolint:gosec // what an install makes, others may read
		return Manifest{}, fmt.Errorf("unpack bundle: %w", err)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return Manifest{}, fmt.Errorf("unpack bundle: %w", err)
	}
	defer root.Close()
	for _, f := range files {
		if err := unpackFile(root, f); err != nil {
			return Manifest{}, fmt.Errorf("unpack %s: %w", f.Name, err)
		}
	}
	return m, nil
}

func unpackFile(root *os.Root, f File) error {
	name := filepath.FromSlash(f.Name)
	if err := root.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	dst, err := root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, f.mode())
	if err != nil {
		return err
	}
	if _, err := dst.Write(f.Data); err != nil {
		return errors.Join(err, dst.Close())
	}
	// The mask of the process may have taken the execute bits away.
	return errors.Join(dst.Chmod(f.mode()), dst.Close())
}

// Read returns the manifest and the files of a bundle, sealed or not, in the
// order they are stored. Only what Pack writes is a bundle: readers differ in
// what they make of two entries with one name, of a link, of headers that
// contradict each other and of bytes that no entry counts, so each of these is
// an error, and so are files of more than 512 MiB together.
func Read(bundle []byte) (Manifest, []File, error) {
	r, err := zip.NewReader(bytes.NewReader(bundle), int64(len(bundle)))
	if err != nil {
		return Manifest{}, nil, fmt.Errorf("read bundle: %w", err)
	}
	var files []File
	room, packedRoom := uint64(maxUnpacked), uint64(len(bundle))
	for _, entry := range r.File {
		if err := checkName(entry.Name); err != nil {
			return Manifest{}, nil, fmt.Errorf("read bundle: %w", err)
		}
		if entry.UncompressedSize64 > room || entry.CompressedSize64 > packedRoom {
			return Manifest{}, nil, fmt.Errorf("read %s: larger than a host accepts", entry.Name)
		}
		room -= entry.UncompressedSize64
		packedRoom -= entry.CompressedSize64
		f, err := readFile(entry)
		if err != nil {
			return Manifest{}, nil, fmt.Errorf("read %s: %w", entry.Name, err)
		}
		files = append(files, f)
	}
	if err := asPacked(bundle, files); err != nil {
		return Manifest{}, nil, fmt.Errorf("read bundle: %w", err)
	}
	i := slices.IndexFunc(files, func(f File) bool { return f.Name == ManifestName })
	if i < 0 {
		return Manifest{}, nil, fmt.Errorf("read bundle: it holds no %s", ManifestName)
	}
	m, err := ParseManifest(files[i].Data)
	if err != nil {
		return Manifest{}, nil, err
	}
	// Readers differ in keys that stand twice or in another case, too.
	if encoded, err := m.Encode(); err != nil || !bytes.Equal(encoded, files[i].Data) {
		return Manifest{}, nil, errors.Join(errors.New("check manifest: it is not written as it is packed"), err)
	}
	return m, files, nil
}

// readFile takes as many bytes as the entry says that it has, and no more.
func readFile(entry *zip.File) (File, error) {
	raw, err := entry.OpenRaw()
	if err != nil {
		return File{}, err
	}
	f := File{Name: entry.Name, Executable: entry.Mode()&0o111 != 0}
	if f.deflated, err = io.ReadAll(raw); err != nil {
		return File{}, err
	}
	src, err := entry.Open()
	if err != nil {
		return File{}, err
	}
	defer src.Close()
	f.Data, err = io.ReadAll(src)
	return f, err
}

// asPacked packs files again, without compressing them again, and compares.
func asPacked(bundle []byte, files []File) error {
	content := bundle
	switch sealed, _, err := Unseal(bundle); {
	case err == nil:
		content = bytes.Clone(sealed)
		binary.LittleEndian.PutUint16(content[len(content)-2:], 0)
	case !errors.Is(err, ErrUnsealed):
		return err
	}
	var again bytes.Buffer
	if err := Pack(&again, files); err != nil {
		return err
	}
	if !bytes.Equal(again.Bytes(), content) {
		return errors.New("its entries and headers are not laid out as a bundle of ours is")
	}
	return nil
}

// mode is what a file has, whatever it had where it came from.
func (f File) mode() fs.FileMode {
	if f.Executable {
		return 0o755
	}
	return 0o644
}
