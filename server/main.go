// Command bellman-bridge connects Claude Desktop to the Bellman service.
// Without a command it serves MCP on standard input and output; login, logout,
// status and version are for people. See README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	stdout := os.Stdout
	os.Stdout = os.Stderr // standard output carries JSON-RPC and nothing else
	code := run(ctx, os.Args[1:], streams{os.Stdin, stdout, os.Stderr}, os.Getenv)
	stop()
	os.Exit(code)
}
