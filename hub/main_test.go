package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"
)

// The program itself is a command of the scripts, so that they see its exit
// codes and streams.
func TestMain(m *testing.M) {
	if os.Getenv(childEnv) != "" {
		main()
	}
	testscript.Main(m, map[string]func(){
		"bellman-hub": func() {
			ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
		},
	})
}

// The command line: what it prints where, and how it exits.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("BELLMAN_KEYS", "")
			return nil
		},
	})
}
