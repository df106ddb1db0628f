package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
)

// Exit codes.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// errUsage reports a command line that makes no sense; the usage has been
// shown.
var errUsage = errors.New("usage")

const usage = `usage: bellman-hub <command> [flags]

commands:
  serve     serve rooms until interrupted
  check     verify a data directory
  backup    copy a data directory while it is being served
  key       add, list or revoke static keys
  room      freeze or thaw a room
  version   print the version

Run "bellman-hub <command> --help" for its flags.
`

// command is one subcommand. Run gets what follows the subcommand's name.
type command struct {
	name string
	run  func(ctx context.Context, c console, args []string) error
}

// console is where a command gets its environment and writes to.
type console struct {
	getenv      func(string) string
	out, errOut io.Writer
}

func commands() []command {
	return []command{
		{"serve", serve},
		{"check", check},
		{"backup", backup},
		{"key", keyCommand},
		{"room", roomCommand},
		{"version", printVersion},
	}
}

// run runs the command line and returns the exit code. Errors are one line.
func run(ctx context.Context, args []string, getenv func(string) string, out, errOut io.Writer) int {
	c := console{getenv: getenv, out: out, errOut: errOut}
	if len(args) == 0 {
		_, _ = io.WriteString(errOut, usage)
		return exitUsage
	}
	if args[0] == "help" || args[0] == "--help" || args[0] == "-h" {
		_, _ = io.WriteString(out, usage)
		return exitOK
	}
	for _, cmd := range commands() {
		if cmd.name != args[0] {
			continue
		}
		err := cmd.run(ctx, c, args[1:])
		switch {
		case err == nil, errors.Is(err, flag.ErrHelp):
			return exitOK
		case errors.Is(err, errUsage):
			return exitUsage
		}
		_, _ = fmt.Fprintf(errOut, "bellman-hub: %v\n", err)
		return exitFailed
	}
	_, _ = fmt.Fprintf(errOut, "bellman-hub: unknown command %q\n%s", args[0], usage)
	return exitUsage
}

// newFlags returns a flag set that reports to the console.
func (c console) newFlags(name, synopsis string) *flag.FlagSet {
	flags := flag.NewFlagSet(name, flag.ContinueOnError)
	flags.SetOutput(c.errOut)
	flags.Usage = func() {
		_, _ = fmt.Fprintf(c.errOut, "usage: bellman-hub %s\n\nflags:\n", synopsis)
		flags.PrintDefaults()
	}
	return flags
}

// parse reads the flags and refuses what is left over beyond want arguments.
func parse(flags *flag.FlagSet, args []string, want int) error {
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return err
		}
		return errUsage
	}
	if flags.NArg() != want {
		return misused(flags, "got %d arguments, want %d", flags.NArg(), want)
	}
	return nil
}

// misused shows what is wrong and the usage.
func misused(flags *flag.FlagSet, format string, args ...any) error {
	_, _ = fmt.Fprintf(flags.Output(), "bellman-hub: "+format+"\n", args...)
	flags.Usage()
	return errUsage
}
