package main_test

import (
	"archive/zip"
	"bytes"
	"debug/elf"
	debugpe "debug/pe"
	"image/png"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/build/macho"

	"github.com/google/go-cmp/cmp"
)

// Two builds in two folders give the same bytes, cross-built programs
// included.
func TestSameSourceGivesTheSameBundle(t *testing.T) {
	needs(t, "aarch64-linux-gnu-gcc", "x86_64-w64-mingw32-gcc")
	var bundles [][]byte
	for range 2 {
		root := filepath.Join(t.TempDir(), "bellman")
		if err := os.CopyFS(root, os.DirFS("../build/macho/testdata/empty")); err != nil {
			t.Fatal(err)
		}
		for _, name := range []string{"go.mod", "manifest.json", "icon.png", "LICENSE", "build/launch.sh"} {
			copyFile(t, filepath.Join("..", name), filepath.Join(root, name))
		}
		if _, stderr, code := buildIn(t, root, "bundle", "--platform", "all", "--source", "."); code != 0 {
			t.Fatalf("exit %d\n%s", code, stderr)
		}
		data, err := os.ReadFile(filepath.Join(root, "build/out/bellman.mcpb"))
		if err != nil {
			t.Fatal(err)
		}
		bundles = append(bundles, data)
	}
	if !bytes.Equal(bundles[0], bundles[1]) {
		t.Error("the two differ")
	}
}

func copyFile(t *testing.T, from, to string) {
	t.Helper()
	data, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, data, 0o600); err != nil {
		t.Fatal(err)
	}
}

// "Invalid comment length", "Unrecognized key", icon not shown: the official
// tool takes the bundle, and four readers of ZIP files that have nothing in
// common see the same files in it.
func TestEveryReaderOpensTheBundle(t *testing.T) {
	path := everything(t)
	packages := npm(t)
	official := filepath.Join(packages, "node_modules", ".bin", "mcpb")
	dir := filepath.Join(t.TempDir(), "öffi ciell")
	for _, args := range [][]string{{"info", path}, {"unpack", path, dir}, {"validate", filepath.Join(dir, "manifest.json")}} {
		if out, err := exec.CommandContext(t.Context(), official, args...).CombinedOutput(); err != nil {
			t.Errorf("mcpb %v: %v\n%s", args, err, out)
		}
	}
	want := names(t, path)
	if got := tree(t, dir); !slices.Equal(want, got) {
		t.Errorf("mcpb unpacked %v, want %v", got, want)
	}
	for name, args := range map[string][]string{
		"unzip":   {"unzip", "-Z1", path},
		"python3": {"python3", "-c", "import sys, zipfile; z = zipfile.ZipFile(sys.argv[1]); assert z.testzip() is None; print('\\n'.join(z.namelist()))", path},
		"yauzl":   {"node", "-e", yauzl, path},
	} {
		t.Run(name, func(t *testing.T) {
			needs(t, args[0])
			cmd := exec.CommandContext(t.Context(), args[0], args[1:]...)
			cmd.Dir = packages
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s", err, out)
			}
			if got := strings.Fields(string(out)); !slices.Equal(want, got) {
				t.Errorf("it sees %v, want %v", got, want)
			}
		})
	}
}

// yauzl reads as strictly as the host does: it checks sizes and sums.
const yauzl = `
require("yauzl").open(process.argv[1], { lazyEntries: true, strictFileNames: true }, (err, zip) => {
  if (err) throw err;
  zip.on("entry", (e) => {
    console.log(e.fileName);
    zip.openReadStream(e, (err, s) => {
      if (err) throw err;
      s.on("end", () => zip.readEntry());
      s.resume();
    });
  });
  zip.on("error", (err) => { throw err; });
  zip.readEntry();
});`

func names(t *testing.T, path string) []string {
	t.Helper()
	r, err := zip.OpenReader(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	var list []string
	for _, f := range r.File {
		list = append(list, f.Name)
	}
	return list
}

func tree(t *testing.T, dir string) []string {
	t.Helper()
	var list []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(name string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			list = append(list, name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(list)
	return list
}

// "Bad CPU type in executable", silent death under quarantine, scanners that
// remove what has no name: each program in the bundle is what its system
// wants.
func TestProgramsAreWhatTheirSystemsWant(t *testing.T) {
	dir, _ := install(t)
	programs := map[string][]byte{}
	for _, name := range tree(t, filepath.Join(dir, "server")) {
		data, err := os.ReadFile(filepath.Join(dir, "server", name))
		if err != nil {
			t.Fatal(err)
		}
		programs[name] = data
	}
	slices, err := macho.Slices(programs["bellman-bridge-darwin"])
	if err != nil {
		t.Fatal(err)
	}
	var arches []string
	for _, s := range slices {
		arches = append(arches, s.Arch)
		if err := macho.Verify(s.Data); err != nil {
			t.Errorf("darwin/%s: %v", s.Arch, err)
		}
	}
	if diff := cmp.Diff([]string{"amd64", "arm64"}, arches); diff != "" {
		t.Errorf("processors of darwin (-want +got):\n%s", diff)
	}
	for name, machine := range map[string]elf.Machine{"bellman-bridge-linux-amd64": elf.EM_X86_64, "bellman-bridge-linux-arm64": elf.EM_AARCH64} {
		f, err := elf.NewFile(bytes.NewReader(programs[name]))
		if err != nil {
			t.Fatal(err)
		}
		if f.Machine != machine {
			t.Errorf("%s is for %v", name, f.Machine)
		}
		if libraries, err := f.ImportedLibraries(); err == nil && len(libraries) > 0 {
			t.Errorf("%s is not static: it wants %v", name, libraries)
		}
	}
	f, err := debugpe.NewFile(bytes.NewReader(programs["bellman-bridge.exe"]))
	if err != nil {
		t.Fatal(err)
	}
	if f.Machine != debugpe.IMAGE_FILE_MACHINE_AMD64 || f.Section(".rsrc") == nil {
		t.Errorf("the one for Windows is for %#x, with resources: %t", f.Machine, f.Section(".rsrc") != nil)
	}
}

// The icon in the repository is the one the code draws, at the size hosts want.
func TestIconIsDrawnByTheCode(t *testing.T) {
	committed, err := os.ReadFile("../icon.png")
	if err != nil {
		t.Fatal(err)
	}
	if len(committed) > 256<<10 {
		t.Errorf("the icon has %d bytes, at most 256 KiB", len(committed))
	}
	path := filepath.Join(t.TempDir(), "icon.png")
	if _, stderr, code := build(t, "icon", path); code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	drawn, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want, err := png.Decode(bytes.NewReader(drawn))
	if err != nil {
		t.Fatal(err)
	}
	got, err := png.Decode(bytes.NewReader(committed))
	if err != nil {
		t.Fatal(err)
	}
	if got.Bounds() != want.Bounds() || got.Bounds().Dx() != 512 || got.Bounds().Dy() != 512 {
		t.Fatalf("size %v, want 512 by 512", got.Bounds())
	}
	// Processors round differently; a drawing that changed differs by more.
	for y := range 512 {
		for x := range 512 {
			r1, g1, b1, a1 := want.At(x, y).RGBA()
			r2, g2, b2, a2 := got.At(x, y).RGBA()
			for _, d := range []uint32{r1 - r2, g1 - g2, b1 - b2, a1 - a2} {
				if d+0x300 > 0x600 {
					t.Fatalf("another colour at %d, %d: run go run ./build icon", x, y)
				}
			}
		}
	}
}

// Whatever goes wrong is said in one line that names it, and nothing is left.
func TestBundleFailsWithoutLeavings(t *testing.T) {
	root := filepath.Join(t.TempDir(), "bellman")
	for _, name := range []string{"go.mod", "manifest.json", "icon.png", "LICENSE", "build/launch.sh"} {
		copyFile(t, filepath.Join("..", name), filepath.Join(root, name))
	}
	for name, tt := range map[string]struct {
		args []string
		env  []string
		want string
		code int
	}{
		"unknown platform": {[]string{"bundle", "--platform", "beos"}, nil, `no platform "beos"`, 2},
		"unknown flag":     {[]string{"bundle", "--fast"}, nil, "-fast", 2},
		"unknown argument": {[]string{"bundle", "now"}, nil, `"now"`, 2},
		"unknown command":  {[]string{"bundel"}, nil, `"bundel"`, 2},
		"no command":       {nil, nil, "usage", 2},
		"does not compile": {[]string{"bundle", "--source", "./nothing"}, nil, "./nothing", 1},
		"missing compiler": {
			[]string{"bundle", "--platform", "windows", "--source", "."},
			[]string{"PATH=" + goOnly(t)},
			"gcc-mingw-w64-x86-64", 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), tool, tt.args...)
			cmd.Dir = root
			cmd.Env = append(os.Environ(), tt.env...)
			out, _ := cmd.CombinedOutput()
			if code := cmd.ProcessState.ExitCode(); code != tt.code || !strings.Contains(string(out), tt.want) {
				t.Errorf("exit %d, want %d and %q in:\n%s", code, tt.code, tt.want, out)
			}
			if left, _ := os.ReadDir(filepath.Join(root, "build/out")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// goOnly is a PATH with the Go command and no compiler for C.
func goOnly(t *testing.T) string {
	t.Helper()
	path, err := exec.LookPath("go")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.Symlink(path, filepath.Join(dir, "go")); err != nil {
		t.Fatal(err)
	}
	return dir
}
