package signer_test

import (
	"bytes"
	"errors"
	"flag"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/build/mcpb"
	"bellman.sh/desktop/build/signer"

	"github.com/google/go-cmp/cmp"
)

// Without keys nothing is changed, and each step says why it did nothing.
func TestWithoutKeysEachStepSaysWhy(t *testing.T) {
	var out said
	s := &signer.Signer{Say: out.say}
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	program := []byte("program")
	signed, how, err := s.Windows(t.Context(), t.TempDir(), "a.exe", program)
	if err != nil || !bytes.Equal(signed, program) || how != "" {
		t.Errorf("Windows: %q %q %v", signed, how, err)
	}
	signed, how, err = s.Apple(t.Context(), t.TempDir(), "a-darwin", program)
	if err != nil || !bytes.Equal(signed, program) || how != "Mach-O, ad hoc" {
		t.Errorf("Apple: %q %q %v", signed, how, err)
	}
	signed, how, err = s.Bundle(t.Context(), t.TempDir(), program)
	if err != nil || !bytes.Equal(signed, program) || how != "" {
		t.Errorf("Bundle: %q %q %v", signed, how, err)
	}
	s.SayBundles()
	if kinds, err := s.Sums(t.Context(), "SHA256SUMS", "x"); err != nil || len(kinds) != 0 {
		t.Errorf("Sums: %v %v", kinds, err)
	}
	want := `a.exe: no Authenticode signature, for there is no --windows-cert
a-darwin: signed ad hoc only, for there is no --apple-p12 and no --apple-identity
bundles: no signature inside, for there is no --bundle-cert
SHA256SUMS: not signed, for there is no --minisign-key
SHA256SUMS: no signature of cosign's, for there is no --cosign-key
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("what it said (-want +got):\n%s", diff)
	}
}

// Apple's own tools run on macOS alone, and quill asks Apple's servers: their
// command lines are shown to be what their manuals say, on a program that
// stays as it was.
func TestCommandLinesForApple(t *testing.T) {
	data := universal(t)
	for name, tt := range map[string]struct {
		tool   string
		signer signer.Signer
		notary string // QUILL_NOTARY_KEY
		how    string
		want   []string
	}{
		"quill": {
			"quill",
			signer.Signer{AppleP12: "/keys/a b.p12"},
			"", "Mach-O, Developer ID",
			[]string{"sign", "--p12", "/keys/a b.p12", "--identity", "sh.bellman.desktop.bridge", "PROGRAM"},
		},
		"quill with a notary": {
			"quill",
			signer.Signer{AppleP12: "/keys/a.p12"},
			"/keys/notary.p8", "Mach-O, Developer ID, notarized",
			[]string{"sign-and-notarize", "--p12", "/keys/a.p12", "--identity", "sh.bellman.desktop.bridge", "PROGRAM"},
		},
		"codesign": {
			"codesign",
			signer.Signer{AppleIdentity: "Developer ID Application: Bellman (ABCDE12345)"},
			"", "Mach-O, Developer ID",
			[]string{
				"--sign", "Developer ID Application: Bellman (ABCDE12345)", "--identifier", "sh.bellman.desktop.bridge",
				"--options", "runtime", "--timestamp", "--force", "PROGRAM",
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Setenv("QUILL_NOTARY_KEY", tt.notary)
			arguments := standIn(t, tt.tool, "")
			var out said
			dir := t.TempDir()
			tt.signer.Say = out.say
			signed, how, err := tt.signer.Apple(t.Context(), dir, "bellman-bridge-darwin", data)
			if err != nil || !bytes.Equal(signed, data) || how != tt.how {
				t.Errorf("how = %q, err = %v", how, err)
			}
			tt.want[len(tt.want)-1] = filepath.Join(dir, "bellman-bridge-darwin")
			if diff := cmp.Diff(tt.want, arguments()); diff != "" {
				t.Errorf("arguments (-want +got):\n%s", diff)
			}
			if want := "bellman-bridge-darwin: signed (" + tt.how + ")\n"; out.String() != want {
				t.Errorf("it said %q, want %q", out.String(), want)
			}
			if left, _ := os.ReadDir(dir); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// The notary gets a ZIP file with the program in it.
func TestNotaryGetsAnArchive(t *testing.T) {
	standIn(t, "codesign", "")
	arguments := standIn(t, "xcrun", `cp "$3" "`+filepath.Join(t.TempDir(), "sent.zip")+`" && unzip -tq "$3" >&2`)
	dir := t.TempDir()
	var out said
	s := &signer.Signer{AppleIdentity: "me", NotaryProfile: "bellman", Say: out.say}
	if _, how, err := s.Apple(t.Context(), dir, "x", universal(t)); err != nil || how != "Mach-O, Developer ID, notarized" {
		t.Fatalf("how = %q, err = %v", how, err)
	}
	want := []string{"notarytool", "submit", filepath.Join(dir, "notarize.zip"), "--keychain-profile", "bellman", "--wait"}
	if diff := cmp.Diff(want, arguments()); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	standIn(t, "codesign", "echo 'no identity found' >&2; exit 1")
	if _, _, err := s.Apple(t.Context(), dir, "x", universal(t)); err == nil || !strings.Contains(err.Error(), "no identity found") {
		t.Errorf("a refusal of codesign: err = %v", err)
	}
	standIn(t, "codesign", "")
	standIn(t, "xcrun", "echo 'status: Invalid' >&2; exit 1")
	if _, _, err := s.Apple(t.Context(), dir, "x", universal(t)); err == nil || !strings.Contains(err.Error(), "status: Invalid") {
		t.Errorf("a refusal of the notary: err = %v", err)
	}
}

// A tool that fails half-way, as quill does when Apple's clock does not answer,
// must not leave a broken program in a release.
func TestADamagedProgramIsNoRelease(t *testing.T) {
	data := universal(t)
	for name, script := range map[string]string{
		"cut short":     `for f; do :; done; head -c 100000 "$f" >"$f.x" && mv "$f.x" "$f"`,
		"changed":       `for f; do :; done; printf X | dd of="$f" bs=1 seek=40000 conv=notrunc 2>/dev/null`,
		"one processor": `for f; do :; done; tail -c +16385 "$f" >"$f.x" && mv "$f.x" "$f"`,
		"gone":          `for f; do :; done; rm "$f"`,
		"an exit code":  `echo "no timestamp" >&2; exit 3`,
	} {
		t.Run(name, func(t *testing.T) {
			standIn(t, "quill", script)
			s := &signer.Signer{AppleP12: "/keys/a.p12", Say: (&said{}).say}
			if signed, how, err := s.Apple(t.Context(), t.TempDir(), "x", data); err == nil || signed != nil || how != "" {
				t.Errorf("%d bytes, %q, %v; want an error", len(signed), how, err)
			}
		})
	}
	standIn(t, "osslsigncode", `while [ $# -gt 1 ]; do case $1 in -in) in=$2 ;; -out) out=$2 ;; esac; shift; done; cp "$in" "$out"`)
	s := &signer.Signer{WindowsCert: "c", WindowsKey: "k", Say: (&said{}).say}
	if _, _, err := s.Windows(t.Context(), t.TempDir(), "x", data); err == nil {
		t.Error("what is no Windows program was taken")
	}
}

// Time-stamps need a server, which is only named here.
func TestWindowsAsksForATimeStampWhenToldTo(t *testing.T) {
	arguments := standIn(t, "osslsigncode", "exit 1")
	s := &signer.Signer{WindowsCert: "/c.pem", WindowsKey: "/k.pem", WindowsTime: "http://timestamp.example", Say: (&said{}).say}
	dir := t.TempDir()
	if _, _, err := s.Windows(t.Context(), dir, "x", []byte("x")); err == nil {
		t.Error("no error")
	}
	want := []string{
		"sign", "-certs", "/c.pem", "-key", "/k.pem", "-h", "sha256", "-n", "Bellman for Claude Desktop", "-i", "https://bellman.sh",
		"-ts", "http://timestamp.example", "-in", filepath.Join(dir, "unsigned.exe"), "-out", filepath.Join(dir, "signed.exe"),
	}
	if diff := cmp.Diff(want, arguments()); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
}

// Cosign signs with the key alone and asks no server. Where it is installed it
// checks its own signature; elsewhere a stand-in shows the command line.
func TestCosignSignsTheSums(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "SHA256SUMS")
	if err := os.WriteFile(path, []byte("sums\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	key := filepath.Join(dir, "cosign.key")
	s := &signer.Signer{CosignKey: key, Say: (&said{}).say}
	if _, err := exec.LookPath("cosign"); err != nil {
		arguments := standIn(t, "cosign", "")
		if kinds, err := s.Sums(t.Context(), path, "x"); err != nil || !cmp.Equal(kinds, []string{"cosign"}) {
			t.Errorf("kinds = %v, err = %v", kinds, err)
		}
		want := []string{
			"sign-blob", "--yes", "--key", key, "--use-signing-config=false", "--tlog-upload=false",
			"--bundle", path + ".sigstore.json", path,
		}
		if diff := cmp.Diff(want, arguments()); diff != "" {
			t.Errorf("arguments (-want +got):\n%s", diff)
		}
		return
	}
	t.Setenv("COSIGN_PASSWORD", "pass word")
	run := func(args ...string) ([]byte, error) {
		cmd := exec.CommandContext(t.Context(), "cosign", args...)
		cmd.Dir = dir
		return cmd.CombinedOutput()
	}
	if out, err := run("generate-key-pair"); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if kinds, err := s.Sums(t.Context(), path, "x"); err != nil || !cmp.Equal(kinds, []string{"cosign"}) {
		t.Fatalf("kinds = %v, err = %v", kinds, err)
	}
	check := []string{"verify-blob", "--key", "cosign.pub", "--bundle", path + ".sigstore.json", "--insecure-ignore-tlog=true", path}
	if out, err := run(check...); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if err := os.WriteFile(path, []byte("other sums\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, err := run(check...); err == nil {
		t.Errorf("other sums verify:\n%s", out)
	}
}

// The key of a release has a password, which minisign asks the person for.
func TestMinisignAsksForItsPassword(t *testing.T) {
	if _, err := exec.LookPath("minisign"); err != nil {
		t.Skip("no minisign (make setup)")
	}
	dir := t.TempDir()
	public, secret, path := filepath.Join(dir, "k.pub"), filepath.Join(dir, "k.key"), filepath.Join(dir, "SHA256SUMS")
	if err := os.WriteFile(path, []byte("sums\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	generate := exec.CommandContext(t.Context(), "minisign", "-G", "-p", public, "-s", secret)
	generate.Stdin = strings.NewReader("pass word\npass word\n")
	if out, err := generate.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	s := &signer.Signer{MinisignKey: secret, Say: (&said{}).say}
	typed(t, "wrong\n")
	if kinds, err := s.Sums(t.Context(), path, "bellman 1.2.3"); err == nil {
		t.Errorf("the wrong password made %v", kinds)
	}
	typed(t, "pass word\n")
	if kinds, err := s.Sums(t.Context(), path, "bellman 1.2.3"); err != nil || !cmp.Equal(kinds, []string{"minisign"}) {
		t.Fatalf("kinds = %v, err = %v", kinds, err)
	}
	out, err := exec.CommandContext(t.Context(), "minisign", "-V", "-Q", "-p", public, "-m", path).CombinedOutput()
	if err != nil || strings.TrimSpace(string(out)) != "bellman 1.2.3" {
		t.Errorf("%v\n%s", err, out)
	}
}

// typed is what the person at the terminal types.
func typed(t *testing.T, text string) {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, text); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	before := os.Stdin
	os.Stdin = r
	t.Cleanup(func() { os.Stdin = before; _ = r.Close() })
}

// What is missing is named before anything is built: the file by its flag, the
// program with the package that brings it.
func TestCheckNamesWhatIsMissing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	for args, want := range map[string][]string{
		"--minisign-key /gone":                          {"--minisign-key: stat /gone", "no minisign here (apt-get install minisign)"},
		"--cosign-key FILE":                             {"no cosign here (go install github.com/sigstore/cosign"},
		"--bundle-cert /gone --bundle-key FILE":         {"--bundle-cert: stat /gone", "no openssl here (apt-get install openssl)"},
		"--windows-cert FILE --windows-key /gone":       {"--windows-key: stat /gone", "no osslsigncode here (apt-get install osslsigncode)"},
		"--apple-p12 FILE":                              {"no quill here (go install github.com/anchore/quill"},
		"--apple-identity me":                           {"no codesign here (only macOS has it)"},
		"--apple-identity me --notary-profile p":        {"no xcrun here"},
		"--bundle-cert FILE":                            {"--bundle-cert and --bundle-key go together"},
		"--bundle-key FILE":                             {"--bundle-cert and --bundle-key go together"},
		"--windows-cert FILE":                           {"--windows-cert and --windows-key go together"},
		"--windows-timestamp http://t.example":          {"--windows-timestamp needs --windows-cert"},
		"--apple-p12 FILE --apple-identity me":          {"exclude each other"},
		"--notary-profile p --apple-p12 FILE":           {"--notary-profile needs --apple-identity"},
		"--minisign-key /gone --cosign-key /gone/there": {"--minisign-key", "--cosign-key"},
	} {
		f := flag.NewFlagSet("release", flag.ContinueOnError)
		var s signer.Signer
		s.Flags(f)
		if err := f.Parse(strings.Fields(strings.ReplaceAll(args, "FILE", file))); err != nil {
			t.Fatal(err)
		}
		err := s.Check()
		if err == nil {
			t.Errorf("%s: no error", args)
			continue
		}
		for _, w := range want {
			if !strings.Contains(err.Error(), w) {
				t.Errorf("%s: %v; want %q", args, err, w)
			}
		}
		_, misuse := errors.AsType[*signer.MisuseError](err)
		if got := strings.Contains(want[0], "together") || strings.Contains(want[0], "needs") || strings.Contains(want[0], "exclude"); got != misuse {
			t.Errorf("%s: misuse = %t (%v)", args, misuse, err)
		}
	}
}

// The certificates that lead to the authority go into the signature, so that
// somebody who has the authority alone can check it.
func TestBundleCarriesTheChain(t *testing.T) {
	dir := t.TempDir()
	cert := filepath.Join(dir, "cert.pem")
	const block = "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	var packed bytes.Buffer
	if err := mcpb.Pack(&packed, []mcpb.File{{Name: "a", Data: []byte("a")}}); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]bool{block: false, block + "\n": false, block + block: true} {
		if err := os.WriteFile(cert, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		arguments := standIn(t, "openssl", "cat >/dev/null; printf signature")
		s := &signer.Signer{BundleCert: cert, BundleKey: "/key.pem", Say: (&said{}).say}
		sealed, how, err := s.Bundle(t.Context(), t.TempDir(), packed.Bytes())
		if err != nil || how != "PKCS #7 inside" {
			t.Fatalf("how = %q, err = %v", how, err)
		}
		if _, signature, err := mcpb.Unseal(sealed); err != nil || string(signature) != "signature" {
			t.Errorf("signature %q, err = %v", signature, err)
		}
		if got := strings.Contains(strings.Join(arguments(), " "), "-certfile"); got != want {
			t.Errorf("with %d bytes of certificates: -certfile is there: %t, want %t", len(text), got, want)
		}
	}
}
