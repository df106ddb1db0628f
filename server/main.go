// Command bellman-bridge connects Claude Desktop to the Bellman service.
// Without a command it serves MCP on standard input and output; login, logout,
// status and version are for people. See README.md.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	spareMemory()
	stdout := os.Stdout
	os.Stdout = os.Stderr // standard output carries JSON-RPC and nothing else
	code := run(ctx, os.Args[1:], streams{os.Stdin, stdout, os.Stderr}, os.Getenv)
	stop()
	os.Exit(code)
}

// spareMemory has memory collected sooner than Go would by itself: the bridge
// mostly waits, in the background of somebody's laptop. GOGC still counts.
func spareMemory() {
	if os.Getenv("GOGC") == "" {
		debug.SetGCPercent(50)
	}
}
