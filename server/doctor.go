package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"bellman.sh/desktop/internal/policy"
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

// fine reports what is as it should be.
func (c *checkup) fine(about, format string, args ...any) { c.add(about, "", format, args...) }

// bad reports what is not, with the next step for the person.
func (c *checkup) bad(about, next, format string, args ...any) { c.add(about, next, format, args...) }

func (c *checkup) add(about, next, format string, args ...any) {
	c.findings = append(c.findings, finding{About: about, Found: printable(fmt.Sprintf(format, args...)), Next: next})
}

// printable makes one line of text that comes from files, services and errors.
func printable(s string) string {
	return oneLine(strings.Map(func(r rune) rune {
		if strconv.IsPrint(r) {
			return r
		}
		return ' '
	}, s))
}

// errUnwell makes doctor exit with 1; what is wrong is in the report.
var errUnwell = errors.New("something needs doing; see the lines marked with →")

// doctor looks at everything the bridge depends on, settings and policy that
// cannot be used included. It opens no browser, reads no secret and changes
// nothing.
func doctor(ctx context.Context, f flagValues, managed policy.Policy, unreadable error, s streams, getenv func(string) string) error {
	c := &checkup{}
	c.fine("version", "%s, %s/%s, %s", currentVersion(), runtime.GOOS, runtime.GOARCH, runtime.Version())
	checkLaunch(c)
	checkPlaceholders(c, f, getenv)
	cfg, err := readConfig(f, getenv, managed)
	switch {
	case unreadable != nil:
		c.bad("policy", "ask your administrator; the bridge does not run without its policy", "%v", unreadable)
	case err != nil:
		checkPolicy(c, managed)
		c.bad("settings", "correct it in the extension's settings or where it is set; the bridge does not run with it", "%v", err)
	default:
		checkPolicy(c, managed)
		checkSettings(c, cfg)
		cred := lookUp(cfg)
		checkState(ctx, c, cfg, cred)
		checkService(ctx, c, cfg, getenv)
		checkCredential(ctx, c, cfg, cred)
		cred.close(ctx, slog.New(slog.DiscardHandler))
	}
	checkLog(c, getenv)
	return c.print(s.out, f.asJSON)
}

func (c *checkup) print(w io.Writer, asJSON bool) error {
	unwell := slices.ContainsFunc(c.findings, func(f finding) bool { return f.Next != "" })
	if asJSON {
		e := json.NewEncoder(w)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		if err := e.Encode(map[string]any{"well": !unwell, "findings": c.findings}); err != nil {
			return err
		}
	} else {
		for _, f := range c.findings {
			fmt.Fprintf(w, "%-13s %s\n", f.About+":", f.Found)
			if f.Next != "" {
				fmt.Fprintf(w, "%-13s → %s\n", "", f.Next)
			}
		}
	}
	if unwell {
		return errUnwell
	}
	return nil
}

// checkPolicy shows what is managed and where that stands.
func checkPolicy(c *checkup, managed policy.Policy) {
	if managed.Origin == "" {
		c.fine("policy", "none")
		return
	}
	c.fine("policy", "managed by your organization (%s)", managed.Origin)
	for _, s := range managedSettings(managed) {
		c.fine("policy", "%s = %s", s.key, s.value)
	}
}

// checkPlaceholders finds settings in which the host left its own placeholder.
func checkPlaceholders(c *checkup, f flagValues, getenv func(string) string) {
	for _, s := range settings {
		for _, raw := range []string{f.given[s.env], getenv(s.env)} {
			if strings.TrimSpace(raw) != "" && placeholder(raw) {
				name, _, _ := strings.Cut(strings.TrimSpace(raw), "}") // what follows may be anything
				c.fine("placeholder", "%s still holds %s}, which counts as unset", s.env, name)
			}
		}
	}
}

// checkSettings shows what the bridge runs with, and where each value comes
// from; never a key.
func checkSettings(c *checkup, cfg config) {
	show := func(about, env, format string, args ...any) {
		c.fine(about, "%s (%s)", fmt.Sprintf(format, args...), cfg.origin[env])
	}
	show("server", "BELLMAN_URL", "%s", cfg.server)
	if cfg.key != "" {
		show("key", "BELLMAN_KEY", "set, not shown")
	}
	if cfg.upload.Refusal != "" {
		show("uploads", "BELLMAN_UPLOAD_ROOT", "refused: %s", cfg.upload.Refusal)
	} else {
		show("uploads", "BELLMAN_UPLOAD_ROOT", "from %s", cfg.upload.Root)
	}
	show("browser", "BELLMAN_NO_BROWSER", "%s", onOff(!cfg.noBrowser))
	show("kept in", "BELLMAN_CREDENTIAL_STORE", "%s", cfg.store)
	show("profile", "BELLMAN_PROFILE", "%s", cfg.profile)
	show("state", "BELLMAN_STATE_DIR", "%s", cfg.dir)
	show("log", "BELLMAN_LOG", "%s", strings.ToLower(cfg.level.String()))
	show("notice", "BELLMAN_NOTICE", "%s", onOff(cfg.notice))
}

func onOff(on bool) string {
	if on {
		return "on"
	}
	return "off"
}
