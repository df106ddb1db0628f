package main

import (
	"context"
	"fmt"
	"log/slog"

	"bellman.sh/desktop/internal/tools"
)

// whoami shows who peers see, from the cached sign-in.
func whoami(ctx context.Context, cfg config, s streams, log *slog.Logger) error {
	cred := lookUp(cfg)
	defer cred.close(ctx, log)
	who := cred.whoami()
	if who.Source == tools.SourceUnknown {
		return hinted{errSignedOut, "run " + cfg.command("login")}
	}
	fmt.Fprintln(s.out, describe(who))
	return nil
}
