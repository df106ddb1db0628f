package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"strings"

	"bellman.sh/desktop/internal/policy"
)

// Exit codes.
const (
	exitOK         = 0
	exitFailed     = 1
	exitUsage      = 2
	exitNeedSignIn = 4
)

type streams struct {
	in  io.Reader
	out io.Writer
	err io.Writer
}

// hinted is an error with the next step for the person beside it.
type hinted struct {
	error

	hint string
}

func (h hinted) Unwrap() error { return h.error }

// errSignedOut makes a command exit with exitNeedSignIn.
var errSignedOut = errors.New("nobody is signed in")

const usage = `usage: bellman-bridge [flags] [command]

Without a command it serves MCP on standard input and output, as Claude Desktop starts it.

commands:
  login     sign in with the browser
  logout    forget the sign-in of this profile
  whoami    show whom peers see
  status    show who is signed in, the rooms, how each is watched and what waits
  doctor    check everything the bridge depends on; the report holds no secret
  policy    show what the administrator of this machine has set
  install   write the bridge into Claude Desktop's configuration, without a bundle
  uninstall take it out again
  version   show the version

flags (each also by the environment variable named):
`

// run is the program: it returns the exit code.
func run(ctx context.Context, args []string, s streams, getenv func(string) string) int {
	flags, command, err := parseFlags(args)
	if err != nil {
		if errors.Is(err, flag.ErrHelp) {
			fmt.Fprint(s.err, usage, flags.describe())
			return exitOK
		}
		fmt.Fprintf(s.err, "bellman-bridge: %v\n\n%s%s", err, usage, flags.describe())
		return exitUsage
	}
	if command == "version" {
		fmt.Fprintf(s.out, "bellman-bridge %s\n", currentVersion())
		return exitOK
	}
	managed, err := policy.Read()
	if command == "doctor" {
		return report(s.err, doctor(ctx, flags, managed, err, s, getenv))
	}
	if err != nil {
		return unmanageable(ctx, command, s, err)
	}
	if command == "policy" {
		showPolicy(s.out, managed)
		return exitOK
	}
	cfg, err := readConfig(flags, getenv, managed)
	if err != nil {
		fmt.Fprintf(s.err, "bellman-bridge: %v\n\n%s%s", err, usage, flags.describe())
		return exitUsage
	}
	log := newLog(s.err, cfg.level)
	switch command {
	case "":
		err = serve(ctx, cfg, s, log)
	case "login":
		err = login(ctx, cfg, s, log)
	case "logout":
		err = logout(ctx, cfg, s, log)
	case "whoami":
		err = whoami(ctx, cfg, s, log)
	case "status":
		err = status(ctx, cfg, flags.asJSON, s, log)
	case "install":
		err = install(flags, getenv, s)
	case "uninstall":
		err = uninstall(flags, getenv, s)
	}
	return report(s.err, err)
}

// report prints what went wrong and what to do, and chooses the exit code.
func report(w io.Writer, err error) int {
	if err == nil {
		return exitOK
	}
	fmt.Fprintf(w, "bellman-bridge: %s\n", oneLine(err.Error()))
	if h, ok := errors.AsType[hinted](err); ok {
		fmt.Fprintf(w, "bellman-bridge: hint: %s\n", h.hint)
	}
	if errors.Is(err, errSignedOut) {
		return exitNeedSignIn
	}
	return exitFailed
}

func oneLine(s string) string { return strings.Join(strings.Fields(s), " ") }
