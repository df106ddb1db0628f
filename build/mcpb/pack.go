package mcpb

import (
	"archive/zip"
	"bytes"
	"cmp"
	"compress/flate"
	"fmt"
	"hash/crc32"
	"io"
	"path"
	"slices"
	"strings"
	"time"
)

// File is one file of a bundle. Only Executable decides its mode: 0755 or
// 0644, whatever it had where it came from.
type File struct {
	Name       string
	Data       []byte
	Executable bool

	deflated []byte // nil until Deflate
}

// Deflate returns f with its data compressed, which Pack otherwise does: it
// pays for a file that goes into more than one bundle.
func (f File) Deflate() (File, error) {
	var body bytes.Buffer
	w, err := flate.NewWriter(&body, flate.BestCompression)
	if err != nil {
		return File{}, err
	}
	if _, err := w.Write(f.Data); err != nil {
		return File{}, err
	}
	if err := w.Close(); err != nil {
		return File{}, err
	}
	f.deflated = body.Bytes()
	return f, nil
}

// packed is the time every entry carries, the first a ZIP file can express.
var packed = time.Date(1980, time.January, 1, 0, 0, 0, 0, time.UTC)

// Pack writes files as a bundle. The same files give the same bytes: names
// are sorted, the time is fixed, modes are ours with their type bits, and
// sizes stand in the local headers, which some hosts need. A name that a host
// would refuse is an error. See bundle.md 1.4.
func Pack(w io.Writer, files []File) error {
	files = slices.Clone(files)
	slices.SortFunc(files, func(a, b File) int { return cmp.Compare(a.Name, b.Name) })
	zw := zip.NewWriter(w)
	for i, f := range files {
		if err := checkName(f.Name); err != nil {
			return fmt.Errorf("pack bundle: %w", err)
		}
		if i > 0 && f.Name == files[i-1].Name {
			return fmt.Errorf("pack bundle: %s is there twice", f.Name)
		}
		if err := packFile(zw, f); err != nil {
			return fmt.Errorf("pack %s: %w", f.Name, err)
		}
	}
	if err := zw.Close(); err != nil {
		return fmt.Errorf("pack bundle: %w", err)
	}
	return nil
}

func packFile(zw *zip.Writer, f File) error {
	if f.deflated == nil {
		var err error
		if f, err = f.Deflate(); err != nil {
			return err
		}
	}
	header := &zip.FileHeader{
		Name:               f.Name,
		Method:             zip.Deflate,
		CRC32:              crc32.ChecksumIEEE(f.Data),
		CompressedSize64:   uint64(len(f.deflated)),
		UncompressedSize64: uint64(len(f.Data)),
	}
	header.SetModTime(packed) //nolint:staticcheck // a raw entry takes its time from the fields this sets
	header.SetMode(f.mode())
	header.CreatorVersion |= 20
	header.ReaderVersion = 20
	entry, err := zw.CreateRaw(header)
	if err != nil {
		return err
	}
	_, err = entry.Write(f.deflated)
	return err
}

// checkName refuses names that leave the folder or that a host is known to
// refuse: two dots anywhere, a backslash, anything but plain ASCII.
func checkName(name string) error {
	if name == "" || path.Clean(name) != name || path.IsAbs(name) || strings.Contains(name, "..") {
		return fmt.Errorf("name %q does not stay in the bundle", name)
	}
	for _, r := range name {
		if r <= ' ' || r > '~' || strings.ContainsRune(`\:*?"<>|`, r) {
			return fmt.Errorf("name %q holds %q", name, r)
		}
	}
	return nil
}
