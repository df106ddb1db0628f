package sums_test

import (
	"crypto/sha256"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"bellman.sh/desktop/build/sums"

	"github.com/google/go-cmp/cmp"
)

func folder(t *testing.T) (dir string, list sums.List) {
	t.Helper()
	dir, list = t.TempDir(), sums.List{}
	for name, text := range map[string]string{"b.txt": "b", "a file.txt": "a", "empty": ""} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		sum, err := sums.Of(path)
		if err != nil {
			t.Fatal(err)
		}
		list[name] = sum
	}
	return dir, list
}

// What we write is what sha256sum checks, and what it writes we read.
func TestListIsThatOfSha256sum(t *testing.T) {
	tool, err := exec.LookPath("sha256sum")
	if err != nil {
		t.Skip("no sha256sum")
	}
	dir, list := folder(t)
	if err := os.WriteFile(filepath.Join(dir, sums.Name), list.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	check := exec.CommandContext(t.Context(), tool, "--check", "--strict", sums.Name)
	check.Dir = dir
	if out, err := check.CombinedOutput(); err != nil {
		t.Errorf("sha256sum refuses our list: %v\n%s", err, out)
	}
	write := exec.CommandContext(t.Context(), tool, "a file.txt", "b.txt", "empty")
	write.Dir = dir
	out, err := write.Output()
	if err != nil {
		t.Fatal(err)
	}
	theirs, err := sums.Parse(out)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(list, theirs); diff != "" {
		t.Errorf("list (-ours +theirs):\n%s", diff)
	}
}

func TestCheckFindsAChange(t *testing.T) {
	dir, list := folder(t)
	path := filepath.Join(dir, "b.txt")
	if err := list.Check(path); err != nil {
		t.Errorf("unchanged: %v", err)
	}
	for i := range sha256.Size { // every byte of the sum counts
		other := list["b.txt"]
		other[i] ^= 1
		if err := (sums.List{"b.txt": other}).Check(path); !errors.Is(err, sums.ErrMismatch) {
			t.Errorf("byte %d of the sum changed: err = %v, want ErrMismatch", i, err)
		}
	}
	if err := os.WriteFile(path, []byte("c"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := list.Check(path); !errors.Is(err, sums.ErrMismatch) {
		t.Errorf("changed: err = %v, want ErrMismatch", err)
	}
	if err := list.Check(filepath.Join(dir, "other")); err == nil || errors.Is(err, sums.ErrMismatch) {
		t.Errorf("not in the list: err = %v, want one that says so", err)
	}
}

func TestMalformedListIsRefused(t *testing.T) {
	const sum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"
	for name, text := range map[string]string{
		"empty":                "",
		"no name":              sum + "  \n",
		"one space":            sum + " a\n",
		"short sum":            sum[2:] + "  a\n",
		"not a sum":            "z" + sum[1:] + "  a\n",
		"folder":               sum + "  ../a\n",
		"backslash":            sum + `  ..\a` + "\n",
		"twice":                sum + "  a\n" + sum + "  a\n",
		"line between":         sum + "  a\n\n" + sum + "  b\n",
		"comment":              "# sums\n",
		"binary marker":        sum + " *a\n",
		"upper case":           strings.ToUpper(sum) + "  a\n",
		"line ends of Windows": sum + "  a\r\n",
		"no last line end":     sum + "  a",
		"other order":          sum + "  b\n" + sum + "  a\n",
	} {
		if list, err := sums.Parse([]byte(text)); err == nil {
			t.Errorf("%s: parsed as %v", name, list)
		}
	}
}

// A folder that is verified may hold anything; what never ends is no asset.
func TestPipeHasNoSum(t *testing.T) {
	path := filepath.Join(t.TempDir(), "pipe")
	if err := syscall.Mkfifo(path, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := sums.Of(path); err == nil {
		t.Error("a pipe was read to its end")
	}
}
