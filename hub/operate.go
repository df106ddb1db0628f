package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"text/tabwriter"

	"bellman.sh/desktop/internal/hub"
)

// operate opens the data directory for an operator's command.
func operate(ctx context.Context, c console, data string, f func(o *hub.Operator) error) (err error) {
	o, err := hub.OpenOperator(ctx, data, slog.New(slog.NewTextHandler(c.errOut, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, o.Close()) }()
	return f(o)
}

// dataFlag is the flag every operator's command has.
func dataFlag(flags *flag.FlagSet) *string {
	return flags.String("data", defaultData, "`directory` of all state")
}

// check verifies a data directory.
func check(ctx context.Context, c console, args []string) error {
	flags := c.newFlags("check", "check [flags]")
	data := dataFlag(flags)
	if err := parse(flags, args, 0); err != nil {
		return err
	}
	return operate(ctx, c, *data, func(o *hub.Operator) error {
		rooms, err := o.Check(ctx)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintf(c.out, "ok: %d rooms\n", rooms)
		return err
	})
}

// backup copies a data directory while a hub may be serving it.
func backup(ctx context.Context, c console, args []string) error {
	flags := c.newFlags("backup", "backup [flags] <new directory>")
	data := dataFlag(flags)
	if err := parse(flags, args, 1); err != nil {
		return err
	}
	return operate(ctx, c, *data, func(o *hub.Operator) error { return o.Backup(ctx, flags.Arg(0)) })
}

// roomCommand freezes and thaws rooms.
func roomCommand(ctx context.Context, c console, args []string) error {
	flags := c.newFlags("room", "room freeze|thaw [flags] <session id>")
	data := dataFlag(flags)
	action, err := subcommand(flags, args, 1, "freeze", "thaw")
	if err != nil {
		return err
	}
	return operate(ctx, c, *data, func(o *hub.Operator) error {
		if action == "freeze" {
			return o.Freeze(ctx, flags.Arg(0))
		}
		return o.Thaw(ctx, flags.Arg(0))
	})
}

// subcommand reads the action before the flags; want is how many arguments
// follow them.
func subcommand(flags *flag.FlagSet, args []string, want int, actions ...string) (string, error) {
	for _, action := range actions {
		if len(args) > 0 && args[0] == action {
			return action, parse(flags, args[1:], want)
		}
	}
	if len(args) > 0 && (args[0] == "-h" || args[0] == "--help") {
		flags.Usage()
		return "", flag.ErrHelp
	}
	return "", misused(flags, "want one of %v", actions)
}

// keyCommand adds, lists and revokes static keys.
func keyCommand(ctx context.Context, c console, args []string) error {
	flags := c.newFlags("key", "key add|list|revoke [flags] [<name>]")
	data := dataFlag(flags)
	user := flags.String("user", "", "user `id`; u_key_<name> when empty")
	label := flags.String("label", "", "what others in a room see; the name when empty")
	org := flags.String("org", "", "organization `id`, if any")
	plan := flags.String("plan", "team", "free, pro, max or team")
	role := flags.String("role", "member", "member or admin")
	want := 1
	if len(args) > 0 && args[0] == "list" {
		want = 0
	}
	action, err := subcommand(flags, args, want, "add", "list", "revoke")
	if err != nil {
		return err
	}
	name := flags.Arg(0)
	return operate(ctx, c, *data, func(o *hub.Operator) error {
		switch action {
		case "list":
			return listKeys(ctx, c, o)
		case "revoke":
			return o.RevokeKey(ctx, name)
		}
		id := hub.Identity{UserID: *user, Plan: *plan, Role: *role, Label: *label}
		if id.UserID == "" {
			id.UserID = "u_key_" + name
		}
		if id.Label == "" {
			id.Label = name
		}
		if *org != "" {
			id.OrgID = org
		}
		key, err := o.AddKey(ctx, name, id)
		if err != nil {
			return err
		}
		_, err = fmt.Fprintln(c.out, key)
		return err
	})
}

func listKeys(ctx context.Context, c console, o *hub.Operator) error {
	keys, err := o.Keys(ctx)
	if err != nil {
		return err
	}
	table := tabwriter.NewWriter(c.out, 0, 0, 2, ' ', 0)
	for _, k := range keys {
		id := k.Identity
		if _, err := fmt.Fprintf(table, "%s\t%s\t%s\t%s\t%s\t%s\n", k.Name, id.Label, id.UserID, id.Org(), id.Plan, id.Role); err != nil {
			return err
		}
	}
	return table.Flush()
}
