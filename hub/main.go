// Command bellman-hub serves Bellman rooms from one machine, for trying,
// testing and self-hosting.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

// version is set by the build, from the manifest of the extension.
var version = "development"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}
