package mcpb_test

import (
	"encoding/json"
	"strings"
	"testing"

	"bellman.sh/desktop/build/mcpb"

	"github.com/google/go-cmp/cmp"
)

// edit returns the manifest of the repository with one value changed. The path
// names keys; a nil value takes the key away.
func edit(t *testing.T, path string, value any) []byte {
	t.Helper()
	var m map[string]any
	if err := json.Unmarshal(manifest(t), &m); err != nil {
		t.Fatal(err)
	}
	keys := strings.Split(path, "/")
	at := m
	for _, key := range keys[:len(keys)-1] {
		next, ok := at[key].(map[string]any)
		if !ok {
			t.Fatalf("no object at %s", key)
		}
		at = next
	}
	if last := keys[len(keys)-1]; value == nil {
		delete(at, last)
	} else {
		at[last] = value
	}
	data, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// One key outside the schema, or one that a host would not fill, makes an
// extension that installs nowhere or starts wrongly.
func TestManifestOutOfStepIsRefused(t *testing.T) {
	if _, err := mcpb.ParseManifest(manifest(t)); err != nil {
		t.Fatalf("the manifest of the repository: %v", err)
	}
	for name, tt := range map[string]struct {
		path  string
		value any
		want  string
	}{
		"unknown key":              {"entitlements", "x", "entitlements"},
		"schema of a tool":         {"tools", []any{map[string]any{"name": "a", "description": "b", "inputSchema": "c"}}, "inputSchema"},
		"another version":          {"manifest_version", "0.4", "manifest_version"},
		"version without a patch":  {"version", "1.2", "1.2"},
		"version with a v":         {"version", "v1.2.3", "v1.2.3"},
		"no name":                  {"name", nil, "name"},
		"no icon":                  {"icon", "", "icon"},
		"node":                     {"server/type", "node", "server.type"},
		"platform without command": {"server/mcp_config/platform_overrides/win32", nil, "win32"},
		"override by processor":    {"server/mcp_config/platform_overrides/darwin-arm64", map[string]any{}, "darwin-arm64"},
		"environment by platform":  {"server/mcp_config/platform_overrides/linux/env", map[string]any{"BELLMAN_DELIVERY": "queue"}, "env of linux"},
		"other value by platform":  {"server/mcp_config/platform_overrides/linux/env/BELLMAN_DELIVERY", "hook", "env of linux"},
		"no bundle flag":           {"server/mcp_config/platform_overrides/win32/args", []any{}, "args of win32"},
		"undeclared setting":       {"user_config/upload_root", nil, "user_config.upload_root"},
		"command of the system":    {"server/mcp_config/platform_overrides/win32/command", "cmd.exe", "win32 does not start"},
		"script of the system":     {"server/mcp_config/platform_overrides/linux/args", []any{"/tmp/x", "--bundle"}, "linux does not start"},
		"another base command":     {"server/mcp_config/command", "/bin/rm", "base command"},
		"no platform":              {"compatibility/platforms", []any{}, "base command"},
		"unknown platform":         {"compatibility/platforms", []any{"darwin", "plan9"}, "plan9"},
		"folder nobody fills":      {"server/mcp_config/platform_overrides/linux/args", []any{"${__dirname}/server/launch.sh", "--bundle", "${HOME}/x"}, "${HOME}"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := mcpb.ParseManifest(edit(t, tt.path, tt.value))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("err = %v, want one with %q", err, tt.want)
			}
		})
	}
	if _, err := mcpb.ParseManifest(append(manifest(t), '{')); err == nil {
		t.Error("a manifest with something behind it was taken")
	}
}

// What is packed for one system says so, starts a file that is in the bundle,
// and is a manifest like any other.
func TestManifestForOnePlatform(t *testing.T) {
	m, err := mcpb.ParseManifest(manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	before, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	data, err := m.For([]string{"win32"}, "server/bellman-bridge.exe").Encode()
	if err != nil {
		t.Fatal(err)
	}
	got, err := mcpb.ParseManifest(data)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"win32"}, got.Compatibility.Platforms); diff != "" {
		t.Errorf("platforms (-want +got):\n%s", diff)
	}
	if got.Server.Config.Command != "${__dirname}/server/bellman-bridge.exe" || got.Server.EntryPoint != "server/bellman-bridge.exe" {
		t.Errorf("it starts %s and enters at %s", got.Server.Config.Command, got.Server.EntryPoint)
	}
	if len(got.Server.Config.Overrides) != 1 {
		t.Errorf("overrides = %v, want win32 alone", got.Server.Config.Overrides)
	}
	after, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(before), string(after)); diff != "" {
		t.Errorf("the manifest it was made from changed:\n%s", diff)
	}
}
