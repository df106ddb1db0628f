package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"bellman.sh/desktop/internal/keychain"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// status shows who is signed in, the rooms of that identity and what waits. It
// opens nothing that is not there yet and asks neither the service nor the
// keychain's items.
func status(ctx context.Context, cfg config, s streams, log *slog.Logger) error {
	quiet := slog.New(slog.DiscardHandler)
	cred := openCredential(ctx, cfg, nil, quiet)
	defer cred.close(ctx, log)
	who := cred.whoami()
	fmt.Fprintf(s.out, "version:    %s\nserver:     %s\nprofile:    %s\nstate:      %s\n", currentVersion(), cfg.server, cfg.profile, cfg.dir)
	fmt.Fprintf(s.out, "signed in:  %s\n", describe(who))
	if cfg.key == "" {
		fmt.Fprintf(s.out, "kept in:    %s\n", keptIn(ctx, cfg))
	}
	err := showRooms(ctx, cfg, cred, s.out, quiet)
	if err == nil && who.Source == tools.SourceUnknown {
		return hinted{errSignedOut, "run bellman-bridge login, or let the first call of a tool open the browser"}
	}
	return err
}

// keptIn names where the sign-in is kept, and why it is not the keychain.
func keptIn(ctx context.Context, cfg config) string {
	if cfg.store != "keychain" {
		return cfg.store
	}
	if err := keychain.Probe(ctx); err != nil {
		return fmt.Sprintf("memory (%v)", err)
	}
	return cfg.store
}

func describe(w tools.Whoami) string {
	switch w.Source {
	case tools.SourceOAuth:
		return fmt.Sprintf("%s (plan %s, role %s)", w.Label, w.Plan, w.Role)
	case tools.SourceEnv:
		return "by BELLMAN_KEY"
	}
	return "no"
}

func showRooms(ctx context.Context, cfg config, cred *credential, w io.Writer, log *slog.Logger) error {
	path := filepath.Join(cfg.dir, "queue.db")
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintln(w, "rooms:      none yet")
		return nil
	}
	q, err := queue.Open(ctx, path, log)
	if err != nil {
		return err
	}
	defer func() { _ = q.Close() }()
	id, known := cred.identity()
	if !known {
		fmt.Fprintln(w, "rooms:      hidden until somebody signs in")
		return nil
	}
	all, err := q.Memberships(ctx, id)
	if err != nil {
		return err
	}
	waiting, err := q.Pending(ctx, id, queue.Filter{})
	if err != nil {
		return err
	}
	fmt.Fprintf(w, "waiting:    %d events, %d of them interrupting, in %d rooms\nrooms:      %d\n", waiting.Events, waiting.Interrupting, waiting.Rooms, len(all))
	for _, m := range all {
		p, err := q.Pending(ctx, id, queue.Filter{Room: m.Room, Member: m.ID})
		if err != nil {
			return err
		}
		fmt.Fprintf(w, "  %s  %s  %s, read to %d, %d waiting, last used %s\n", m.Room, m.ID, condition(m), m.Fetched, p.Events, m.Touched.Local().Format(time.DateTime))
	}
	return nil
}

func condition(m queue.Membership) string {
	switch {
	case m.Ended != "":
		return "ended (" + m.Ended + ")"
	case m.Full:
		return "paused (the queue is full)"
	case !m.Watchable(time.Now()):
		return "idle"
	}
	return "watched"
}
