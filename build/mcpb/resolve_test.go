package mcpb_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"bellman.sh/desktop/build/mcpb"

	"github.com/google/go-cmp/cmp"
)

// official asks the library that Claude Desktop uses. It reads hosts from
// standard input and writes what the library resolves for each.
const official = `
import { getMcpConfigForManifest } from "@anthropic-ai/mcpb";
let text = "";
for await (const chunk of process.stdin) text += chunk;
const results = [];
for (const { manifest, host } of JSON.parse(text)) {
  Object.defineProperty(process, "platform", { value: host.Platform });
  const c = await getMcpConfigForManifest({
    manifest, extensionPath: host.Dir, systemDirs: host.Dirs ?? {}, userConfig: host.Settings ?? {},
    pathSeparator: host.Platform === "win32" ? "\\" : "/",
  });
  results.push(c === undefined ? null : { command: c.command, args: c.args, env: c.env });
}
console.log(JSON.stringify(results));
`

// hosts are the machines a bundle is tried on: each platform with nothing set,
// with empty texts, and with values a replacement could trip over.
func hosts() []mcpb.Host {
	dirs := map[string]string{"HOME": "/home/a b", "DESKTOP": "/home/a b/Desktop"}
	var list []mcpb.Host
	for _, platform := range []string{"darwin", "linux", "win32"} {
		for _, settings := range []map[string]any{
			nil,
			{"bellman_url": "", "upload_root": ""},
			{"bellman_url": "http://127.0.0.1:3900/mcp", "upload_root": "/home/a b/Ünï Cödé"},
			{"upload_root": "/srv/$$/$&/$`/$'/$1/${HOME}/${user_config.bellman_url}/${upload}"},
			{"upload_root": true, "bellman_url": 12.5},
		} {
			list = append(list, mcpb.Host{Dir: "/opt/Claude Extensions/béll$&man", Platform: platform, Settings: settings, Dirs: dirs})
		}
	}
	return list
}

// variants are manifests that use every kind of place a setting can stand in.
func variants(t *testing.T) []mcpb.Manifest {
	t.Helper()
	m, err := mcpb.ParseManifest(manifest(t))
	if err != nil {
		t.Fatal(err)
	}
	odd := m
	odd.Server.Config.Launch = mcpb.Launch{
		Command: "${__dirname}${/}server${pathSeparator}x ${__dirname}",
		Args:    []string{"${user_config.upload_root}", "--root=${user_config.upload_root}", "${user_config.nobody}", "${HOME}", "plain"},
		Env:     map[string]string{"A": "${user_config.upload_root}${user_config.bellman_url}", "B": "${NOBODY}"},
	}
	odd.Server.Config.Overrides = map[string]mcpb.Launch{"win32": {Args: []string{}}}
	required := m
	required.UserConfig = map[string]mcpb.Setting{"bellman_url": {Type: "string", Title: "a", Description: "b", Required: true}}
	return []mcpb.Manifest{m, odd, required}
}

// Resolve and the official library agree on every manifest and host.
func TestResolveMatchesTheOfficialLibrary(t *testing.T) {
	node := nodeWith(t)
	type question struct {
		Manifest mcpb.Manifest `json:"manifest"`
		Host     mcpb.Host     `json:"host"`
	}
	var questions []question
	for _, m := range variants(t) {
		for _, h := range hosts() {
			questions = append(questions, question{m, h})
		}
	}
	input, err := json.Marshal(questions)
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "--input-type=module", "-e", official)
	cmd.Dir = node
	cmd.Stdin = bytes.NewReader(input)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask the library: %v\n%s", err, stderr.Bytes())
	}
	var answers []*mcpb.Launch
	if err := json.Unmarshal(out, &answers); err != nil {
		t.Fatalf("the library's answer %q: %v", out, err)
	}
	for i, q := range questions {
		got, err := mcpb.Resolve(q.Manifest, q.Host)
		if answers[i] == nil {
			if err == nil {
				t.Errorf("%s %v: resolved to %+v, the library refuses", q.Host.Platform, q.Host.Settings, got)
			}
			continue
		}
		if err != nil {
			t.Errorf("%s %v: %v", q.Host.Platform, q.Host.Settings, err)
			continue
		}
		if diff := cmp.Diff(*answers[i], got); diff != "" {
			t.Errorf("%s %v (-library +ours):\n%s", q.Host.Platform, q.Host.Settings, diff)
		}
	}
}

// A host adds the environment of an override or replaces with it, by its
// version. Both give the bridge the same.
func TestEnvironmentIsTheSameUnderMergeAndReplace(t *testing.T) {
	m := variants(t)[0]
	for _, h := range hosts() {
		replaced, err := mcpb.Resolve(m, h)
		if err != nil {
			t.Fatal(err)
		}
		h.MergeEnv = true
		merged, err := mcpb.Resolve(m, h)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(replaced, merged); diff != "" {
			t.Errorf("%s (-replace +merge):\n%s", h.Platform, diff)
		}
		if replaced.Env["BELLMAN_DELIVERY"] != "queue" {
			t.Errorf("%s: delivery is %q", h.Platform, replaced.Env["BELLMAN_DELIVERY"])
		}
	}
}

// nodeWith returns the folder with the official packages. Without Node the
// test is skipped; CI installs it, so there its lack is a failure.
func nodeWith(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs("../../.cache/npm")
	if err != nil {
		t.Fatal(err)
	}
	_, err = exec.LookPath("node")
	if err == nil {
		_, err = os.Stat(filepath.Join(dir, "node_modules"))
	}
	if err != nil && os.Getenv("CI") != "" {
		t.Fatalf("CI has the official packages: %v", err)
	}
	if err != nil {
		t.Skipf("no official packages (make setup): %v", err)
	}
	return dir
}
