// Command build packs Bellman for Claude Desktop, checks what it packed and
// shows it at work. Run it from the root of the repository: go run ./build.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// command is one subcommand. Run writes what a person asked for to the
// terminal's output and returns what went wrong.
type command struct {
	name, args, help string
	run              func(ctx context.Context, t terminal, args []string) error
}

// terminal is where a command writes: results to out, progress to err.
type terminal struct{ out, err io.Writer }

func (t terminal) say(format string, args ...any) {
	fmt.Fprintf(t.err, format+"\n", args...)
}

// commands returns the subcommands in the order the usage lists them.
func commands() []command {
	return []command{
		{"bundle", "[--platform host|all|darwin|linux|windows] [--out DIR]", "build the bridge and pack it into a bundle", bundle},
		{"release", `[--tag TAG] [--out DIR] [--minisign-key FILE] [--cosign-key FILE] [--bundle-cert FILE --bundle-key FILE]
           [--windows-cert FILE --windows-key FILE [--windows-timestamp URL]]
           [--apple-p12 FILE | --apple-identity NAME [--notary-profile NAME]]`, "make everything that is published for one version", release},
		{"smoke", "[FILE]", "unpack a bundle as badly as hosts do, start it here, ask for its tools", smoke},
		{"verify", "[--key FILE] [--cosign-key FILE] [--ca FILE] [--unsigned] FILE|DIR...", "check what was downloaded", verify},
		{"demo", "", "show the main job end to end, with what ships", runDemo},
		{"compile", "bridge|hub [--out DIR]", "build one program for this machine", compile},
		{"arrows", "LINTER", "break every arrow and see that the linter refuses it", arrows},
		{"bench", "", "measure against the budgets", runBench},
		{"icon", "[FILE]", "draw the icon", drawIcon},
	}
}

// usageError is a mistake in the arguments.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// run returns the exit code: 0 done, 1 failed, 2 wrong usage.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	if len(args) == 0 {
		usage(stderr)
		return 2
	}
	for _, c := range commands() {
		if c.name != args[0] {
			continue
		}
		err := c.run(ctx, terminal{stdout, stderr}, args[1:])
		if wrong, ok := errors.AsType[*usageError](err); ok {
			fmt.Fprintf(stderr, "build: %s: %s\nusage: go run ./build %s %s\n", c.name, wrong.text, c.name, c.args)
			return 2
		}
		if err != nil {
			fmt.Fprintf(stderr, "build: %s: %v\n", c.name, err)
			return 1
		}
		return 0
	}
	fmt.Fprintf(stderr, "build: there is no command %q\n", args[0])
	usage(stderr)
	return 2
}

func usage(w io.Writer) {
	fmt.Fprintln(w, "usage: go run ./build COMMAND")
	for _, c := range commands() {
		fmt.Fprintf(w, "  %-8s %s\n", c.name, c.help)
		if c.args != "" {
			fmt.Fprintf(w, "           %s\n", c.args)
		}
	}
}
