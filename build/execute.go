package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os/exec"
)

// toolPackages are the packages that bring the programs a release may need.
var toolPackages = map[string]string{
	"git":          "git",
	"minisign":     "minisign",
	"openssl":      "openssl",
	"osslsigncode": "osslsigncode",
}

// execute runs a program with input and returns its output. One that is not
// there is an error that names its package.
func execute(ctx context.Context, input []byte, name string, args ...string) ([]byte, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if errors.Is(err, exec.ErrNotFound) {
		if pkg, known := toolPackages[name]; known {
			return nil, fmt.Errorf("no %s here (apt-get install %s)", name, pkg)
		}
		return nil, fmt.Errorf("no %s here", name)
	}
	if err != nil {
		return nil, fmt.Errorf("run %s %s: %w: %s", name, args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return out, nil
}
