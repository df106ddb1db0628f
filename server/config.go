package main

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/policy"
	"bellman.sh/desktop/internal/tools"
)

const defaultURL = "https://mcp.bellman.sh/mcp"

// Profiles that nobody names: of a terminal and of the bundle.
const (
	defaultProfile = "default"
	desktopProfile = "claude-desktop"
)

// config is what the bridge runs with: policy first, then flags, then the
// environment, then defaults.
type config struct {
	server    *url.URL
	key       string
	upload    tools.UploadPolicy
	noBrowser bool
	store     string // keychain, memory or file
	dir       string // state directory of the profile
	profile   string
	level     slog.Level
	notice    bool
	roomDir   string      // where .bellman/room.yaml may lie; empty in the bundle
	tls       *tls.Config // nil for the system's own authorities

	origin map[string]string // what each variable's value was read from
}

// setting is one variable with its flag.
type setting struct{ env, flag, about string }

var settings = []setting{
	{"BELLMAN_URL", "url", "the service's MCP URL (default " + defaultURL + ")"},
	{"BELLMAN_KEY", "key", "a static key instead of the browser sign-in"},
	{"BELLMAN_DELIVERY", "delivery", "how events reach the agent: queue, the only way here"},
	{"BELLMAN_UPLOAD_ROOT", "upload-root", "the folder files may be uploaded from; / for any file"},
	{"BELLMAN_NO_BROWSER", "no-browser", "on: never open a browser, show the link; off (default)"},
	{"BELLMAN_CREDENTIAL_STORE", "credential-store", "where the sign-in is kept: keychain (default), memory or file"},
	{"BELLMAN_STATE_DIR", "state-dir", "where the queue and the state are kept"},
	{"BELLMAN_PROFILE", "profile", "a name for a separate state (default claude-desktop in the bundle, else default)"},
	{"BELLMAN_LOG", "log", "debug, info (default), warn or error"},
	{"BELLMAN_NOTICE", "notice", "on (default) or off: tell in results that events wait"},
}

var commands = []string{"doctor", "install", "login", "logout", "policy", "status", "uninstall", "version", "whoami"}

// flagValues are the flags that were given, by variable.
type flagValues struct {
	set    *flag.FlagSet
	given  map[string]string
	bundle bool
	dryRun bool // install and uninstall show what they would do
	asJSON bool // doctor and status answer a program
}

// parseFlags reads flags before and after the command, which may be missing.
func parseFlags(args []string) (f flagValues, command string, err error) {
	f = flagValues{set: flag.NewFlagSet("bellman-bridge", flag.ContinueOnError), given: map[string]string{}}
	f.set.SetOutput(io.Discard)
	for _, s := range settings {
		f.set.Func(s.flag, s.about+" ("+s.env+")", func(v string) error {
			f.given[s.env] = v
			return nil
		})
	}
	f.set.BoolVar(&f.bundle, "bundle", false, "started from the Claude Desktop bundle")
	f.set.BoolVar(&f.dryRun, "dry-run", false, "install, uninstall: show what would change")
	f.set.BoolVar(&f.asJSON, "json", false, "doctor, status: answer in JSON")
	if err := f.set.Parse(args); err != nil {
		return f, "", err
	}
	if f.set.NArg() == 0 {
		return f, "", nil
	}
	command = f.set.Arg(0)
	if !slices.Contains(commands, command) {
		return f, "", fmt.Errorf("unknown command %q", command)
	}
	if err := f.set.Parse(f.set.Args()[1:]); err != nil {
		return f, "", err
	}
	if f.set.NArg() > 0 {
		return f, "", fmt.Errorf("%s takes no argument %q", command, f.set.Arg(0))
	}
	return f, command, nil
}

func (f flagValues) describe() string {
	var b strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&b, "  --%-17s %s (%s)\n", s.flag, s.about, s.env)
	}
	for _, more := range [][2]string{
		{"bundle", "started from the Claude Desktop bundle"},
		{"dry-run", "install, uninstall: show what would change"},
		{"json", "doctor, status: answer in JSON"},
	} {
		fmt.Fprintf(&b, "  --%-17s %s\n", more[0], more[1])
	}
	return b.String()
}

// lookup returns the value of a variable and what it was read from. An empty
// value and a placeholder that the host left in place count as unset.
func (f flagValues) lookup(getenv func(string) string, env string) (value, origin string) {
	if v, ok := f.given[env]; ok && !placeholder(v) {
		return v, "--" + settings[slices.IndexFunc(settings, func(s setting) bool { return s.env == env })].flag
	}
	if v := getenv(env); !placeholder(v) {
		return v, env
	}
	return "", env
}

func placeholder(v string) bool {
	v = strings.TrimSpace(v)
	return v == "" || strings.HasPrefix(v, "${user_config.")
}

func readConfig(f flagValues, getenv func(string) string, managed policy.Policy) (config, error) {
	c := config{origin: origins(f, getenv, managed), tls: authorities(runtime.GOOS, getenv("SSL_CERT_FILE"))}
	get := func(env string) (string, string) { return f.lookup(getenv, env) }
	address, origin := get("BELLMAN_URL")
	if managed.ServerURL != "" {
		address, origin = managed.ServerURL, c.origin["BELLMAN_URL"]
	}
	if address == "" {
		address = defaultURL
	}
	var err error
	if c.server, err = parseServer(address); err != nil {
		return c, fmt.Errorf("%s: %w", origin, err)
	}
	if !managed.AllowsServer(address) {
		return c, fmt.Errorf("%s: this server is not allowed: the servers are managed by your organization (%s)", origin, managed.Origin)
	}
	c.key, _ = get("BELLMAN_KEY")
	c.key = strings.TrimSpace(c.key) // as it comes out of a file or a secret store
	if strings.ContainsFunc(c.key, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return c, errors.New("BELLMAN_KEY: a key is printable ASCII without spaces")
	}
	if c.noBrowser, err = readSwitch(get("BELLMAN_NO_BROWSER")); err != nil {
		return c, err
	}
	for _, choice := range []struct {
		env, pinned string
		allowed     []string
		take        func(string)
	}{
		{"BELLMAN_DELIVERY", "", []string{"queue"}, func(string) {}},
		{"BELLMAN_CREDENTIAL_STORE", managed.CredentialStore, []string{"keychain", "memory", "file"}, func(v string) { c.store = v }},
		{"BELLMAN_LOG", managed.LogLevel, []string{"info", "debug", "warn", "error"}, func(v string) { _ = c.level.UnmarshalText([]byte(v)) }},
		{"BELLMAN_NOTICE", "", []string{"on", "off"}, func(v string) { c.notice = v == "on" }},
	} {
		v, origin := get(choice.env)
		if choice.pinned != "" {
			if v != "" && v != choice.pinned && choice.env == "BELLMAN_CREDENTIAL_STORE" {
				return c, fmt.Errorf("%s: %q is not allowed: the credential store is managed by your organization (%s)", origin, v, managed.Origin)
			}
			v = choice.pinned
		}
		if v == "" {
			v = choice.allowed[0]
		}
		if !slices.Contains(choice.allowed, v) {
			return c, fmt.Errorf("%s: %q is not one of %s", origin, v, strings.Join(choice.allowed, ", "))
		}
		choice.take(v)
	}
	if err := c.readPlaces(f, getenv); err != nil {
		return c, err
	}
	if !f.bundle {
		c.roomDir, _ = os.Getwd() // a folder that is gone holds no room file
	}
	c.upload, err = uploadPolicy(f, getenv, managed)
	return c, err
}

// command is what to type in a terminal to run one of the commands for this
// profile.
func (c config) command(name string) string {
	if c.profile == defaultProfile {
		return "bellman-bridge " + name
	}
	return "bellman-bridge --profile " + c.profile + " " + name
}

// readSwitch reads a setting that is on or off; unset is off.
func readSwitch(value, origin string) (bool, error) {
	switch strings.ToLower(value) {
	case "on", "1", "true", "yes":
		return true, nil
	case "", "off", "0", "false", "no":
		return false, nil
	}
	return false, fmt.Errorf("%s: %q is not on or off", origin, value)
}

// readPlaces fills in profile and directory.
func (c *config) readPlaces(f flagValues, getenv func(string) string) error {
	var origin string
	c.profile, origin = f.lookup(getenv, "BELLMAN_PROFILE")
	if c.profile == "" {
		c.profile = defaultProfile
		if f.bundle {
			c.profile = desktopProfile
		}
	}
	if !filepath.IsLocal(c.profile) || strings.ContainsAny(c.profile, `/\:`) || strings.HasPrefix(c.profile, ".") || len(c.profile) > 64 {
		return fmt.Errorf("%s: %q is not a plain name", origin, c.profile)
	}
	base, origin := f.lookup(getenv, "BELLMAN_STATE_DIR")
	base, err := expand(base)
	switch {
	case err != nil:
		return fmt.Errorf("%s: %w", origin, err)
	case base == "":
		if base, err = stateDir(getenv); err != nil {
			return err
		}
	case !filepath.IsAbs(base):
		return fmt.Errorf("%s: %q is not an absolute path", origin, base)
	}
	c.dir = filepath.Join(base, c.profile)
	return nil
}

// parseServer accepts an absolute https URL, or http on loopback: a token must
// not travel in the clear. It returns the canonical form, which names the
// service wherever it is named.
func parseServer(s string) (*url.URL, error) {
	if strings.Contains(s, "@") {
		return nil, errors.New("a URL with a name or password in it is not taken; sign in, or set BELLMAN_KEY")
	}
	shown, _, _ := strings.Cut(strings.TrimSpace(s), "?") // a query may hold a secret
	u, err := url.Parse(strings.TrimSpace(s))
	if err != nil || u.Host == "" {
		return nil, fmt.Errorf("%q is not the URL of a service", shown)
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	u.RawQuery, u.Fragment = "", ""
	u.Path = strings.TrimRight(u.Path, "/")
	switch u.Scheme {
	case "https":
		u.Host = strings.TrimSuffix(u.Host, ":443")
	case "http":
		u.Host = strings.TrimSuffix(u.Host, ":80")
		if !loopback(u.Hostname()) {
			return nil, fmt.Errorf("%q would send the sign-in unencrypted; use https", shown)
		}
	default:
		return nil, fmt.Errorf("%q is not an http or https URL", shown)
	}
	return u, nil
}

func loopback(host string) bool {
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.IsLoopback())
}

// expand replaces a leading ~ or ${HOME}: hosts pass both through unread.
func expand(path string) (string, error) {
	for _, home := range []string{"~", "${HOME}", "$HOME", "%USERPROFILE%"} {
		rest, ok := strings.CutPrefix(path, home)
		if !ok || (rest != "" && rest[0] != '/' && rest[0] != filepath.Separator) {
			continue
		}
		dir, err := os.UserHomeDir()
		if err != nil {
			return "", fmt.Errorf("%s: %w", home, err)
		}
		return filepath.Join(dir, rest), nil
	}
	return path, nil
}

// uploadPolicy decides what bellman_upload may read. In the bundle the working
// directory is Desktop's and never the person's choice, so it does not count.
func uploadPolicy(f flagValues, getenv func(string) string, managed policy.Policy) (tools.UploadPolicy, error) {
	if managed.UploadEnabled != nil && !*managed.UploadEnabled {
		return tools.UploadPolicy{Refusal: "uploads are managed by your organization and switched off"}, nil
	}
	root, origin := f.lookup(getenv, "BELLMAN_UPLOAD_ROOT")
	if managed.UploadRoot != "" {
		root, origin = managed.UploadRoot, "policy uploadRoot"
	}
	root, err := expand(root)
	switch {
	case err != nil:
		return tools.UploadPolicy{}, fmt.Errorf("%s: %w", origin, err)
	case root != "" && root != "/" && !filepath.IsAbs(root): // "/" means any file, on Windows too
		return tools.UploadPolicy{}, fmt.Errorf("%s: %q is not an absolute path", origin, root)
	case root == "/":
		return tools.UploadPolicy{Root: root}, nil
	case root != "":
		return tools.UploadPolicy{Root: filepath.Clean(root)}, nil
	case f.bundle:
		return tools.UploadPolicy{Refusal: "no Upload folder is set; the person can choose one in the Bellman extension's settings (Upload folder)"}, nil
	}
	cwd := "a folder that is gone"
	if dir, err := os.Getwd(); err == nil {
		cwd = dir
	}
	if !filepath.IsAbs(cwd) || tooWide(cwd) {
		return tools.UploadPolicy{Refusal: "the bridge was started in " + cwd + ", which is no project folder; set BELLMAN_UPLOAD_ROOT to the folder files may be uploaded from"}, nil
	}
	return tools.UploadPolicy{Root: cwd}, nil
}

// tooWide reports whether dir is a file system's root, the home directory or
// one above it.
func tooWide(dir string) bool {
	if real, err := filepath.EvalSymlinks(dir); err == nil {
		dir = real
	}
	if filepath.Dir(dir) == dir {
		return true
	}
	home, err := os.UserHomeDir()
	if err != nil {
		return false
	}
	if real, err := filepath.EvalSymlinks(home); err == nil {
		home = real
	}
	rel, err := filepath.Rel(dir, home)
	return err == nil && (rel == "." || filepath.IsLocal(rel))
}
