package mcpb_test

import (
	"archive/zip"
	"bytes"
	"encoding/binary"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"bellman.sh/desktop/build/mcpb"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// encoded returns the manifest of the repository as it is packed.
func encoded(t *testing.T) []byte {
	t.Helper()
	m, err := mcpb.ParseManifest(manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// manifest returns the manifest of the repository as text.
func manifest(t *testing.T) []byte {
	t.Helper()
	data, err := os.ReadFile("../../manifest.json")
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func sample(t *testing.T) []mcpb.File {
	t.Helper()
	return []mcpb.File{
		{Name: "server/bellman-bridge-linux-amd64", Data: bytes.Repeat([]byte("bridge "), 40_000), Executable: true},
		{Name: "manifest.json", Data: encoded(t)},
		{Name: "icon.png", Data: []byte{0x89, 'P', 'N', 'G'}},
		{Name: "server/launch.sh", Data: []byte("#!/bin/sh\n"), Executable: true},
		{Name: "LICENSE", Data: nil},
	}
}

func pack(t *testing.T, files []mcpb.File) []byte {
	t.Helper()
	var b bytes.Buffer
	if err := mcpb.Pack(&b, files); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

func packTo(t *testing.T, files []mcpb.File) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "a.mcpb")
	if err := os.WriteFile(path, pack(t, files), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// The same files give the same bytes, in whatever order they come.
func TestPackIsDeterministic(t *testing.T) {
	want := pack(t, sample(t))
	for range 10 {
		files := sample(t)
		rand.Shuffle(len(files), func(i, j int) { files[i], files[j] = files[j], files[i] })
		if got := pack(t, files); !bytes.Equal(got, want) {
			t.Fatal("another order of the same files gave other bytes")
		}
	}
}

// Hosts refuse entries whose local header lacks the sizes, read the execute
// bit from the upper half of the attributes, and want the archive to end with
// its end record.
func TestPackedHeadersAreWhatHostsRead(t *testing.T) {
	data := pack(t, sample(t))
	r, err := zip.NewReader(bytes.NewReader(data), int64(len(data)))
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range r.File {
		names = append(names, f.Name)
		wantMode := uint32(syscall.S_IFREG | 0o644)
		if strings.HasPrefix(f.Name, "server/") {
			wantMode = syscall.S_IFREG | 0o755
		}
		if got := f.ExternalAttrs >> 16; got != wantMode {
			t.Errorf("%s: mode %o, want %o", f.Name, got, wantMode)
		}
		if creator := f.CreatorVersion >> 8; creator != 3 {
			t.Errorf("%s: creator %d, want 3 (Unix)", f.Name, creator)
		}
		if f.Flags != 0 || len(f.Extra) != 0 {
			t.Errorf("%s: flags %#x and %d bytes extra, want none", f.Name, f.Flags, len(f.Extra))
		}
		offset, err := f.DataOffset()
		if err != nil {
			t.Fatal(err)
		}
		local := data[offset-int64(len(f.Name))-30:]
		if compressed, size := binary.LittleEndian.Uint32(local[18:]), binary.LittleEndian.Uint32(local[22:]); uint64(compressed) != f.CompressedSize64 || uint64(size) != f.UncompressedSize64 {
			t.Errorf("%s: local header says %d and %d, want %d and %d", f.Name, compressed, size, f.CompressedSize64, f.UncompressedSize64)
		}
	}
	if !slices.IsSorted(names) {
		t.Errorf("names are not sorted: %v", names)
	}
	if end := data[len(data)-22:]; binary.LittleEndian.Uint32(end) != 0x06054b50 || binary.LittleEndian.Uint16(end[20:]) != 0 {
		t.Error("the file does not end with an end record without comment")
	}
}

func TestPackRefusesNamesHostsRefuse(t *testing.T) {
	for _, name := range []string{"", "/etc/passwd", "../x", "server/../../x", "x..js", `server\x`, "C:x", "a b", "é", "server/", "./x", "a//b", "x\n"} {
		if err := mcpb.Pack(&bytes.Buffer{}, []mcpb.File{{Name: name}}); err == nil {
			t.Errorf("name %q was packed", name)
		}
	}
	twice := []mcpb.File{{Name: "a"}, {Name: "b"}, {Name: "a"}}
	if err := mcpb.Pack(&bytes.Buffer{}, twice); err == nil {
		t.Error("a name was packed twice")
	}
}

// Whatever mask the process has, what comes out of a bundle has the modes and
// the bytes that went in.
func TestUnpackGivesBackWhatWasPacked(t *testing.T) {
	files := sample(t)
	dir := filepath.Join(t.TempDir(), "Claude Extensions", "bellmän")
	old := syscall.Umask(0o077)
	m, err := mcpb.Unpack(packTo(t, files), dir)
	syscall.Umask(old)
	if err != nil {
		t.Fatal(err)
	}
	if m.Name != "bellman" {
		t.Errorf("manifest is of %q", m.Name)
	}
	for _, f := range files {
		path := filepath.Join(dir, filepath.FromSlash(f.Name))
		got, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(got, f.Data) {
			t.Errorf("%s: other bytes came out", f.Name)
		}
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		want := fs.FileMode(0o644)
		if f.Executable {
			want = 0o755
		}
		if info.Mode() != want {
			t.Errorf("%s: mode %v, want %v", f.Name, info.Mode(), want)
		}
	}
	read, back, err := mcpb.Read(pack(t, files))
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(files, func(a, b mcpb.File) int { return strings.Compare(a.Name, b.Name) })
	for i := range back { // no bytes and none at all are the same file
		back[i].Data = append([]byte{}, back[i].Data...)
		files[i].Data = append([]byte{}, files[i].Data...)
	}
	if diff := cmp.Diff(files, back, cmpopts.IgnoreUnexported(mcpb.File{})); diff != "" {
		t.Errorf("files (-packed +read):\n%s", diff)
	}
	if diff := cmp.Diff(m, read); diff != "" {
		t.Errorf("manifest (-unpacked +read):\n%s", diff)
	}
}

// A bundle made by somebody else writes nothing outside its folder.
func TestUnpackStaysInItsFolder(t *testing.T) {
	for name, make := range map[string]func(zw *zip.Writer) error{
		"parent": func(zw *zip.Writer) error { _, err := zw.Create("../outside"); return err },
		"root":   func(zw *zip.Writer) error { _, err := zw.Create("/tmp/outside"); return err },
		"link": func(zw *zip.Writer) error {
			h := &zip.FileHeader{Name: "server"}
			h.SetMode(fs.ModeSymlink | 0o777)
			w, err := zw.CreateHeader(h)
			if err == nil {
				_, err = w.Write([]byte(".."))
			}
			return err
		},
		"folder": func(zw *zip.Writer) error { _, err := zw.Create("server/"); return err },
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			zw := zip.NewWriter(&b)
			if err := make(zw); err != nil {
				t.Fatal(err)
			}
			w, err := zw.Create(mcpb.ManifestName) // all else about it is right
			if err == nil {
				_, err = w.Write(manifest(t))
			}
			if err != nil {
				t.Fatal(err)
			}
			if err := zw.Close(); err != nil {
				t.Fatal(err)
			}
			base := t.TempDir()
			path := filepath.Join(base, "a.mcpb")
			if err := os.WriteFile(path, b.Bytes(), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := mcpb.Unpack(path, filepath.Join(base, "in")); err == nil {
				t.Error("it was unpacked")
			}
			if _, err := os.Lstat(filepath.Join(base, "outside")); err == nil {
				t.Error("something was written outside")
			}
		})
	}
}

func TestUnpackNeverOverwrites(t *testing.T) {
	path, dir := packTo(t, sample(t)), t.TempDir()
	if _, err := mcpb.Unpack(path, dir); err != nil {
		t.Fatal(err)
	}
	if _, err := mcpb.Unpack(path, dir); err == nil {
		t.Error("unpacking over what is there went through")
	}
}

func FuzzUnpack(f *testing.F) {
	var b bytes.Buffer
	if err := mcpb.Pack(&b, []mcpb.File{{Name: "manifest.json", Data: []byte("{}")}}); err != nil {
		f.Fatal(err)
	}
	f.Add(b.Bytes())
	f.Fuzz(func(t *testing.T, data []byte) {
		base := t.TempDir()
		path := filepath.Join(base, "a.mcpb")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = mcpb.Unpack(path, filepath.Join(base, "in"))
		entries, err := os.ReadDir(base)
		if err != nil {
			t.Fatal(err)
		}
		if len(entries) > 2 {
			t.Errorf("something stands beside the folder: %v", entries)
		}
	})
}
