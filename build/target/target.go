// Package target builds the bridge for one system and processor with the
// compilers this machine has. (design.md 8)
package target

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
)

// Target is a system and processor in Go's names.
type Target struct{ OS, Arch string }

// All are the targets of a release. Windows on arm64 runs the amd64 binary.
var All = []Target{
	{"darwin", "amd64"},
	{"darwin", "arm64"},
	{"linux", "amd64"},
	{"linux", "arm64"},
	{"windows", "amd64"},
}

// Host returns the target of the machine this runs on.
func Host() Target { return Target{runtime.GOOS, runtime.GOARCH} }

func (t Target) String() string { return t.OS + "/" + t.Arch }

// Platform returns the name a manifest has for the system of t.
func (t Target) Platform() string {
	if t.OS == "windows" {
		return "win32"
	}
	return t.OS
}

// Extension is what the name of a program ends with on the system of t.
func (t Target) Extension() string {
	if t.OS == "windows" {
		return ".exe"
	}
	return ""
}

// BundleName is what the bridge for t is called in a bundle's server folder.
// Both processors of darwin share one universal binary.
func (t Target) BundleName() string {
	switch t.OS {
	case "windows":
		return "bellman-bridge.exe"
	case "darwin":
		return "bellman-bridge-darwin"
	default:
		return "bellman-bridge-" + t.OS + "-" + t.Arch
	}
}

// compilers are the C compilers Debian has for a target that is not the host,
// and the packages that bring them.
var compilers = map[Target]struct{ command, packages string }{
	{"linux", "amd64"}:   {"x86_64-linux-gnu-gcc", "gcc-x86-64-linux-gnu libc6-dev-amd64-cross"},
	{"linux", "arm64"}:   {"aarch64-linux-gnu-gcc", "gcc-aarch64-linux-gnu libc6-dev-arm64-cross"},
	{"windows", "amd64"}: {"x86_64-w64-mingw32-gcc", "gcc-mingw-w64-x86-64-win32"},
}

// MissingCompilerError reports a target whose C compiler is not installed.
type MissingCompilerError struct {
	Target   Target
	Command  string
	Packages string
}

func (e *MissingCompilerError) Error() string {
	return fmt.Sprintf("build for %s: no %s (apt-get install %s, or set CGO_ENABLED=0 for the pure Go build)",
		e.Target, e.Command, e.Packages)
}

// Program is what is built: a package of the module in folder Root, stamped
// with Version.
type Program struct {
	Root    string
	Package string
	Version string
}

// Build compiles p for t into the file out and says how: with cgo, or as pure
// Go. Cgo is used wherever a compiler for t is known, save with CGO_ENABLED=0
// in the environment. The host falls back to pure Go when it has no compiler;
// another target that lacks its own is a MissingCompilerError. Two builds of
// the same source give the same bytes.
func (p Program) Build(ctx context.Context, t Target, out string) (how string, err error) {
	cc, err := t.compiler()
	if err != nil {
		return "", err
	}
	out, err = filepath.Abs(out)
	if err != nil {
		return "", fmt.Errorf("build for %s: %w", t, err)
	}
	ldflags := "-s -w -X main.version=" + p.Version
	how = "pure Go"
	env := []string{"CGO_ENABLED=0"}
	if cc != "" {
		how = "cgo with " + cc
		env = []string{"CGO_ENABLED=1", "CC=" + cc, "CGO_CFLAGS=-O2", "CGO_LDFLAGS="}
		if t.OS != "darwin" {
			ldflags += " -linkmode=external -extldflags=-static"
		}
	}
	args := []string{
		"build", "-trimpath", "-buildvcs=false", "-tags", t.tags(), "-ldflags", ldflags, "-o", out,
	}
	if t.OS == "darwin" {
		for _, pattern := range compact {
			args = append(args, "-gcflags="+pattern+"=-l")
		}
	}
	env = append(env, "GOOS="+t.OS, "GOARCH="+t.Arch, "GOAMD64=v1", "GOARM64=v8.0", "GOFLAGS=-mod=readonly")
	cmd := exec.CommandContext(ctx, "go", append(args, p.Package)...)
	cmd.Dir = p.Root
	cmd.Env = append(os.Environ(), env...)
	var output bytes.Buffer
	cmd.Stdout, cmd.Stderr = &output, &output
	if err := cmd.Run(); err != nil {
		return "", fmt.Errorf("build %s for %s: %w\n%s", p.Package, t, err, bytes.TrimSpace(output.Bytes()))
	}
	return how, nil
}

// compact are packages in which nothing is inlined on darwin, where two
// programs share one file: it saves a twelfth of the download. The runtime and
// our own code, save the sign-in, are not among them.
var compact = []string{
	"net/...", "vendor/...", "crypto/x509/...", "crypto/tls", "encoding/...", "mime/...", "text/...", "html/...",
	"os/...", "log/...", "reflect", "regexp/...", "compress/...", "math/big", "time", "fmt", "strconv",
	"github.com/...", "go.yaml.in/...", "golang.org/...", "howett.net/...", "modernc.org/...",
	"bellman.sh/desktop/internal/oauth/...", "bellman.sh/desktop/internal/keychain", "bellman.sh/desktop/internal/policy",
}

// tags returns the build tags. A static program on Linux cannot use the name
// look-ups of the C library; elsewhere those of the system are the ones that
// know about VPNs and directory services.
func (t Target) tags() string {
	if t.OS == "linux" {
		return "netgo,osusergo,sqlite_omit_load_extension"
	}
	return "sqlite_omit_load_extension"
}

// compiler returns the C compiler for t, or none for the pure Go build.
func (t Target) compiler() (string, error) {
	if os.Getenv("CGO_ENABLED") == "0" {
		return "", nil
	}
	if t == Host() || t.OS == "darwin" && runtime.GOOS == "darwin" {
		return hostCompiler(), nil
	}
	c, ok := compilers[t]
	if !ok {
		return "", nil
	}
	if _, err := exec.LookPath(c.command); errors.Is(err, exec.ErrNotFound) {
		return "", &MissingCompilerError{t, c.command, c.packages}
	} else if err != nil {
		return "", fmt.Errorf("build for %s: %w", t, err)
	}
	return c.command, nil
}

// Compilers returns the C compilers that a release uses, sorted.
func Compilers() []string {
	names := []string{hostCompiler()}
	for t, c := range compilers {
		if t != Host() {
			names = append(names, c.command)
		}
	}
	names = slices.DeleteFunc(names, func(name string) bool { return name == "" })
	slices.Sort(names)
	return names
}

// Ready returns a MissingCompilerError for a target whose C compiler is not
// installed, the host's own included. With CGO_ENABLED=0 none is needed.
func (t Target) Ready() error {
	cc, err := t.compiler()
	if err == nil && cc == "" && t == Host() && os.Getenv("CGO_ENABLED") != "0" {
		return &MissingCompilerError{t, "gcc", "gcc libc6-dev"}
	}
	return err
}

func hostCompiler() string {
	for _, name := range []string{os.Getenv("CC"), "gcc", "clang", "cc"} {
		command, _, _ := strings.Cut(name, " ")
		if command == "" {
			continue
		}
		if _, err := exec.LookPath(command); err == nil {
			return name
		}
	}
	return ""
}
