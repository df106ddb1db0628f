package main_test

import (
	"crypto/sha256"
	"fmt"
	mathrand "math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/build/sums"
)

// flips changes 200 bits, spread over one bundle, and one in each other file.
func flips(t *testing.T, root, dir string) {
	t.Helper()
	bundle := filepath.Join(dir, "bellman-windows.mcpb")
	info, err := os.Stat(bundle)
	if err != nil {
		t.Fatal(err)
	}
	step := info.Size() / 200
	for i := range int64(200) {
		flipped(t, root, bundle, i*step+mathrand.Int64N(step))
	}
	for _, name := range []string{"SHA256SUMS", "SHA256SUMS.minisig", "bellman-bridge.exe", "RELEASE-NOTES.md", "provenance.intoto.json"} {
		flipped(t, root, filepath.Join(dir, name), 100)
	}
}

func flipped(t *testing.T, root, path string, at int64) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	flip := func(b byte) {
		if _, err := f.WriteAt([]byte{b}, at); err != nil {
			t.Fatal(err)
		}
	}
	flip(b[0] ^ 1<<mathrand.IntN(8))
	defer flip(b[0])
	target := path
	if strings.HasPrefix(filepath.Base(path), "SHA256SUMS") {
		target = filepath.Join(filepath.Dir(path), "RELEASE-NOTES.md")
	}
	if out, _, code := buildIn(t, root, "verify", target); code != 1 {
		t.Errorf("%s changed at %d: exit %d\n%s", filepath.Base(path), at, code, out)
	}
}

// rewritten does what somebody does who can change the download but not the
// repository. Both verifiers must notice.
func rewritten(t *testing.T, root, dir string) {
	t.Helper()
	forged := t.TempDir()
	if err := os.CopyFS(forged, os.DirFS(dir)); err != nil {
		t.Fatal(err)
	}
	only := t.TempDir() // nothing but what the script says it needs
	for _, name := range []string{"sh", "sha256sum", "minisign"} {
		program, err := exec.LookPath(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(program, filepath.Join(only, name)); err != nil {
			t.Fatal(err)
		}
	}
	script := func(file string) (string, error) {
		cmd := exec.CommandContext(t.Context(), "sh", filepath.Join(root, "build", "verify.sh"), file)
		cmd.Env = []string{"PATH=" + only}
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	path := filepath.Join(forged, "bellman-linux.mcpb")
	if out, err := script(path); err != nil || !strings.Contains(out, "(bellman "+version(t)+")") {
		t.Errorf("verify.sh refuses what was released: %v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	old := fmt.Sprintf("%x", sha256.Sum256(data))
	data[len(data)/2] ^= 1
	if err := os.WriteFile(path, data, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := script(path); err == nil {
		t.Errorf("verify.sh takes a changed file:\n%s", out)
	}
	list, err := os.ReadFile(filepath.Join(forged, sums.Name))
	if err != nil {
		t.Fatal(err)
	}
	list = []byte(strings.ReplaceAll(string(list), old, fmt.Sprintf("%x", sha256.Sum256(data))))
	if err := os.WriteFile(filepath.Join(forged, sums.Name), list, 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := script(path); err == nil {
		t.Errorf("verify.sh takes rewritten sums:\n%s", out)
	}
	if out, _, code := buildIn(t, root, "verify", path); code != 1 {
		t.Errorf("verify takes rewritten sums: exit %d\n%s", code, out)
	}
}

// The second signature over the sums is checked where somebody can, and a bad
// one is never passed over.
func TestVerifyAsksCosign(t *testing.T) {
	k := makeKeys(t)
	dir := t.TempDir()
	file := filepath.Join(dir, "notes.md")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	sum, err := sums.Of(file)
	if err != nil {
		t.Fatal(err)
	}
	list := filepath.Join(dir, sums.Name)
	if err := os.WriteFile(list, sums.List{"notes.md": sum}.Encode(), 0o600); err != nil {
		t.Fatal(err)
	}
	runIn(t, os.Environ(), "minisign", "-S", "-s", k.secret, "-m", list, "-t", "t")
	bin := t.TempDir()
	ask := func(code, key string) string {
		script := "#!/bin/sh\n[ \"$*\" = \"verify-blob --key " + key + " --bundle " + list + ".sigstore.json --insecure-ignore-tlog=true " + list + "\" ] && exit " + code + "\nexit 9\n"
		if err := os.WriteFile(filepath.Join(bin, "cosign"), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.CommandContext(t.Context(), tool, "verify", "--key", k.public, "--cosign-key", key, file)
		cmd.Env = append(os.Environ(), "PATH="+bin+":"+os.Getenv("PATH"))
		out, _ := cmd.CombinedOutput()
		return fmt.Sprint(cmd.ProcessState.ExitCode(), " ", string(out))
	}
	for _, step := range []struct{ code, key, exit, want string }{
		{"0", k.public, "0 ", "0 ok"},
		{"1", k.public, "1 ", "FAILED       " + list + ": signature of cosign's"},
		{"1", "/gone", "0 ", "no public key at /gone"}, // cosign is not asked
	} {
		if out := ask(step.code, step.key); !strings.Contains(out, "it carries none") {
			t.Errorf("without a signature: %s", out)
		}
		if err := os.WriteFile(list+".sigstore.json", nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if out := ask(step.code, step.key); !strings.Contains(out, step.want) || !strings.HasPrefix(out, step.exit) {
			t.Errorf("%+v: %s", step, out)
		}
		if err := os.Remove(list + ".sigstore.json"); err != nil {
			t.Fatal(err)
		}
	}
}
