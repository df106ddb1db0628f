package main_test

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode/utf16"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/policy"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"howett.net/plist"
)

// template returns one file of the templates.
func template(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join("fleet", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// linux returns the policy that the template for Linux sets, as the bridge
// reads it, and its keys. It has every key there is.
func linux(t *testing.T) (policy.Policy, []string) {
	t.Helper()
	p, err := policy.ReadFile("fleet/linux/policy.json")
	if err != nil {
		t.Fatal(err)
	}
	v := reflect.ValueOf(p)
	for i := range v.NumField() {
		if v.Field(i).IsZero() {
			t.Errorf("the template does not set %s", v.Type().Field(i).Name)
		}
	}
	var m map[string]any
	if err := json.Unmarshal(template(t, "linux/policy.json"), &m); err != nil {
		t.Fatal(err)
	}
	return p, slices.Sorted(maps.Keys(m))
}

// Every system's template sets the same, as the bridge reads it there. Folders
// are spelt as each system does.
func TestTemplatesSetTheSameEverywhere(t *testing.T) {
	want, _ := linux(t)
	for name, read := range map[string]func(t *testing.T) (policy.Policy, error){
		"macOS": func(t *testing.T) (policy.Policy, error) {
			t.Helper()
			return policy.ReadPreferences(payload(t, "macos/bellman.mobileconfig", policy.Domain))
		},
		"Windows": func(t *testing.T) (policy.Policy, error) {
			t.Helper()
			values := registryFile(t, "windows/bellman.reg")
			if values["uploadRoot"] == `C:\Bellman` {
				values["uploadRoot"] = "/C/Bellman" // absolute where this test runs
			}
			data, err := json.Marshal(values)
			if err != nil {
				return policy.Policy{}, err
			}
			path := filepath.Join(t.TempDir(), "policy.json")
			return readBack(path, data)
		},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := read(t)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(policy.Policy{}, "Origin", "UploadRoot")); diff != "" {
				t.Errorf("policy (-linux +%s):\n%s", name, diff)
			}
			if got.UploadRoot == "" {
				t.Error("no upload folder")
			}
		})
	}
}

func readBack(path string, data []byte) (policy.Policy, error) {
	if err := os.WriteFile(path, data, 0o600); err != nil {
		return policy.Policy{}, err
	}
	return policy.ReadFile(path)
}

// payload writes what a configuration profile sets in a domain as macOS does
// when it installs the profile.
func payload(t *testing.T, name, domain string) string {
	t.Helper()
	var profile struct {
		PayloadContent []map[string]any
		PayloadType    string
	}
	if _, err := plist.Unmarshal(template(t, name), &profile); err != nil {
		t.Fatal(err)
	}
	for _, content := range profile.PayloadContent {
		if content["PayloadType"] != domain {
			continue
		}
		data, err := plist.Marshal(content, plist.BinaryFormat)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), domain+".plist")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	t.Fatalf("%s has no payload for %s", name, domain)
	return ""
}

var registryLine = regexp.MustCompile(`^"([^"]+)"=(?:"(.*)"|dword:([0-9a-f]{8})|hex\(7\):([0-9a-f,]+))$`)

// registryFile returns the values that a .reg file sets.
func registryFile(t *testing.T, name string) map[string]any {
	t.Helper()
	text := strings.ReplaceAll(registryText(t, name), "\r\n", "\n")
	text = strings.ReplaceAll(text, "\\\n  ", "")
	if !strings.HasPrefix(text, "Windows Registry Editor Version 5.00\n") {
		t.Fatalf("%s does not begin as the registry editor wants", name)
	}
	values := map[string]any{}
	for line := range strings.Lines(text) {
		m := registryLine.FindStringSubmatch(strings.TrimSpace(line))
		switch {
		case m == nil && strings.HasPrefix(line, `"`):
			t.Fatalf("%s: cannot read %q", name, line)
		case m == nil:
		case m[3] != "":
			values[m[1]] = m[3] == "00000001"
		case m[4] != "":
			values[m[1]] = multiString(t, m[4])
		default:
			values[m[1]] = strings.NewReplacer(`\\`, `\`, `\"`, `"`).Replace(m[2])
		}
	}
	return values
}

// registryText reads a file as the registry editor writes it: UTF-16 with a
// mark in front. In any other form a list is read wrongly.
func registryText(t *testing.T, name string) string {
	t.Helper()
	text, marked := strings.CutPrefix(wide(template(t, name)), "\ufeff")
	if !marked {
		t.Fatalf("%s is not UTF-16", name)
	}
	return text
}

func wide(raw []byte) string {
	var units []uint16
	for i := 0; i+1 < len(raw); i += 2 {
		units = append(units, uint16(raw[i])|uint16(raw[i+1])<<8)
	}
	return string(utf16.Decode(units))
}

func multiString(t *testing.T, text string) []string {
	t.Helper()
	raw, err := hex.DecodeString(strings.ReplaceAll(text, ",", ""))
	if err != nil || len(raw)%2 != 0 {
		t.Fatalf("read list %q: %v", text, err)
	}
	joined, ended := strings.CutSuffix(wide(raw), "\x00\x00")
	if !ended {
		t.Fatalf("list %q does not end with two zeros", joined)
	}
	return strings.Split(joined, "\x00")
}

// Windows' own tool imports the file, and the bridge that ships for Windows
// says what is in force.
func TestRegistryFileGovernsTheBridge(t *testing.T) {
	env := wine(t)
	dir, _ := install(t)
	ask := func(name string, args ...string) string {
		cmd := exec.CommandContext(t.Context(), "wine", append([]string{name}, args...)...)
		cmd.Env = env
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("%s %v: %v\n%s", name, args, err, out)
		}
		return string(out)
	}
	bridge := filepath.Join(dir, "server", "bellman-bridge.exe")
	if out := ask(bridge, "policy"); !strings.Contains(out, "no policy") {
		t.Errorf("before the import: %s", out)
	}
	t.Cleanup(func() {
		remove := exec.Command("wine", "reg", "delete", `HKLM\SOFTWARE\Policies\Bellman`, "/f")
		remove.Env = env
		_ = remove.Run()
	})
	ask("reg", "import", "fleet/windows/bellman.reg")
	out := ask(bridge, "policy")
	for key, value := range registryFile(t, "windows/bellman.reg") {
		want := fmt.Sprint(value)
		if list, ok := value.([]string); ok {
			want = strings.Join(list, " ")
		}
		if !regexp.MustCompile(key + `\s+` + regexp.QuoteMeta(want)).MatchString(out) {
			t.Errorf("no %s %s in force:\n%s", key, want, out)
		}
	}
	if !strings.Contains(out, `HKLM\SOFTWARE\Policies\Bellman`) {
		t.Errorf("it does not say where that stands:\n%s", out)
	}
	const key = `HKLM\SOFTWARE\Policies\Bellman`
	ask("reg", "add", key, "/v", "LogLevel", "/t", "REG_SZ", "/d", "error", "/f")
	ask("reg", "add", key, "/v", "uploadEnabled", "/t", "REG_DWORD", "/d", "0", "/f")
	if out := ask(bridge, "policy"); !regexp.MustCompile(`logLevel\s+error`).MatchString(out) || !regexp.MustCompile(`uploadEnabled\s+false`).MatchString(out) {
		t.Errorf("after reg add:\n%s", out)
	}
	ask("reg", "add", key, "/v", "serverAddress", "/t", "REG_SZ", "/d", "x", "/f")
	refused := exec.CommandContext(t.Context(), "wine", bridge, "policy")
	refused.Env = env
	if out, err := refused.CombinedOutput(); err == nil || !strings.Contains(string(out), "serverAddress: is not a key") {
		t.Errorf("a misspelt key: %v\n%s", err, out)
	}
}

// Group policy, Jamf and the script for Intune name every key and no other.
func TestTemplatesNameTheKeysOfThePolicy(t *testing.T) {
	_, want := linux(t)
	for name, pattern := range map[string]string{
		"windows/Bellman.admx":         `valueName="(\w+)"`,
		"jamf/sh.bellman.desktop.json": `(?m)^    "(\w+)": \{`,
		"intune/Set-BellmanPolicy.ps1": `-Name (\w+)`,
		"macos/bellman.mobileconfig":   `<key>([a-z]\w+)</key>`,
	} {
		var got []string
		for _, m := range regexp.MustCompile(pattern).FindAllStringSubmatch(string(template(t, name)), -1) {
			got = append(got, m[1])
		}
		slices.Sort(got)
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("keys of %s (-policy +template):\n%s", name, diff)
		}
	}
}

// A text or a form that group policy refers to and does not find makes the
// editor show nothing at all.
func TestGroupPolicyFindsItsTexts(t *testing.T) {
	admx, adml := template(t, "windows/Bellman.admx"), template(t, "windows/en-US/Bellman.adml")
	for name, data := range map[string][]byte{"admx": admx, "adml": adml} {
		for dec := xml.NewDecoder(strings.NewReader(string(data))); ; {
			if _, err := dec.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v", name, err)
			}
		}
	}
	for _, m := range regexp.MustCompile(`\$\((string|presentation)\.(\w+)\)`).FindAllSubmatch(admx, -1) {
		if !strings.Contains(string(adml), "<"+string(m[1])+` id="`+string(m[2])+`"`) {
			t.Errorf("there is no %s %s", m[1], m[2])
		}
	}
	for _, m := range regexp.MustCompile(`refId="(\w+)"`).FindAllSubmatch(adml, -1) {
		if !strings.Contains(string(admx), ` id="`+string(m[1])+`"`) {
			t.Errorf("a form fills in %s, which no policy has", m[1])
		}
	}
}

// The old names of Claude Desktop's own keys have stopped working: where only
// they are set, extensions count as forbidden.
func TestTemplatesUseTheNewNamesOfClaudeDesktop(t *testing.T) {
	for _, name := range []string{"macos/claude.mobileconfig", "windows/claude.reg"} {
		text := string(template(t, name))
		if strings.HasSuffix(name, ".reg") {
			text = registryText(t, name)
		}
		if strings.Contains(text, "Dxt") {
			t.Errorf("%s uses an old name", name)
		}
		for _, key := range []string{"isDesktopExtensionEnabled", "isDesktopExtensionDirectoryEnabled", "isDesktopExtensionSignatureRequired"} {
			if !strings.Contains(text, key) {
				t.Errorf("%s does not set %s", name, key)
			}
		}
	}
	payload(t, "macos/claude.mobileconfig", "com.anthropic.claudefordesktop")
}

// server is an entry of managedMcpServers.
type server struct {
	Name, Transport, Command string
	Args                     []string
	Env, ToolPolicy          map[string]string
}

func servers(t *testing.T, text []byte) []server {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.DisallowUnknownFields()
	var list []server
	if err := dec.Decode(&list); err != nil {
		t.Fatalf("%v in %s", err, text)
	}
	return list
}

// The entry for fleets without extensions starts the bridge as the bundle does,
// and what the profile and the registry hold is the same entry, as one text.
func TestManagedServerStartsTheBridge(t *testing.T) {
	entries := servers(t, template(t, "claude/managedMcpServers.json"))
	if len(entries) != 1 || !filepath.IsAbs(entries[0].Command) || entries[0].Transport != "stdio" {
		t.Fatalf("entries = %+v, want one with an absolute command", entries)
	}
	if diff := cmp.Diff([]string{"--bundle"}, entries[0].Args); diff != "" {
		t.Errorf("arguments (-want +got):\n%s", diff)
	}
	if entries[0].Env["BELLMAN_DELIVERY"] != "queue" || entries[0].Env["BELLMAN_KEY"] != "" {
		t.Errorf("environment = %v", entries[0].Env)
	}
	tools := map[string]bool{"bellman_*": true}
	for _, tool := range append(bellman.ServiceTools(), bellman.LocalTools()...) {
		tools[tool.Name] = true
	}
	for tool, rule := range entries[0].ToolPolicy {
		if !tools[tool] || !slices.Contains([]string{"allow", "ask", "blocked"}, rule) {
			t.Errorf("rule %q for %q", rule, tool)
		}
	}
	var profile map[string]any
	data, err := os.ReadFile(payload(t, "macos/claude-servers.mobileconfig", "com.anthropic.claudefordesktop"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := plist.Unmarshal(data, &profile); err != nil {
		t.Fatal(err)
	}
	for name, value := range map[string]any{
		"macOS": profile["managedMcpServers"], "Windows": registryFile(t, "windows/claude-servers.reg")["managedMcpServers"],
	} {
		text, ok := value.(string)
		if !ok {
			t.Fatalf("%s: it is a %T and no text", name, value)
		}
		if diff := cmp.Diff(entries, servers(t, []byte(text)), cmpopts.IgnoreFields(server{}, "Command")); diff != "" {
			t.Errorf("%s (-file +template):\n%s", name, diff)
		}
	}
}
