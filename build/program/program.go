// Package program runs the programs of others that a release needs, and says
// which package brings one that is missing.
package program

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// sources says how to get a program.
var sources = map[string]string{
	"git":          "apt-get install git",
	"minisign":     "apt-get install minisign",
	"openssl":      "apt-get install openssl",
	"osslsigncode": "apt-get install osslsigncode",
	"cosign":       "go install github.com/sigstore/cosign/v3/cmd/cosign@v3.1.3",
	"quill":        "go install github.com/anchore/quill/cmd/quill@v0.5.1",
	"codesign":     "only macOS has it",
	"xcrun":        "only macOS has it, with Xcode",
}

// Need returns nil when the program is there, and otherwise an error that
// names it and where it comes from.
func Need(name string) error {
	_, err := exec.LookPath(name)
	if !errors.Is(err, exec.ErrNotFound) {
		return err
	}
	if source, known := sources[name]; known {
		return fmt.Errorf("no %s here (%s)", name, source)
	}
	return fmt.Errorf("no %s here", name)
}

// Run gives a program its input and returns its output. Its complaints are in
// the error. It blocks until the program has ended, which the end of ctx
// brings about.
func Run(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	if err := Need(name); err != nil {
		return nil, err
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("run %s %s: %w: %s", name, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}

// Ask runs a program that may ask the person at the terminal for a password:
// it gets the input and the error output of this process.
func Ask(ctx context.Context, name string, args ...string) error {
	if err := Need(name); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin, cmd.Stderr = os.Stdin, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("run %s %s: %w", name, args[0], err)
	}
	return nil
}
