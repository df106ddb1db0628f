package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"bellman.sh/desktop/internal/keychain"
	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// checkState looks at the state directory and the queue in it.
func checkState(ctx context.Context, c *checkup, cfg config, cred *credential) {
	const next = "set BELLMAN_STATE_DIR to a folder you can write to, or free some space"
	dir := cfg.dir // or where it will be made
	for !exists(dir) && filepath.Dir(dir) != dir {
		dir = filepath.Dir(dir)
	}
	probe, err := os.CreateTemp(dir, "doctor-*")
	if err != nil {
		c.bad("files", next, "%v", err)
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	if dir != cfg.dir {
		c.fine("files", "none yet; the first start makes them")
		return
	}
	checkModes(c, cfg.dir)
	checkQueue(ctx, c, cfg, cred)
}

// checkModes finds what others on this machine could read. Windows has no such
// modes; there the folder of the person is closed by itself.
func checkModes(c *checkup, dir string) {
	if runtime.GOOS == "windows" {
		return
	}
	for _, path := range append(filesIn(dir, "*"), dir) {
		if info, err := os.Lstat(path); err == nil && info.Mode().Perm()&0o077 != 0 {
			c.bad("files", fmt.Sprintf("chmod go= %q", path), "%s is open to others: mode %v", path, info.Mode().Perm())
		}
	}
}

// filesIn lists what in dir fits the pattern. The folder may have any name, one
// that reads like a pattern too.
func filesIn(dir, pattern string) []string {
	files, _ := fs.Glob(os.DirFS(dir), pattern) // the pattern is well formed
	for i, name := range files {
		files[i] = filepath.Join(dir, filepath.FromSlash(name))
	}
	return files
}

// checkQueue looks at the queue, at the bridges that share it, and at the rooms
// of whoever is signed in.
func checkQueue(ctx context.Context, c *checkup, cfg config, cred *credential) {
	for _, old := range filesIn(cfg.dir, "queue.db.corrupt-*") {
		c.fine("queue", "a corrupt file was set aside: %s", old)
	}
	var id queue.Identity // of nobody, without rooms
	if known, ok := cred.identity(); ok {
		id = known
	}
	o, err := queue.Inspect(ctx, filepath.Join(cfg.dir, "queue.db"), id)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		c.fine("queue", "none yet")
		return
	case err != nil:
		c.bad("queue", "restart the bridge; if it stays, move the state directory away", "%v", err)
		return
	}
	if id == (queue.Identity{}) {
		c.fine("queue", "readable; rooms are hidden until somebody signs in")
	} else {
		c.fine("queue", "%d rooms; %d events waiting, %d of them interrupting", len(o.Rooms), o.Waiting.Events, o.Waiting.Interrupting)
	}
	for _, b := range o.Bridges {
		c.fine("bridge", "process %d, since %s, watches %d rooms", b.PID, b.Since.UTC().Format(time.RFC3339), b.Rooms)
	}
	for _, r := range o.Rooms {
		checkRoom(c, r, len(o.Bridges) > 0)
	}
}

// checkRoom shows who watches a room and how that goes.
func checkRoom(c *checkup, r queue.RoomView, served bool) {
	var found strings.Builder
	fmt.Fprintf(&found, "%s: %s", r.Room, r.State)
	if r.Holder != 0 {
		fmt.Fprintf(&found, " by process %d", r.Holder)
	}
	if !r.Since.IsZero() {
		fmt.Fprintf(&found, " since %s", r.Since.UTC().Format(time.RFC3339))
	}
	for _, m := range r.Members {
		fmt.Fprintf(&found, "; %s has read to %d, %d waiting", m.ID, m.Fetched, m.Waiting)
	}
	var next string
	switch r.State {
	case queue.StatePaused:
		next = "have the agent call bellman_wait until nothing waits; if it stays, free some disk space"
	case queue.StateWaiting:
		next = "see what is said of the service and the sign-in; the watch goes on by itself"
	case queue.StateUnwatched:
		if served {
			next = "restart Claude Desktop if this is still so in a minute"
		}
	}
	c.add("room", next, "%s", &found)
	if r.Problem != "" {
		c.fine("last error", "%s, in room %s: %s", r.ProblemAt.UTC().Format(time.RFC3339), r.Room, r.Problem)
	}
}

// lookUp returns the credential as another process finds it: it takes nothing
// from the store and moves nothing there.
func lookUp(cfg config) *credential {
	c := &credential{cfg: cfg}
	if cfg.key != "" {
		return c
	}
	var store oauth.Store
	switch cfg.store {
	case "memory":
		store = oauth.MemoryStore()
	case "file":
		store = oauth.FileStore(oauth.CredentialFile(cfg.dir, cfg.server.String()))
	default:
		store = keychain.New(keychainService, oauth.ItemName(cfg.server.String(), cfg.profile))
	}
	c.session = begin(func() (*oauth.Session, error) {
		return oauth.New(oauth.Config{
			Server: cfg.server.String(), Dir: cfg.dir, Profile: cfg.profile, Store: store, TLS: cfg.tls, Log: slog.New(slog.DiscardHandler),
		})
	})
	return c
}

// checkCredential looks at the sign-in as the state file has it, and at
// whether the keychain answers. No item of the keychain is read.
func checkCredential(ctx context.Context, c *checkup, cfg config, cred *credential) {
	switch who := cred.whoami(); {
	case who.Source == tools.SourceEnv:
		c.fine("sign-in", "by BELLMAN_KEY")
		return
	case who.Source == tools.SourceOAuth:
		c.fine("sign-in", "%s (plan %s, role %s)", who.Label, who.Plan, who.Role)
	case cfg.store == "memory":
		c.fine("sign-in", "kept in the memory of each running bridge, where nobody else can look")
	default:
		c.bad("sign-in", "run "+cfg.command("login")+", or let the first call of a tool open the browser", "nobody is signed in")
	}
	if cfg.store != "keychain" {
		return
	}
	if err := keychain.Probe(ctx); err != nil {
		c.bad("keychain", "unlock or install one, set BELLMAN_KEY, or allow a file with BELLMAN_CREDENTIAL_STORE=file", "%v", err)
		return
	}
	c.fine("keychain", "there and unlocked")
}
