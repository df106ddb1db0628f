package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/policy"
)

// dead is a loopback address where nothing listens.
const dead = "http://127.0.0.1:1/mcp"

// Signed out and offline, the bridge lists everything at once and opens
// nothing.
func TestTheFullListIsThereOfflineAndSignedOut(t *testing.T) {
	p := newProfile(t, dead, "")
	browser := filepath.Join(p.dir, "opened")
	bin := t.TempDir()
	for _, name := range []string{"xdg-open", "open", "x-www-browser"} {
		if err := os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"$@\" >> "+browser+"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	p.env = append(p.env, "BELLMAN_NO_BROWSER=", "DISPLAY=:0", "PATH="+bin+":"+os.Getenv("PATH"))
	b := p.open(t)
	r := b.request("tools/list", `{}`)
	var list struct {
		Tools []struct{ Name, Description string }
	}
	if err := json.Unmarshal(r.Result, &list); err != nil {
		t.Fatal(err)
	}
	if len(list.Tools) != 14 {
		t.Errorf("%d tools, want 14", len(list.Tools))
	}
	for _, tool := range list.Tools {
		if tool.Name == "bellman_sync" && !strings.HasPrefix(tool.Description, "Call this at the start of every turn") {
			t.Errorf("bellman_sync begins %.60q", tool.Description)
		}
		if strings.Contains(strings.ToLower(tool.Description), "stop hook") {
			t.Errorf("%s speaks of a stop hook", tool.Name)
		}
	}
	if got := b.call("bellman_whoami", nil); !strings.Contains(string(got.Data), `"unknown"`) {
		t.Errorf("whoami: %s", got.Data)
	}
	if w := b.wait(0); w.Count != 0 {
		t.Errorf("wait: %+v", w)
	}
	if _, err := os.Stat(browser); err == nil {
		t.Error("a browser was opened")
	}
}

// A call that needs the service says that it is out of reach and that nothing
// was sent, and the next one is none the worse for it.
func TestADeadServiceIsAReasonAndNotTheEnd(t *testing.T) {
	b := newProfile(t, dead, "qk_dev_peer").open(t)
	for range 3 {
		r := b.call("bellman_rooms", nil)
		if !r.IsError || !strings.Contains(r.text(), "cannot be reached") || !strings.Contains(r.text(), "Nothing was sent") {
			t.Fatalf("answer: %s", r.text())
		}
	}
	if r := b.call("bellman_sync", map[string]any{"session_id": "qs_1", "member_id": "m_1"}); !strings.Contains(r.text(), "Nothing was read or lost") {
		t.Errorf("sync: %s", r.text())
	}
}

func TestGarbageOnStandardInputIsAnsweredAndSurvived(t *testing.T) {
	b := newProfile(t, dead, "k").open(t)
	null := make(chan reply, 1)
	b.mu.Lock()
	b.replies["null"] = null
	b.mu.Unlock()
	b.write("this is not JSON")
	if r := b.receive(null); r.Error == nil || r.Error.Code != -32700 {
		t.Errorf("garbage: %+v", r)
	}
	if r := b.request("ping", `{}`); r.Error != nil {
		t.Errorf("ping after garbage: %+v", r.Error)
	}
	if r := b.request("nonsense/method", `{}`); r.Error == nil || r.Error.Code != -32601 {
		t.Errorf("unknown method: %+v", r)
	}
}

func TestArgumentsThatDoNotFitNameTheField(t *testing.T) {
	b := newProfile(t, dead, "k").open(t)
	for _, c := range []struct {
		tool string
		args map[string]any
		want string
	}{
		{"bellman_wait", map[string]any{"wait_seconds": "long"}, "wait_seconds must be a number"},
		{"bellman_wait", map[string]any{"wait_seconds": 26}, "wait_seconds must be between 0 and 25"},
		{"bellman_wait", map[string]any{"session_id": 7}, "session_id must be a string"},
		{"bellman_upload", map[string]any{"member_id": "m", "path": "x", "key": "k"}, "session_id (or room_id) is required"},
		{"bellman_upload", map[string]any{"session_id": "s", "member_id": "m", "path": "x", "key": "k", "kind": "film"}, "kind must be file, image or html"},
	} {
		if r := b.call(c.tool, c.args); !r.IsError || !strings.Contains(r.text(), c.want) {
			t.Errorf("%s %v: %s, want %q", c.tool, c.args, r.text(), c.want)
		}
	}
}

// In the bundle the working directory is Desktop's, so nothing is uploaded
// from it.
func TestABundleWithoutAnUploadFolderNamesTheSetting(t *testing.T) {
	p := newProfile(t, dead, "k")
	if err := os.WriteFile(filepath.Join(p.dir, "notes.md"), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	b := p.start(t, "--bundle")
	b.request("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`)
	r := b.call("bellman_upload", map[string]any{"session_id": "s", "member_id": "m", "path": "notes.md", "key": "k"})
	if !r.IsError || !strings.Contains(r.text(), "Upload folder") {
		t.Errorf("answer: %s", r.text())
	}
}

// A line of eight MiB is a call like any other; one beyond all bounds is refused
// and the next is answered.
func TestLongLinesAreCalls(t *testing.T) {
	b := newProfile(t, dead, "k").open(t)
	pad := strings.Repeat("語", 8<<20/3)
	if r := b.call("bellman_whoami", map[string]any{"pad": pad}); r.IsError {
		t.Errorf("a call of 8 MiB: %s", r.text())
	}
	if r := b.call("bellman_rooms", map[string]any{"pad": pad}); !r.IsError || !strings.Contains(r.text(), "cannot be reached") {
		t.Errorf("a call of 8 MiB to be passed on: %.300s", r.text())
	}
	null := make(chan reply, 1)
	b.mu.Lock()
	b.replies["null"] = null
	b.mu.Unlock()
	b.send("ping", `{"pad":"`+pad+pad+pad+`"}`)
	if r := b.receive(null); r.Error == nil || r.Error.Code != -32600 {
		t.Errorf("a line of 24 MiB: %+v", r)
	}
	if r := b.request("ping", `{}`); r.Error != nil {
		t.Errorf("ping after it: %+v", r.Error)
	}
}

// What an administrator says of uploads goes before what the person set, and a
// folder that is no project is no upload folder by chance.
func TestWhereUploadsMayComeFrom(t *testing.T) {
	off := false
	home := t.TempDir()
	t.Setenv("HOME", home)
	t.Setenv("USERPROFILE", home)
	project := filepath.Join(home, "project")
	if err := os.Mkdir(project, 0o700); err != nil {
		t.Fatal(err)
	}
	set := map[string]string{"BELLMAN_UPLOAD_ROOT": project}
	for name, c := range map[string]struct {
		flags         flagValues
		env           map[string]string
		managed       policy.Policy
		cwd           string
		root, refusal string
	}{
		"forbidden by policy":           {env: set, managed: policy.Policy{UploadEnabled: &off}, cwd: project, refusal: "managed by your organization"},
		"set by policy":                 {env: set, managed: policy.Policy{UploadRoot: home}, cwd: project, root: home},
		"set by the person":             {env: set, cwd: home, root: project},
		"set, in the bundle":            {flags: flagValues{bundle: true}, env: set, cwd: home, root: project},
		"unset, in the bundle":          {flags: flagValues{bundle: true}, cwd: project, refusal: "Upload folder"},
		"a placeholder, in the bundle":  {flags: flagValues{bundle: true}, env: map[string]string{"BELLMAN_UPLOAD_ROOT": "${user_config.upload_root}"}, cwd: project, refusal: "Upload folder"},
		"any file":                      {env: map[string]string{"BELLMAN_UPLOAD_ROOT": "/"}, cwd: project, root: "/"},
		"unset, in a project":           {cwd: project, root: project},
		"empty, in a project":           {env: map[string]string{"BELLMAN_UPLOAD_ROOT": ""}, cwd: project, root: project},
		"unset, in the home directory":  {cwd: home, refusal: "set BELLMAN_UPLOAD_ROOT"},
		"unset, above it":               {cwd: filepath.Dir(home), refusal: "set BELLMAN_UPLOAD_ROOT"},
		"unset, at a file system's top": {cwd: "/", refusal: "set BELLMAN_UPLOAD_ROOT"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Chdir(c.cwd)
			got, err := uploadPolicy(c.flags, func(name string) string { return c.env[name] }, c.managed)
			if err != nil || got.Root != c.root || (c.refusal == "") != (got.Refusal == "") || !strings.Contains(got.Refusal, c.refusal) {
				t.Errorf("got %+v, %v", got, err)
			}
		})
	}
}

// What was asked right before the input ended is answered; then the bridge is
// gone.
func TestRequestsPipedBeforeTheEndOfInputAreAnswered(t *testing.T) {
	p := newProfile(t, dead, "k")
	b := p.start(t)
	var chs []chan reply
	for _, r := range [][2]string{
		{"initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`},
		{"tools/list", `{}`},
		{"tools/call", toolParams("bellman_whoami", nil)},
	} {
		_, ch := b.send(r[0], r[1])
		chs = append(chs, ch)
	}
	b.in.Close()
	b.exit()
	for i, ch := range chs {
		select {
		case <-ch:
		default:
			t.Errorf("request %d got no answer", i+1)
		}
	}
	if code := b.cmd.ProcessState.ExitCode(); code != 0 {
		t.Errorf("exit code %d", code)
	}
}

// The state is for this person alone.
func TestTheStateIsClosedToOthers(t *testing.T) {
	p := newProfile(t, dead, "k")
	b := p.open(t)
	b.wait(0)
	err := filepath.Walk(filepath.Join(p.dir, "state", "default"), func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		want := os.FileMode(0o600)
		if info.IsDir() {
			want = 0o700
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v, want %v", path, info.Mode().Perm(), want)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

func TestEveryFlagHasItsVariable(t *testing.T) {
	var flags []string
	for _, s := range settings {
		flags = append(flags, "BELLMAN_"+strings.ToUpper(strings.ReplaceAll(s.flag, "-", "_")))
		if !slices.Contains(flags, s.env) {
			t.Errorf("flag --%s stands for %s", s.flag, s.env)
		}
	}
}
