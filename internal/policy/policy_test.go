package policy_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/policy"

	"github.com/google/go-cmp/cmp"
)

const everything = `{
  "serverURL": "https://bellman.example.com/mcp",
  "allowedServerURLs": ["https://bellman.example.com/mcp", "https://mcp.bellman.sh/mcp"],
  "uploadRoot": "/srv/bellman",
  "uploadEnabled": false,
  "credentialStore": "keychain",
  "logLevel": "warn"
}`

func wantEverything(origin string) policy.Policy {
	no := false
	return policy.Policy{
		ServerURL:         "https://bellman.example.com/mcp",
		AllowedServerURLs: []string{"https://bellman.example.com/mcp", "https://mcp.bellman.sh/mcp"},
		UploadRoot:        "/srv/bellman",
		UploadEnabled:     &no,
		CredentialStore:   "keychain",
		LogLevel:          "warn",
		Origin:            origin,
	}
}

func write(t *testing.T, name, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func TestReadFileTakesEveryKey(t *testing.T) {
	path := write(t, "policy.json", everything)
	got, err := policy.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantEverything(path), got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

func TestNoFileIsNoPolicy(t *testing.T) {
	got, err := policy.ReadFile(filepath.Join(t.TempDir(), "policy.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(policy.Policy{}, got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

// What an administrator wrote but we do not understand is named, never ignored.
func TestMalformedPolicyIsRefused(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"empty file":        {"", "EOF"},
		"not json":          {"serverURL: x", "invalid character"},
		"not an object":     {`["a"]`, "not a JSON object"},
		"cut short":         {`{"logLevel": "warn"`, "EOF"},
		"two objects":       {`{} {}`, "something follows"},
		"misspelt key":      {`{"serverUrl": "https://a.example"}`, "serverUrl: is not a key"},
		"key twice":         {`{"logLevel": "warn", "logLevel": "debug"}`, "logLevel: stands there twice"},
		"wrong type":        {`{"serverURL": true}`, "serverURL: is not a string"},
		"null":              {`{"serverURL": null}`, "serverURL: is not a string"},
		"boolean as text":   {`{"uploadEnabled": "false"}`, "uploadEnabled: is not a boolean"},
		"list as text":      {`{"allowedServerURLs": "https://a.example"}`, "allowedServerURLs: is not a list"},
		"list of numbers":   {`{"allowedServerURLs": [1]}`, "allowedServerURLs: is not a list"},
		"empty list":        {`{"allowedServerURLs": []}`, "allowedServerURLs: is empty"},
		"not an address":    {`{"serverURL": "bellman.example.com"}`, "serverURL:"},
		"file address":      {`{"serverURL": "file:///etc"}`, "serverURL:"},
		"address with key":  {`{"serverURL": "https://me:hunter2@a.example"}`, "serverURL: holds more"},
		"key in a query":    {`{"serverURL": "https://a.example/mcp?key=hunter2"}`, "serverURL: holds more"},
		"key in a fragment": {`{"allowedServerURLs": ["https://a.example/mcp#hunter2"]}`, "allowedServerURLs: holds more"},
		"relative folder":   {`{"uploadRoot": "uploads"}`, "uploadRoot:"},
		"unknown store":     {`{"credentialStore": "plain"}`, "credentialStore:"},
		"unknown level":     {`{"logLevel": "chatty"}`, "logLevel:"},
		"pin not allowed":   {`{"serverURL": "https://a.example", "allowedServerURLs": ["https://b.example"]}`, "not among"},
		"empty server":      {`{"serverURL": ""}`, "serverURL:"},
		"too large":         {`{"logLevel": "` + strings.Repeat("w", 1<<20) + `"}`, "larger than"},
		"every fault named": {`{"logLevel": "x", "uploadRoot": "y"}`, "logLevel:"},
	} {
		t.Run(name, func(t *testing.T) {
			path := write(t, "policy.json", tt.content)
			got, err := policy.ReadFile(path)
			if err == nil {
				t.Fatalf("policy = %+v, want an error with %q", got, tt.want)
			}
			if !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), path) {
				t.Errorf("err = %v, want %q and the path", err, tt.want)
			}
			if strings.Contains(err.Error(), "hunter2") {
				t.Errorf("the error tells a secret: %v", err)
			}
			if diff := cmp.Diff(policy.Policy{}, got); diff != "" {
				t.Errorf("policy beside the error (-want +got):\n%s", diff)
			}
		})
	}
}

// A policy that is there and cannot be opened must stop the caller.
func TestUnreadablePolicyIsAnError(t *testing.T) {
	if _, err := policy.ReadFile(t.TempDir()); err == nil {
		t.Error("a folder in the place of the file: no error")
	}
	inFile := filepath.Join(write(t, "etc", "x"), "policy.json")
	if _, err := policy.ReadFile(inFile); err == nil {
		t.Error("a file in the place of the folder: no error")
	}
	if os.Geteuid() == 0 {
		t.Log("root reads everything: the mode of the file is not tried")
		return
	}
	path := write(t, "policy.json", everything)
	if err := os.Chmod(path, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := policy.ReadFile(path); err == nil {
		t.Error("a file without read permission: no error")
	}
}

const plistHead = `<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST 1.0//EN" "http://www.apple.com/DTDs/PropertyList-1.0.dtd">
<plist version="1.0"><dict>`

const plistTail = `</dict></plist>`

func TestReadPreferencesTakesEveryKey(t *testing.T) {
	path := write(t, "sh.bellman.desktop.plist", plistHead+`
<key>PayloadUUID</key><string>0C4F6E0B-6C1E-4B84-9B0F-1D6C6A7B1E11</string>
<key>serverURL</key><string>https://bellman.example.com/mcp</string>
<key>allowedServerURLs</key><array><string>https://bellman.example.com/mcp</string><string>https://mcp.bellman.sh/mcp</string></array>
<key>uploadRoot</key><string>/srv/bellman</string>
<key>uploadEnabled</key><false/>
<key>credentialStore</key><string>keychain</string>
<key>logLevel</key><string>warn</string>`+plistTail)
	got, err := policy.ReadPreferences(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wantEverything("managed preferences sh.bellman.desktop"), got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

// The preferences of the person win over those of the machine, key by key.
func TestLaterPreferencesOverride(t *testing.T) {
	machine := write(t, "machine.plist", plistHead+`<key>logLevel</key><string>warn</string><key>uploadEnabled</key><true/>`+plistTail)
	person := write(t, "person.plist", plistHead+`<key>uploadEnabled</key><false/>`+plistTail)
	missing := filepath.Join(t.TempDir(), "missing.plist")
	got, err := policy.ReadPreferences(machine, missing, person)
	if err != nil {
		t.Fatal(err)
	}
	if got.LogLevel != "warn" || got.UploadEnabled == nil || *got.UploadEnabled {
		t.Errorf("policy = %+v, want warn from the machine and no uploads from the person", got)
	}
}

func TestMalformedPreferencesAreRefused(t *testing.T) {
	for name, tt := range map[string]struct{ content, want string }{
		"not a list":      {"bplist00 and then nothing", "property list"},
		"unknown key":     {plistHead + `<key>server</key><string>x</string>` + plistTail, "server: is not a key"},
		"like Apple's":    {plistHead + `<key>Paylaod</key><string>x</string>` + plistTail, "Paylaod: is not a key"},
		"number":          {plistHead + `<key>uploadEnabled</key><integer>1</integer>` + plistTail, "uploadEnabled: is not a boolean"},
		"list of numbers": {plistHead + `<key>allowedServerURLs</key><array><integer>1</integer></array>` + plistTail, "allowedServerURLs: is not a list"},
		"array at the top": {
			`<?xml version="1.0"?><plist version="1.0"><array><string>a</string></array></plist>`, "property list",
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := policy.ReadPreferences(write(t, "p.plist", tt.content))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("policy = %+v, err = %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}

func TestAllowsServer(t *testing.T) {
	pinned := policy.Policy{ServerURL: "https://Bellman.example.com/mcp"}
	only := policy.Policy{AllowedServerURLs: []string{"https://a.example/mcp"}}
	listed := policy.Policy{AllowedServerURLs: []string{"https://a.example/mcp", "http://127.0.0.1:3900/mcp"}}
	for _, tt := range []struct {
		name    string
		policy  policy.Policy
		address string
		want    bool
	}{
		{"no policy", policy.Policy{}, "https://anything.example/mcp", true},
		{"the pin", pinned, "https://bellman.example.com/mcp", true},
		{"the pin, spelt otherwise", pinned, "HTTPS://bellman.example.com:443/mcp/", true},
		{"another path", pinned, "https://bellman.example.com/other", false},
		{"another scheme", pinned, "http://bellman.example.com/mcp", false},
		{"another port", pinned, "https://bellman.example.com:8443/mcp", false},
		{"a host that begins like the pin", pinned, "https://bellman.example.com.evil.example/mcp", false},
		{"the pin as a user name", pinned, "https://bellman.example.com@evil.example/mcp", false},
		{"a query", pinned, "https://bellman.example.com/mcp?x=1", false},
		{"in the list", listed, "http://127.0.0.1:3900/mcp", true},
		{"not in the list", listed, "http://127.0.0.1:3901/mcp", false},
		{"the only one of the list", only, "https://a.example/mcp", true},
		{"not the only one of the list", only, "https://b.example/mcp", false},
		{"nothing", listed, "", false},
		{"not an address", listed, "::", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if got := tt.policy.AllowsServer(tt.address); got != tt.want {
				t.Errorf("AllowsServer(%q) = %t, want %t", tt.address, got, tt.want)
			}
		})
	}
}

// Whatever stands in the file, reading it ends with a policy that holds only
// values we know or with an error; it never panics.
func FuzzReadFile(f *testing.F) {
	f.Add([]byte(everything), false)
	f.Add([]byte(`{"logLevel":"warn"}`), false)
	f.Add([]byte(plistHead+`<key>logLevel</key><string>warn</string>`+plistTail), true)
	f.Add([]byte("bplist00"), true)
	path := filepath.Join(f.TempDir(), "policy")
	f.Fuzz(func(t *testing.T, content []byte, preferences bool) {
		if err := os.WriteFile(path, content, 0o600); err != nil {
			t.Fatal(err)
		}
		read := policy.ReadFile
		if preferences {
			read = func(path string) (policy.Policy, error) { return policy.ReadPreferences(path) }
		}
		p, err := read(path)
		if err != nil {
			return
		}
		switch p.LogLevel {
		case "", "debug", "info", "warn", "error":
		default:
			t.Errorf("log level %q went through", p.LogLevel)
		}
		if p.ServerURL != "" && !p.AllowsServer(p.ServerURL) {
			t.Errorf("the pinned server %q is not allowed", p.ServerURL)
		}
	})
}

// A file that was cut to nothing, or is of a form that no profile has, is no
// machine without policy.
func TestEmptyPreferencesAreNotNoPolicy(t *testing.T) {
	for _, text := range []string{"", " \n", "{}", `{ serverURL = "https://a.example"; }`} {
		path := filepath.Join(t.TempDir(), "sh.bellman.desktop.plist")
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if p, err := policy.ReadPreferences(path); err == nil {
			t.Errorf("%q was read as %+v", text, p)
		}
	}
}
