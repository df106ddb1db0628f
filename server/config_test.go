package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/policy"
)

// with reads a configuration from an environment with a state directory.
func with(t *testing.T, managed policy.Policy, env map[string]string, args ...string) (config, error) {
	t.Helper()
	f, _, err := parseFlags(args)
	if err != nil {
		t.Fatal(err)
	}
	state := t.TempDir()
	return readConfig(f, func(name string) string {
		if value, ok := env[name]; ok {
			return value
		}
		return map[string]string{"BELLMAN_STATE_DIR": state}[name]
	}, managed)
}

// A literal ${HOME} or ~ in a path: hosts pass defaults and what people type
// through unread. Only at the beginning, and only as a whole word.
func TestALiteralHomeInAPathIsTheHome(t *testing.T) {
	home, err := os.UserHomeDir()
	if err != nil {
		t.Fatal(err)
	}
	for typed, want := range map[string]string{
		"~": home, "~/x": filepath.Join(home, "x"), "${HOME}/x y": filepath.Join(home, "x y"), "$HOME/x": filepath.Join(home, "x"),
		"%USERPROFILE%/x": filepath.Join(home, "x"), "${HOME}": home,
		"/a/~/b": filepath.FromSlash("/a/~/b"), "/a/${HOME}": filepath.FromSlash("/a/${HOME}"),
	} {
		if runtime.GOOS == "windows" && strings.HasPrefix(typed, "/") {
			continue
		}
		c, err := with(t, policy.Policy{}, map[string]string{"BELLMAN_UPLOAD_ROOT": typed, "BELLMAN_STATE_DIR": typed}, "--bundle")
		if err != nil || c.upload.Root != want || c.dir != filepath.Join(want, "claude-desktop") {
			t.Errorf("%q: uploads from %q, state in %q, err = %v; want %q", typed, c.upload.Root, c.dir, err, want)
		}
	}
	for _, typed := range []string{"~x/y", "~other/y", "$HOMEx", "$HOMEY", "%USERPROFILE%y", "${HOMEx}/y", "x/y", "./x"} {
		if c, err := with(t, policy.Policy{}, map[string]string{"BELLMAN_UPLOAD_ROOT": typed}); err == nil {
			t.Errorf("%q was taken as %q", typed, c.upload.Root)
		}
	}
}

// A setting nobody filled in arrives as the host's own placeholder, or empty:
// both are as if it were not there, on the command line too.
func TestAPlaceholderCountsAsUnset(t *testing.T) {
	for _, unset := range []string{"", " ", "${user_config.bellman_url}", " ${user_config.x} "} {
		c, err := with(t, policy.Policy{}, map[string]string{
			"BELLMAN_URL": unset, "BELLMAN_KEY": unset, "BELLMAN_UPLOAD_ROOT": unset, "BELLMAN_LOG": unset, "BELLMAN_PROFILE": unset,
			"BELLMAN_NO_BROWSER": unset, "BELLMAN_NOTICE": unset, "BELLMAN_CREDENTIAL_STORE": unset, "BELLMAN_DELIVERY": unset,
		}, "--bundle", "--url", unset, "--key", unset)
		if err != nil || c.server.String() != defaultURL || c.key != "" || c.upload.Root != "" || c.profile != "claude-desktop" ||
			c.store != "keychain" || c.noBrowser || !c.notice || c.level.String() != "INFO" {
			t.Errorf("%q: %+v, err = %v", unset, c, err)
		}
	}
	if c, err := with(t, policy.Policy{}, map[string]string{"BELLMAN_URL": "http://127.0.0.1:1/mcp"}, "--url", "${user_config.bellman_url}"); err != nil || c.server.Port() != "1" {
		t.Errorf("a placeholder as a flag hides the environment: %v, %v", c.server, err)
	}
}

// A key comes out of files and secret stores with the end of its line.
func TestAKeyLosesTheWhiteSpaceAroundIt(t *testing.T) {
	if c, err := with(t, policy.Policy{}, map[string]string{"BELLMAN_KEY": " qk_1\r\n"}); err != nil || c.key != "qk_1" {
		t.Errorf("key %q, %v", c.key, err)
	}
	if c, err := with(t, policy.Policy{}, map[string]string{"BELLMAN_KEY": "qk 1"}); err == nil {
		t.Errorf("%q was taken for a key", c.key)
	}
}

// What a person is told to run is about the profile they are told it for.
func TestACommandNamesTheProfileUnlessItIsTheDefault(t *testing.T) {
	for want, flags := range map[string][]string{
		"bellman-bridge login":                          nil,
		"bellman-bridge --profile claude-desktop login": {"--bundle"},
	} {
		if c, err := with(t, policy.Policy{}, nil, flags...); err != nil || c.command("login") != want {
			t.Errorf("%q, %v; want %q", c.command("login"), err, want)
		}
	}
}

// Policy comes first, then the flag, then the environment, then the default.
func TestPolicyThenFlagThenEnvironment(t *testing.T) {
	env := map[string]string{"BELLMAN_URL": "https://env.example/mcp", "BELLMAN_LOG": "debug", "BELLMAN_UPLOAD_ROOT": "/env"}
	flags := []string{"--url", "https://flag.example/mcp", "--log", "warn", "--upload-root", "/flag"}
	pinned := policy.Policy{ServerURL: "https://pin.example/mcp", LogLevel: "error", UploadRoot: "/pin", Origin: "the policy"}
	for name, tt := range map[string]struct {
		managed             policy.Policy
		env                 map[string]string
		flags               []string
		server, level, root string
	}{
		"policy":      {pinned, env, flags, "https://pin.example/mcp", "ERROR", "/pin"},
		"flag":        {policy.Policy{}, env, flags, "https://flag.example/mcp", "WARN", "/flag"},
		"environment": {policy.Policy{}, env, nil, "https://env.example/mcp", "DEBUG", "/env"},
		"default":     {policy.Policy{}, nil, []string{"--bundle"}, defaultURL, "INFO", ""},
	} {
		c, err := with(t, tt.managed, tt.env, tt.flags...)
		if err != nil || c.server.String() != tt.server || c.level.String() != tt.level || c.upload.Root != filepath.FromSlash(tt.root) {
			t.Errorf("%s: %s %s %q, err = %v", name, c.server, c.level, c.upload.Root, err)
		}
	}
}

// What policy forbids is refused in the words a person can take to the
// administrator, and says where the policy stands.
func TestWhatPolicyForbidsIsManagedByYourOrganization(t *testing.T) {
	off, on := false, true
	for name, tt := range map[string]struct {
		managed policy.Policy
		env     map[string]string
		want    string // empty: allowed
	}{
		"another server":         {policy.Policy{AllowedServerURLs: []string{"https://a.example/mcp"}}, map[string]string{"BELLMAN_URL": "https://b.example/mcp"}, "BELLMAN_URL"},
		"the default, not named": {policy.Policy{AllowedServerURLs: []string{"https://a.example/mcp"}}, nil, "BELLMAN_URL"},
		"a server of the list":   {policy.Policy{AllowedServerURLs: []string{"https://a.example/mcp"}}, map[string]string{"BELLMAN_URL": "https://A.example:443/mcp/"}, ""},
		"a file for the sign-in": {policy.Policy{CredentialStore: "keychain"}, map[string]string{"BELLMAN_CREDENTIAL_STORE": "file"}, "BELLMAN_CREDENTIAL_STORE"},
		"the store it pins":      {policy.Policy{CredentialStore: "memory"}, map[string]string{"BELLMAN_CREDENTIAL_STORE": "memory"}, ""},
	} {
		tt.managed.Origin = "/etc/bellman/policy.json"
		_, err := with(t, tt.managed, tt.env)
		if tt.want == "" {
			if err != nil {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), "managed by your organization (/etc/bellman/policy.json)") {
			t.Errorf("%s: err = %v", name, err)
		}
	}
	c, err := with(t, policy.Policy{UploadEnabled: &off, UploadRoot: "/pin"}, map[string]string{"BELLMAN_UPLOAD_ROOT": "/"})
	if err != nil || c.upload.Root != "" || !strings.Contains(c.upload.Refusal, "managed by your organization") {
		t.Errorf("uploads are off: %+v, %v", c.upload, err)
	}
	if c, err = with(t, policy.Policy{UploadEnabled: &on}, map[string]string{"BELLMAN_UPLOAD_ROOT": "/"}); err != nil || c.upload.Root != "/" {
		t.Errorf("uploads are on: %+v, %v", c.upload, err)
	}
}

// A sign-in never travels in the clear, and an address holds no secret.
func TestServersThatAreTaken(t *testing.T) {
	for address, want := range map[string]string{
		"https://A.Example/mcp":         "https://a.example/mcp",
		"HTTPS://a.example:443/mcp/":    "https://a.example/mcp",
		"https://a.example:8443/mcp":    "https://a.example:8443/mcp",
		" https://a.example/mcp?x=1#y ": "https://a.example/mcp",
		"http://127.0.0.1:80/mcp":       "http://127.0.0.1/mcp",
		"http://[::1]:3900/mcp":         "http://[::1]:3900/mcp",
		"http://localhost:3900/mcp":     "http://localhost:3900/mcp",
	} {
		if u, err := parseServer(address); err != nil || u.String() != want {
			t.Errorf("%q = %v, %v; want %s", address, u, err, want)
		}
	}
	for _, address := range []string{
		"a.example/mcp", "ftp://a.example", "http://a.example/mcp", "http://10.0.0.1/mcp", "http://localhost.a.example/mcp",
		"https://me:hunter2@a.example/mcp", "https:///mcp", "http://a.example/?hunter2", "::",
	} {
		u, err := parseServer(address)
		if err == nil {
			t.Errorf("%q was taken as %s", address, u)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("%q: the error tells a secret: %v", address, err)
		}
	}
}

// A name for a state is a name and no way out of the state directory.
func TestProfilesThatAreNoPlainName(t *testing.T) {
	for _, profile := range []string{"..", ".", ".x", "a/b", `a\b`, "C:x", "/a", strings.Repeat("x", 65)} {
		if c, err := with(t, policy.Policy{}, nil, "--profile", profile); err == nil {
			t.Errorf("%q keeps its state in %s", profile, c.dir)
		}
	}
	if c, err := with(t, policy.Policy{}, nil, "--profile", "my work-2"); err != nil || filepath.Base(c.dir) != "my work-2" {
		t.Errorf("%s, %v", c.dir, err)
	}
}

// Claude Desktop's own folders, as each system has them. The app from
// Microsoft's store keeps its files in a folder of the package.
func TestWhereClaudeDesktopKeepsItsFiles(t *testing.T) {
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	store := filepath.Join(home, "store", "Packages", "Claude_abc123", "LocalCache", "Roaming", "Claude")
	own := filepath.Join(home, "plain", "Claude", "logs")
	for _, dir := range []string{store, own} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	at := func(parts ...string) string { return filepath.Join(append([]string{home}, parts...)...) }
	for name, tt := range map[string]struct {
		system, appData, local, config string
		folder, logs                   string // below home
	}{
		"macOS":                  {"darwin", "", "", "", "Library/Application Support/Claude", "Library/Logs/Claude"},
		"Linux":                  {"linux", "", "", "", ".config/Claude", ".config/Claude/logs"},
		"Linux, elsewhere":       {"linux", "", "", at("cfg"), "cfg/Claude", "cfg/Claude/logs"},
		"Linux, a relative path": {"linux", "", "", "cfg", ".config/Claude", ".config/Claude/logs"},
		"Windows":                {"windows", at("roaming"), at("nothing"), "", "roaming/Claude", "roaming/Claude/logs"},
		"Windows, local logs":    {"windows", at("roaming"), at("plain"), "", "roaming/Claude", "plain/Claude/logs"},
		"Windows, from the store": {
			"windows", at("roaming"), at("store"), "", "store/Packages/Claude_abc123/LocalCache/Roaming/Claude",
			"store/Packages/Claude_abc123/LocalCache/Roaming/Claude/logs",
		},
	} {
		get := func(env string) string {
			return map[string]string{"APPDATA": tt.appData, "LOCALAPPDATA": tt.local, "XDG_CONFIG_HOME": tt.config}[env]
		}
		if dir, err := desktopFolder(tt.system, get); err != nil || dir != at(filepath.FromSlash(tt.folder)) {
			t.Errorf("%s: configuration in %s, %v", name, dir, err)
		}
		if dir, err := desktopLogs(tt.system, get); err != nil || dir != at(filepath.FromSlash(tt.logs)) {
			t.Errorf("%s: logs in %s, %v", name, dir, err)
		}
	}
	if dir, err := desktopFolder("windows", func(string) string { return "" }); err == nil {
		t.Errorf("without APPDATA: %s", dir)
	}
}
