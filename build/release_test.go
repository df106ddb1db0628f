package main_test

import (
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"fmt"
	"math/big"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/build/sums"
)

// clone returns a clean clone of the last commit.
func clone(t *testing.T) string {
	t.Helper()
	needs(t, "git")
	dir := filepath.Join(t.TempDir(), "a clone")
	if out, err := exec.CommandContext(t.Context(), "git", "clone", "-q", "--local", "..", dir).CombinedOutput(); err != nil {
		t.Fatalf("clone: %v\n%s", err, out)
	}
	return dir
}

// keys are made for one test and trusted by nobody else.
type keys struct{ public, secret, ca, cert, key string }

func makeKeys(t *testing.T) keys {
	t.Helper()
	needs(t, "minisign", "openssl", "osslsigncode")
	dir := t.TempDir()
	k := keys{
		public: filepath.Join(dir, "release.pub"), secret: filepath.Join(dir, "release.key"),
		ca: filepath.Join(dir, "ca.pem"), cert: filepath.Join(dir, "cert.pem"), key: filepath.Join(dir, "key.pem"),
	}
	runIn(t, os.Environ(), "minisign", "-G", "-W", "-p", k.public, "-s", k.secret)
	caKey, leafKey := rsaKey(t), rsaKey(t)
	ca := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "Throw-away CA"},
		NotBefore: time.Now().Add(-time.Hour), NotAfter: time.Now().Add(24 * time.Hour),
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
	}
	leaf := &x509.Certificate{
		SerialNumber: big.NewInt(2), Subject: pkix.Name{CommonName: "Throw-away publisher"},
		NotBefore: ca.NotBefore, NotAfter: ca.NotAfter,
		KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageCodeSigning},
	}
	writePEM(t, k.ca, "CERTIFICATE", certificate(t, ca, ca, caKey.Public(), caKey))
	writePEM(t, k.cert, "CERTIFICATE", certificate(t, leaf, ca, leafKey.Public(), caKey))
	der, err := x509.MarshalPKCS8PrivateKey(leafKey)
	if err != nil {
		t.Fatal(err)
	}
	writePEM(t, k.key, "PRIVATE KEY", der)
	return k
}

func rsaKey(t *testing.T) *rsa.PrivateKey {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	return key
}

func certificate(t *testing.T, c, parent *x509.Certificate, public crypto.PublicKey, signer crypto.Signer) []byte {
	t.Helper()
	der, err := x509.CreateCertificate(rand.Reader, c, parent, public, signer)
	if err != nil {
		t.Fatal(err)
	}
	return der
}

func writePEM(t *testing.T, path, kind string, der []byte) {
	t.Helper()
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600); err != nil {
		t.Fatal(err)
	}
}

// A clean clone becomes a release in which everything is signed and everything
// verifies, and of which nobody can change anything.
func TestReleaseOfACleanClone(t *testing.T) {
	needs(t, "aarch64-linux-gnu-gcc", "x86_64-w64-mingw32-gcc")
	root, k := clone(t), makeKeys(t)
	// The owner's half of the key is in the repository before a release.
	copyFile(t, k.public, filepath.Join(root, "build", "release.pub"))
	runIn(t, os.Environ(), "git", "-C", root, "add", "build/release.pub")
	runIn(t, os.Environ(), "git", "-C", root, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-m", "x")
	table, stderr, code := buildIn(t, root, "release", "--minisign-key", k.secret,
		"--bundle-cert", k.cert, "--bundle-key", k.key, "--windows-cert", k.cert, "--windows-key", k.key)
	if code != 0 {
		t.Fatalf("exit %d\n%s", code, stderr)
	}
	dir := filepath.Join(root, "build", "out", "release")
	for _, want := range []string{"PKCS #7 inside", "Authenticode", "Mach-O, ad hoc", "minisign", "provenance.intoto.json"} {
		if !strings.Contains(table, want) {
			t.Errorf("no %q in the table:\n%s", want, table)
		}
	}
	out, _, code := buildIn(t, root, "verify", "--ca", k.ca, dir)
	if code != 0 {
		t.Fatalf("verify: exit %d\n%s", code, out)
	}
	for _, want := range []string{"Authenticode", "the signature inside belongs to these bytes"} {
		if !strings.Contains(out, "ok") || !strings.Contains(out, want) {
			t.Errorf("verify says nothing of %q:\n%s", want, out)
		}
	}
	t.Run("bundles open for strict readers", func(t *testing.T) { strict(t, filepath.Join(dir, "bellman.mcpb")) })
	t.Run("statements name the assets", func(t *testing.T) { statements(t, dir) })
	t.Run("a flipped bit anywhere is found", func(t *testing.T) { flips(t, root, dir) })
	t.Run("a rewritten asset with rewritten sums is found", func(t *testing.T) { rewritten(t, root, dir) })
	t.Run("the wrong authority is refused", func(t *testing.T) {
		other := makeKeys(t)
		file := filepath.Join(dir, "bellman-windows.mcpb")
		out, _, code := buildIn(t, root, "verify", "--key", k.public, "--ca", other.ca, file)
		if code != 1 || strings.Count(out, "FAILED") != 2 {
			t.Errorf("exit %d, want 1 and two failures:\n%s", code, out)
		}
		if out, _, code := buildIn(t, root, "verify", "--key", other.public, file); code != 1 {
			t.Errorf("another key: exit %d\n%s", code, out)
		}
	})
	t.Run("the notes have the sums for allow-rules", func(t *testing.T) { allowed(t, dir) })
	t.Run("a file nobody signed for is found", func(t *testing.T) {
		extra := filepath.Join(dir, "bellman-extra.mcpb")
		if err := os.WriteFile(extra, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
		defer os.Remove(extra)
		if out, _, code := buildIn(t, root, "verify", "--key", k.public, dir); code != 1 || !strings.Contains(out, "there is bellman-extra.mcpb") {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
	t.Run("no signature is no proof", func(t *testing.T) {
		bare := t.TempDir()
		for _, name := range []string{sums.Name, "RELEASE-NOTES.md"} {
			copyFile(t, filepath.Join(dir, name), filepath.Join(bare, name))
		}
		file := filepath.Join(bare, "RELEASE-NOTES.md")
		if out, _, code := buildIn(t, root, "verify", "--key", k.public, file); code != 1 || !strings.Contains(out, "it is not signed") {
			t.Errorf("exit %d\n%s", code, out)
		}
		out, _, code := buildIn(t, root, "verify", "--unsigned", file)
		if code != 0 || !strings.Contains(out, "not checked") || !strings.Contains(out, "is the file in the sums") {
			t.Errorf("--unsigned: exit %d\n%s", code, out)
		}
	})
	t.Run("no key is no proof", func(t *testing.T) {
		missing := filepath.Join(t.TempDir(), "none")
		if out, _, code := buildIn(t, root, "verify", "--key", missing, dir); code != 1 || !strings.Contains(out, "no public key") {
			t.Errorf("exit %d\n%s", code, out)
		}
	})
}

// A signed bundle must still install: the host's reader wants the comment of
// the ZIP file to be as long as it says.
func strict(t *testing.T, path string) {
	t.Helper()
	needs(t, "node")
	cmd := exec.CommandContext(t.Context(), "node", "-e", yauzl, path)
	cmd.Dir = npm(t)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}

func statements(t *testing.T, dir string) {
	t.Helper()
	var statement struct {
		Subject []struct {
			Name   string
			Digest map[string]string
		}
	}
	readJSON(t, filepath.Join(dir, "provenance.intoto.json"), &statement)
	if len(statement.Subject) < 10 {
		t.Errorf("the provenance names %d assets", len(statement.Subject))
	}
	for _, s := range statement.Subject {
		sum, err := sums.Of(filepath.Join(dir, s.Name))
		if err != nil || s.Digest["sha256"] != fmt.Sprintf("%x", sum) {
			t.Errorf("the provenance says %s of %s (%v)", s.Digest["sha256"], s.Name, err)
		}
	}
	for _, name := range []string{"bellman-bridge-darwin", "bellman-bridge-linux-arm64", "bellman-bridge.exe", "bellman-hub-linux-amd64"} {
		var bill struct {
			Metadata struct {
				Component struct{ Hashes []struct{ Content string } }
			}
			Components []struct{ Name, Version string }
		}
		readJSON(t, filepath.Join(dir, name+".cdx.json"), &bill)
		sum, err := sums.Of(filepath.Join(dir, name))
		if err != nil {
			t.Fatal(err)
		}
		if h := bill.Metadata.Component.Hashes; len(h) != 1 || h[0].Content != fmt.Sprintf("%x", sum) {
			t.Errorf("the bill of %s is of another program", name)
		}
		has := map[string]bool{}
		for _, c := range bill.Components {
			has[c.Name] = c.Version != ""
		}
		if !has["std"] || !has["github.com/mark3labs/mcp-go"] {
			t.Errorf("the bill of %s lacks modules: %v", name, has)
		}
	}
}

func readJSON(t *testing.T, path string, v any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, v); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
}

// allowed compares the sums in the notes with those that other programs find.
func allowed(t *testing.T, dir string) {
	t.Helper()
	notes, err := os.ReadFile(filepath.Join(dir, "RELEASE-NOTES.md"))
	if err != nil {
		t.Fatal(err)
	}
	program := filepath.Join(dir, "bellman-bridge.exe")
	out, err := exec.CommandContext(t.Context(), "osslsigncode", "verify", "-in", program).CombinedOutput()
	m := regexp.MustCompile(`(?i)calculated message digest\s*:\s*([0-9a-f]{64})`).FindSubmatch(out)
	if m == nil {
		t.Fatalf("osslsigncode: %v\n%s", err, out)
	}
	sum, err := sums.Of(program)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"`bellman-bridge.exe` | Authenticode SHA-256 | `" + strings.ToLower(string(m[1])) + "`",
		fmt.Sprintf("`bellman-bridge.exe` | SHA-256 of the file | `%x`", sum),
		"`bellman-bridge-darwin` | cdhash, amd64 | `", "`bellman-bridge-darwin` | cdhash, arm64 | `",
		"- `bellman-bridge.exe`: Authenticode", "- `bellman.mcpb`: PKCS #7 inside", "- `bellman-bridge-darwin`: Mach-O, ad hoc",
	} {
		if !strings.Contains(string(notes), want) {
			t.Errorf("no %s in the notes:\n%s", want, notes)
		}
	}
}

// What is not fit for a release is refused before anything is built.
func TestReleaseRefuses(t *testing.T) {
	root := clone(t)
	head := func(name string) string {
		data, err := os.ReadFile(filepath.Join(root, name))
		if err != nil {
			t.Fatal(err)
		}
		return string(data)
	}
	for name, tt := range map[string]struct {
		file, text string // changed and, with commit, committed
		commit     bool
		args       []string
		want       string
		code       int
	}{
		"a dirty tree":                 {"README.md", "x", false, nil, "not committed", 1},
		"another tag":                  {"", "", false, []string{"--tag", "v9.9.9"}, "v9.9.9", 1},
		"a key that is gone":           {"", "", false, []string{"--minisign-key", "/nowhere"}, "--minisign-key", 1},
		"a folder of somebody's":       {"", "", false, []string{"--out", "docs/pictures"}, "something else than a release", 1},
		"half a pair":                  {"", "", false, []string{"--bundle-cert", "manifest.json"}, "go together", 2},
		"a stamp for nothing":          {"", "", false, []string{"--windows-timestamp", "http://127.0.0.1"}, "--windows-cert", 2},
		"a tool that is not installed": {"", "", false, []string{"--apple-p12", "manifest.json"}, "no quill here", 1},
		"a manifest out of step": {
			"manifest.json", strings.Replace(head("manifest.json"), `"name": "bellman_audit"`, `"name": "bellman_adit"`, 1), true, nil, "bellman_adit", 1,
		},
		"no section": {
			"CHANGELOG.md", strings.ReplaceAll(head("CHANGELOG.md"), "## [0", "## [10"), true, nil, "no section", 1,
		},
		"an empty section": {
			"CHANGELOG.md", "# Changelog\n\n## [" + version(t) + "] - today\n\n### Added\n\n## [0.0.1]\n\n- old\n", true, nil, "says nothing", 1,
		},
		"a version that is none": {
			"manifest.json", strings.Replace(head("manifest.json"), `"`+version(t)+`"`, `"next"`, 1), true, nil, `"next"`, 1,
		},
	} {
		t.Run(name, func(t *testing.T) {
			if tt.file != "" {
				before := head(tt.file)
				path := filepath.Join(root, tt.file)
				if err := os.WriteFile(path, []byte(tt.text), 0o600); err != nil {
					t.Fatal(err)
				}
				defer os.WriteFile(path, []byte(before), 0o600) //nolint:errcheck // the clone is thrown away
			}
			if tt.commit {
				runIn(t, os.Environ(), "git", "-C", root, "-c", "user.name=t", "-c", "user.email=t@example.com", "commit", "-q", "-a", "-m", "x")
				defer runIn(t, os.Environ(), "git", "-C", root, "reset", "-q", "--hard", "HEAD~1")
			}
			_, stderr, code := buildIn(t, root, append([]string{"release"}, tt.args...)...)
			if code != tt.code || !strings.Contains(stderr, tt.want) {
				t.Errorf("exit %d, want %d and %q in:\n%s", code, tt.code, tt.want, stderr)
			}
			if left, _ := os.ReadDir(filepath.Join(root, "build", "out")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// version is the one in the manifest.
func version(t *testing.T) string {
	t.Helper()
	var m struct{ Version string }
	readJSON(t, "../manifest.json", &m)
	return m.Version
}

// A clone without a compiler for one of the systems stops at once and says
// what to install.
func TestReleaseNamesTheMissingCompiler(t *testing.T) {
	root := clone(t)
	path := goOnly(t)
	git, err := exec.LookPath("git")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(git, filepath.Join(path, "git")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), tool, "release")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "PATH="+path, "CC=", "CGO_ENABLED=")
	out, _ := cmd.CombinedOutput()
	for _, want := range []string{"apt-get install gcc libc6-dev", "gcc-aarch64-linux-gnu", "gcc-mingw-w64-x86-64"} {
		if !strings.Contains(string(out), want) {
			t.Errorf("no %q in:\n%s", want, out)
		}
	}
	if code := cmd.ProcessState.ExitCode(); code != 1 || strings.Contains(string(out), "built ") {
		t.Errorf("exit %d after:\n%s", code, out)
	}
	if left, _ := os.ReadDir(filepath.Join(root, "build", "out")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}
