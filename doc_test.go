package desktop_test

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// maxLines is where a file is split by noun. Of tests the linter counts the
// same, without comments and empty lines.
const maxLines = 400

// Whoever opens a package is told what it is for before anything else.
func TestEveryPackageSaysWhatItIs(t *testing.T) {
	for _, p := range list(t, nil, "./...") {
		if p.ImportPath == module {
			continue // tests only; go list does not read their comment
		}
		want := "Package " + p.Name + " "
		if p.Name == "main" {
			want = "Command "
		}
		if !strings.HasPrefix(p.Doc, want) {
			t.Errorf("%s: its comment begins with %q, want %q", p.ImportPath, firstWords(p.Doc), want)
		}
	}
}

func firstWords(doc string) string { return doc[:min(len(doc), 30)] }

func TestFilesStayShort(t *testing.T) {
	seen := 0
	eachFile(t, ".go", func(path string, data []byte) {
		seen++
		if strings.HasSuffix(path, "_test.go") {
			return
		}
		if n := bytes.Count(data, []byte("\n")); n > maxLines {
			t.Errorf("%s has %d lines, at most %d", path, n, maxLines)
		}
	})
	if seen < 50 {
		t.Errorf("saw %d files: the walk is wrong", seen)
	}
}

// eachFile calls f with every file of the tree whose name ends with suffix,
// leaving out what is built or installed.
func eachFile(t *testing.T, suffix string, f func(path string, data []byte)) {
	t.Helper()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && strings.HasPrefix(name, ".") || path == filepath.FromSlash("build/out") {
				return filepath.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(path, suffix) {
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f(filepath.ToSlash(path), data)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A page that says "this is tested" names a test that is there.
func TestTestsNamedOnPagesExist(t *testing.T) {
	exists := map[string]bool{}
	eachFile(t, "_test.go", func(_ string, data []byte) {
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(data, -1) {
			exists[string(m[1])] = true
		}
	})
	eachFile(t, ".md", func(path string, data []byte) {
		for _, m := range regexp.MustCompile("`(Test\\w+)`").FindAllSubmatch(data, -1) {
			if !exists[string(m[1])] {
				t.Errorf("%s names %s, which does not exist", path, m[1])
			}
		}
	})
}

// A link between our own pages leads somewhere.
func TestLinksBetweenPagesHold(t *testing.T) {
	eachFile(t, ".md", func(path string, data []byte) {
		for _, m := range regexp.MustCompile(`\]\(([^)#:]+)(?:#[^)]*)?\)`).FindAllSubmatch(data, -1) {
			target := filepath.Join(filepath.Dir(path), string(m[1]))
			if _, err := os.Stat(target); err != nil {
				t.Errorf("%s links to %s: %v", path, m[1], err)
			}
		}
	})
}

// The map of the tree names files that are there.
func TestFilesNamedInTheArchitectureExist(t *testing.T) {
	data, err := os.ReadFile("docs/ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(data), "## Where to look")
	for line := range strings.Lines(table) {
		dir := ""
		for _, m := range regexp.MustCompile("`([^`]+)`").FindAllStringSubmatch(line, -1) {
			name := m[1]
			if strings.Contains(name, "/") {
				dir = filepath.Dir(name)
			} else if dir != "" {
				name = filepath.Join(dir, name) // it stands in the folder named before it
			}
			if _, err := os.Stat(name); err != nil {
				t.Errorf("%s is not there", name)
			}
		}
	}
}
