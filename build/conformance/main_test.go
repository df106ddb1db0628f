// Package conformance_test lets the public MCP conformance suite judge the
// product: the hub as a server, and the bridge between a host and a service.
// The suite is a program of others, installed by build/setup.sh; everything it
// needs around it is this test binary, started again in another role.
package conformance_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// roleVariable says which part a started copy of the test binary plays.
const roleVariable = "CONFORMANCE_ROLE"

// bridge is the program under test, built by TestMain.
var bridge string

func TestMain(m *testing.M) {
	switch os.Getenv(roleVariable) {
	case "host":
		os.Exit(exit(playHost(context.Background(), os.Args[len(os.Args)-1])))
	case "browser":
		os.Exit(exit(approve(context.Background(), os.Args[len(os.Args)-1])))
	}
	os.Exit(run(m))
}

func exit(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "role:", err)
		return 1
	}
	return 0
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("", "conformance-")
	if err != nil {
		return exit(err)
	}
	defer os.RemoveAll(dir)
	bridge = filepath.Join(dir, "bellman-bridge")
	build := exec.Command("go", "build", "-o", bridge, "bellman.sh/desktop/server")
	if out, err := build.CombinedOutput(); err != nil {
		return exit(fmt.Errorf("build the bridge: %w\n%s", err, out))
	}
	return m.Run()
}
