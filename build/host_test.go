package main_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/build/mcpb"

	"github.com/google/go-cmp/cmp"
)

// settings are what a person may have filled in: nothing, empty fields, and
// values that a careless replacement would damage.
var settings = []map[string]any{
	nil,
	{"bellman_url": "", "upload_root": ""},
	{"bellman_url": "http://127.0.0.1:9/mcp", "upload_root": "/srv/$HOME/$1/a b"},
}

// resolve asks the official library what it starts for the installed bundle.
func resolve(t *testing.T, dir, platform string, settings map[string]any) mcpb.Launch {
	t.Helper()
	const script = `
import { readFileSync } from "node:fs";
import { getMcpConfigForManifest } from "@anthropic-ai/mcpb";
const { dir, at, platform, settings } = JSON.parse(process.argv[1]);
const manifest = JSON.parse(readFileSync(dir + "/manifest.json", "utf8"));
Object.defineProperty(process, "platform", { value: platform });
const c = await getMcpConfigForManifest({ manifest, extensionPath: at, systemDirs: { HOME: "/home/x" },
  userConfig: settings ?? {}, pathSeparator: platform === "win32" ? "\\" : "/" });
console.log(JSON.stringify({ command: c.command, args: c.args, env: c.env }));
`
	at := dir
	if platform == "win32" {
		at = `Z:` + strings.ReplaceAll(dir, "/", `\`)
	}
	question, err := json.Marshal(map[string]any{"dir": dir, "at": at, "platform": platform, "settings": settings})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), "node", "--input-type=module", "-e", script, string(question))
	cmd.Dir = npm(t)
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("ask the official library: %v\n%s", err, stderr.Bytes())
	}
	var l mcpb.Launch
	if err := json.Unmarshal(out, &l); err != nil {
		t.Fatalf("the library said %q: %v", out, err)
	}
	return l
}

// npm returns the folder with the official packages.
func npm(t *testing.T) string {
	t.Helper()
	needs(t, "node")
	dir, err := filepath.Abs("../.cache/npm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "node_modules")); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatal(err)
		}
		t.Skip("no official packages (make setup)")
	}
	return dir
}

// What the host starts is in the bundle on every platform, and the only
// placeholders that are left are those of settings nobody filled in.
func TestEveryPlatformStartsSomethingThatIsThere(t *testing.T) {
	dir, _ := install(t)
	for _, platform := range []string{"darwin", "linux", "win32"} {
		for _, filled := range settings {
			l := resolve(t, dir, platform, filled)
			program := l.Command
			if program == "/bin/sh" {
				program = l.Args[0]
			}
			path := strings.ReplaceAll(strings.TrimPrefix(program, "Z:"), `\`, "/")
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s starts %s: %v", platform, program, err)
			}
			if strings.Contains(strings.Join(append(l.Args, l.Command), " "), "${") {
				t.Errorf("%s: a placeholder is left in %s %q", platform, l.Command, l.Args)
			}
			for key, value := range l.Env {
				if strings.Contains(value, "${") && (filled != nil || value != "${user_config.upload_root}") {
					t.Errorf("%s: %s is left at %s", platform, key, value)
				}
			}
		}
	}
}

// start returns the command for an installed bundle on a platform, by the
// means this machine has to run it.
func start(t *testing.T, dir, platform, arch string, filled map[string]any) *exec.Cmd {
	t.Helper()
	l := resolve(t, dir, platform, filled)
	var cmd *exec.Cmd
	env := append(os.Environ(), "HOME="+t.TempDir(), "BELLMAN_STATE_DIR="+filepath.Join(t.TempDir(), "state"), "BELLMAN_CREDENTIAL_STORE=memory")
	switch {
	case platform == "win32":
		cmd = exec.CommandContext(t.Context(), "wine", append([]string{l.Command}, l.Args...)...)
		env = append(wine(t), `BELLMAN_STATE_DIR=Z:`+strings.ReplaceAll(filepath.Join(t.TempDir(), "state"), "/", `\`), "BELLMAN_CREDENTIAL_STORE=memory")
	case arch == "arm64":
		needs(t, "qemu-aarch64-static")
		binary := filepath.Join(dir, "server", "bellman-bridge-linux-arm64")
		// The launcher would ask this machine which processor it has, so what it
		// does is done here.
		if err := os.Chmod(binary, 0o700); err != nil {
			t.Fatal(err)
		}
		cmd = exec.CommandContext(t.Context(), "qemu-aarch64-static", append([]string{binary}, l.Args[1:]...)...)
	default:
		cmd = exec.CommandContext(t.Context(), l.Command, l.Args...)
	}
	for key, value := range l.Env {
		env = append(env, key+"="+value)
	}
	if filled == nil { // nothing may leave this machine, whatever the default is
		env = append(env, "BELLMAN_URL=http://127.0.0.1:9/mcp")
	}
	cmd.Env, cmd.Dir = env, t.TempDir()
	return cmd
}

// systems are those whose packed bridge can be run here, with what it takes.
var systems = []struct {
	platform, arch string
	needs          []string
}{
	{"linux", "amd64", nil},
	{"linux", "arm64", []string{"qemu-aarch64-static"}},
	{"win32", "amd64", []string{"wine", "x86_64-w64-mingw32-gcc"}},
}

// The packed bridge answers a host on every system that can be run here:
// initialize, the full list of tools, a local tool, and it leaves when the
// host closes its input.
func TestPackedBridgeAnswersOnEverySystem(t *testing.T) {
	for _, tt := range systems {
		t.Run(tt.platform+"-"+tt.arch, func(t *testing.T) {
			needs(t, tt.needs...)
			dir, m := install(t)
			h := converse(t, start(t, dir, tt.platform, tt.arch, nil))
			h.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"host","version":"1"}}`)
			h.say(`{"jsonrpc":"2.0","method":"notifications/initialized"}`)
			var list struct{ Tools []struct{ Name string } }
			h.into(h.ask("tools/list", `{}`), &list)
			var served, promised []string
			for _, tool := range list.Tools {
				served = append(served, tool.Name)
			}
			for _, tool := range m.Tools {
				promised = append(promised, tool.Name)
			}
			slices.Sort(served)
			slices.Sort(promised)
			if diff := cmp.Diff(promised, served); diff != "" {
				t.Errorf("tools (-manifest +served):\n%s", diff)
			}
			var prompts struct{ Prompts []struct{ Name string } }
			h.into(h.ask("prompts/list", `{}`), &prompts)
			if len(prompts.Prompts) != len(m.Prompts) {
				t.Errorf("serves %d prompts, the manifest promises %d", len(prompts.Prompts), len(m.Prompts))
			}
			var whoami struct {
				IsError           bool
				StructuredContent struct{ Source string }
			}
			h.into(h.ask("tools/call", `{"name":"bellman_whoami","arguments":{}}`), &whoami)
			if whoami.IsError || whoami.StructuredContent.Source == "" {
				t.Errorf("bellman_whoami = %+v", whoami)
			}
			h.leave()
		})
	}
}

// The official inspector, which shares no code with us, lists the tools of the
// packed bridge and calls one.
func TestOfficialInspectorTalksToThePackedBridge(t *testing.T) {
	dir, m := install(t)
	packages := npm(t)
	inspect := func(args ...string) string {
		bridge := start(t, dir, "linux", "amd64", nil)
		cmd := exec.CommandContext(t.Context(), filepath.Join(packages, "node_modules", ".bin", "mcp-inspector"), append(append([]string{"--cli"}, bridge.Args...), args...)...)
		cmd.Env, cmd.Dir = bridge.Env, packages
		// The inspector hands on only what it is told to.
		for _, pair := range bridge.Env {
			if strings.HasPrefix(pair, "BELLMAN_") {
				cmd.Args = append(cmd.Args, "-e", pair)
			}
		}
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%v: %v\n%s", cmd.Args, err, out)
		}
		return string(out)
	}
	list := inspect("--method", "tools/list")
	for _, tool := range m.Tools {
		if !strings.Contains(list, `"name": "`+tool.Name+`"`) {
			t.Errorf("the inspector does not see %s", tool.Name)
		}
	}
	if out := inspect("--method", "tools/call", "--tool-name", "bellman_whoami"); !strings.Contains(out, "source") {
		t.Errorf("bellman_whoami through the inspector: %s", out)
	}
}

// What the release workflow runs on each system, run here: it passes for what
// ships and fails for a program that is not a bridge.
func TestSmoke(t *testing.T) {
	if out, stderr, code := build(t, "smoke", everything(t)); code != 0 || !strings.Contains(out, "serves its") {
		t.Errorf("exit %d: %s%s", code, out, stderr)
	}
	dir := t.TempDir()
	if _, stderr, code := build(t, "bundle", "--source", "./build/macho/testdata/empty", "--out", dir); code != 0 {
		t.Fatalf("bundle: exit %d\n%s", code, stderr)
	}
	if out, stderr, code := build(t, "smoke", filepath.Join(dir, "bellman.mcpb")); code != 1 || !strings.Contains(stderr, "initialize") {
		t.Errorf("a program that is not a bridge: exit %d: %s%s", code, out, stderr)
	}
}

// host is the other end of a bridge's standard input and output.
type host struct {
	t     *testing.T
	cmd   *exec.Cmd
	in    io.WriteCloser
	lines *bufio.Reader
	errs  *bytes.Buffer
	id    int
}

func converse(t *testing.T, cmd *exec.Cmd) *host {
	t.Helper()
	h := &host{t: t, cmd: cmd, errs: &bytes.Buffer{}}
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = h.errs
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	h.in, h.lines = in, bufio.NewReader(out)
	t.Cleanup(func() { _ = in.Close(); _ = cmd.Wait() })
	return h
}

func (h *host) say(line string) {
	h.t.Helper()
	if _, err := io.WriteString(h.in, line+"\n"); err != nil {
		h.t.Fatalf("write to the bridge: %v\n%s", err, h.errs)
	}
}

// ask sends a request and returns its result. Notifications are passed over.
func (h *host) ask(method, params string) json.RawMessage {
	h.t.Helper()
	h.id++
	request, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": h.id, "method": method, "params": json.RawMessage(params)})
	if err != nil {
		h.t.Fatal(err)
	}
	h.say(string(request))
	for {
		line, err := h.lines.ReadBytes('\n')
		if err != nil {
			h.t.Fatalf("%s: %v; the bridge said:\n%s", method, err, h.errs)
		}
		var m struct {
			JSONRPC string
			ID      *int
			Result  json.RawMessage
			Error   json.RawMessage
		}
		h.into(line, &m)
		if m.JSONRPC != "2.0" {
			h.t.Fatalf("not JSON-RPC on standard output: %s", line)
		}
		if m.ID == nil || *m.ID != h.id {
			continue
		}
		if m.Error != nil {
			h.t.Fatalf("%s: %s", method, m.Error)
		}
		return m.Result
	}
}

func (h *host) into(data []byte, v any) {
	h.t.Helper()
	if err := json.Unmarshal(data, v); err != nil {
		h.t.Fatalf("read %q: %v", data, err)
	}
}

// leave closes the bridge's input and waits for it to go by itself.
func (h *host) leave() {
	h.t.Helper()
	if err := h.in.Close(); err != nil {
		h.t.Fatal(err)
	}
	gone := make(chan error, 1)
	go func() {
		_, _ = io.Copy(io.Discard, h.lines)
		gone <- h.cmd.Wait()
	}()
	select {
	case err := <-gone:
		if err != nil {
			h.t.Errorf("the bridge left with %v\n%s", err, h.errs)
		}
	case <-time.After(30 * time.Second):
		_ = h.cmd.Process.Kill()
		h.t.Errorf("the bridge is still there after its input was closed (%v)\n%s", <-gone, h.errs)
	}
}
