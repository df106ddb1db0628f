package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	"bellman.sh/desktop/internal/keychain"
	"bellman.sh/desktop/internal/policy"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// finding is one line of the report. Next is empty when nothing is to be done.
type finding struct {
	About string `json:"about"`
	Found string `json:"found"`
	Next  string `json:"next,omitempty"`
}

// checkup is what a person can paste into a report: it holds no secret.
type checkup struct {
	findings []finding
}

func (c *checkup) fine(about, format string, args ...any) {
	c.findings = append(c.findings, finding{About: about, Found: fmt.Sprintf(format, args...)})
}

func (c *checkup) bad(about, next, format string, args ...any) {
	c.findings = append(c.findings, finding{About: about, Found: fmt.Sprintf(format, args...), Next: next})
}

// errUnwell makes doctor exit with 1; what is wrong is in the report.
var errUnwell = errors.New("something needs doing; see the lines marked with →")

// doctor looks at everything the bridge depends on. It opens no browser and
// reads no secret.
func doctor(ctx context.Context, f flagValues, cfg config, managed policy.Policy, s streams, getenv func(string) string) error {
	c := &checkup{}
	c.fine("version", "%s, %s/%s, %s", currentVersion(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	checkLaunch(c)
	checkSettings(c, f, cfg, getenv)
	if managed.Origin != "" {
		c.fine("policy", "managed by your organization (%s)", managed.Origin)
	} else {
		c.fine("policy", "none")
	}
	checkState(ctx, c, cfg)
	checkService(ctx, c, cfg)
	checkCredential(ctx, c, cfg)
	return c.print(s.out, f.asJSON)
}

func (c *checkup) print(w io.Writer, asJSON bool) error {
	unwell := false
	for _, f := range c.findings {
		unwell = unwell || f.Next != ""
	}
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]any{"well": !unwell, "findings": c.findings}); err != nil {
			return err
		}
	} else {
		for _, f := range c.findings {
			fmt.Fprintf(w, "%-12s %s\n", f.About+":", f.Found)
			if f.Next != "" {
				fmt.Fprintf(w, "%-12s → %s\n", "", f.Next)
			}
		}
	}
	if unwell {
		return errUnwell
	}
	return nil
}

// checkLaunch shows how this program was started and what lies on its file.
func checkLaunch(c *checkup) {
	self, err := os.Executable()
	if err != nil {
		c.bad("program", "install it again", "its file is not known: %v", err)
		return
	}
	info, err := os.Stat(self)
	if err != nil {
		c.bad("program", "install it again", "%v", err)
		return
	}
	c.fine("program", "%s, mode %v, %d bytes", self, info.Mode().Perm(), info.Size())
	if mark := quarantine(self); mark != "" {
		c.bad("quarantine", "xattr -d com.apple.quarantine "+fmt.Sprintf("%q", self), "macOS holds the program back: %s", mark)
	}
	if cwd, err := os.Getwd(); err == nil {
		c.fine("started in", "%s", cwd)
	}
}

// checkSettings names each setting and where it comes from, never a key.
func checkSettings(c *checkup, f flagValues, cfg config, getenv func(string) string) {
	var set []string
	for _, s := range settings {
		value, origin := f.lookup(getenv, s.env)
		if raw := getenv(s.env); strings.HasPrefix(strings.TrimSpace(raw), "${user_config.") {
			c.fine("placeholder", "%s still holds %s, which counts as unset", s.env, raw)
		}
		if value != "" {
			set = append(set, origin)
		}
	}
	if len(set) == 0 {
		set = []string{"nothing, all defaults"}
	}
	c.fine("set by hand", "%s", strings.Join(set, ", "))
	c.fine("server", "%s", cfg.server)
	if cfg.upload.Refusal != "" {
		c.fine("uploads", "refused: %s", cfg.upload.Refusal)
	} else {
		c.fine("uploads", "from %s", cfg.upload.Root)
	}
	for _, env := range []string{"HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY", "https_proxy", "http_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR"} {
		if getenv(env) != "" {
			c.fine("network", "%s is set", env)
		}
	}
}

// checkState looks at the state directory and the queue.
func checkState(ctx context.Context, c *checkup, cfg config) {
	c.fine("state", "%s (profile %s)", cfg.dir, cfg.profile)
	if err := makeDir(cfg.dir); err != nil {
		c.bad("state", "set BELLMAN_STATE_DIR to a folder you can write to", "%v", err)
		return
	}
	probe, err := os.CreateTemp(cfg.dir, "doctor-*")
	if err != nil {
		c.bad("state", "set BELLMAN_STATE_DIR to a folder you can write to, or free some space", "%v", err)
		return
	}
	_ = probe.Close()
	_ = os.Remove(probe.Name())
	aside, _ := filepath.Glob(filepath.Join(cfg.dir, "queue.db.corrupt-*")) // the pattern is well formed
	for _, old := range aside {
		c.fine("queue", "a corrupt file was set aside: %s", old)
	}
	q, err := queue.Open(ctx, filepath.Join(cfg.dir, "queue.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		c.bad("queue", "events are not kept until this is mended", "%v", err)
		return
	}
	defer func() { _ = q.Close() }()
	cred := openCredential(ctx, cfg, nil, slog.New(slog.DiscardHandler))
	defer cred.close(ctx, slog.New(slog.DiscardHandler))
	id, known := cred.identity()
	if !known {
		c.fine("queue", "readable; rooms are hidden until somebody signs in")
		return
	}
	all, err := q.Memberships(ctx, id)
	if err != nil {
		c.bad("queue", "restart the bridge; if it stays, move the state directory away", "%v", err)
		return
	}
	p, err := q.Pending(ctx, id, queue.Filter{})
	if err != nil {
		c.bad("queue", "restart the bridge; if it stays, move the state directory away", "%v", err)
		return
	}
	watched := 0
	for _, m := range all {
		if m.Full {
			c.bad("queue", "have the agent call bellman_wait until it is empty", "room %s is paused at the queue's bound", m.Room)
		}
		if m.Watchable(time.Now()) {
			watched++
		}
	}
	c.fine("queue", "%d rooms, %d of them watched while a bridge runs; %d events waiting", len(all), watched, p.Events)
}

// checkCredential looks at the sign-in and the keychain, without reading it.
func checkCredential(ctx context.Context, c *checkup, cfg config) {
	quiet := slog.New(slog.DiscardHandler)
	cred := openCredential(ctx, cfg, nil, quiet)
	defer cred.close(ctx, quiet)
	switch who := cred.whoami(); who.Source {
	case tools.SourceEnv:
		c.fine("sign-in", "by BELLMAN_KEY")
		return
	case tools.SourceOAuth:
		c.fine("sign-in", "%s (plan %s, role %s)", who.Label, who.Plan, who.Role)
	default:
		c.bad("sign-in", "run bellman-bridge login, or let the first call of a tool open the browser", "nobody is signed in")
	}
	if cfg.store != "keychain" {
		c.fine("kept in", "%s", cfg.store)
		return
	}
	if err := keychain.Probe(ctx); err != nil {
		c.bad("keychain", "unlock or install one, set BELLMAN_KEY, or allow a file with BELLMAN_CREDENTIAL_STORE=file", "%v", err)
		return
	}
	c.fine("keychain", "there and unlocked")
}
