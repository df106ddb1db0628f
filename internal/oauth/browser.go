package oauth

import (
	"context"
	"fmt"
	"os/exec"
)

// OpenBrowser starts the person's browser on link, without a shell, detached,
// and with nothing on its standard streams. It returns when the launcher has
// started, or why it cannot: no launcher, no display, or a link that is not
// plain http or https.
func OpenBrowser(ctx context.Context, link string) error {
	u, err := parseURL(link)
	if err != nil {
		return fmt.Errorf("open a browser: %w", err)
	}
	name, args, err := launcher(u.String())
	if err != nil {
		return fmt.Errorf("open a browser: %w", err)
	}
	if ctx.Err() != nil {
		return ctx.Err()
	}
	// Not bound to ctx: the browser outlives the call that opened it.
	cmd := exec.Command(name, args...) //nolint:noctx // See above.
	detach(cmd)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("open a browser: %w", err)
	}
	// Nobody needs to know how it ends, but an unreaped child stays a zombie.
	go func() { _ = cmd.Wait() }()
	return nil
}
