package main

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// What docs/TOOLS.md shows of each tool is what the tool says: where the page
// leaves something out it has an ellipsis, and handles, codes and times differ
// from run to run.
func TestTheToolsPageShowsWhatTheToolsSay(t *testing.T) {
	page, err := os.ReadFile("../docs/TOOLS.md")
	if err != nil {
		t.Fatal(err)
	}
	said := tour(t)
	shown := map[string]int{}
	for _, example := range examples(string(page)) {
		tool, output := example[0], example[1]
		n := shown[tool]
		shown[tool]++
		if n >= len(said[tool]) {
			t.Errorf("the page shows %s %d times, the tour only %d", tool, n+1, len(said[tool]))
			continue
		}
		rest := alike(said[tool][n])
		for part := range strings.SplitSeq(alike(output), "…") {
			part = strings.TrimSpace(part)
			_, after, found := strings.Cut(rest, part)
			if !found {
				t.Errorf("%s, example %d: the page shows\n%s\nwhich is not in\n%s", tool, n+1, part, said[tool][n])
				break
			}
			rest = after
		}
	}
	for _, tool := range append(bellman.ServiceTools(), bellman.LocalTools()...) {
		if shown[tool.Name] == 0 {
			t.Errorf("the page shows no output of %s", tool.Name)
		}
	}
}

// examples returns the calls on the page, each with the output under it: lines
// set in, the first of them beginning with the tool's name.
func examples(page string) (all [][2]string) {
	for line := range strings.Lines(page) {
		code, indented := strings.CutPrefix(line, "    ")
		name, _, _ := strings.Cut(code, " ")
		switch {
		case indented && strings.HasPrefix(name, "bellman_"):
			all = append(all, [2]string{name, ""})
		case indented && len(all) > 0:
			all[len(all)-1][1] += code
		}
	}
	return all
}

var varies = regexp.MustCompile(`(qs_|m_|qct_)[0-9a-f]{8}[0-9a-f-]*|BELL-[A-Z0-9]{4}-[A-Z0-9]{2}|\d{4}-\d\d-\d\dT[\d:.]+Z|\b[0-9a-f]{32}\b|http://127\.0\.0\.1:\d+/start/[\w-]+`)

// alike is a text without what varies from run to run, nor the way it is laid
// out.
func alike(text string) string {
	text = varies.ReplaceAllString(text, "*")
	text = strings.NewReplacer("{", " { ", "}", " } ", "[", " [ ", "]", " ] ", ":", ": ", ",", ", ").Replace(text)
	return strings.Join(strings.Fields(text), " ")
}

// tour calls every tool, as the page tells it, and returns what each said.
func tour(t *testing.T) map[string][]string {
	t.Helper()
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", hubtest.Jesse)
	p.env = append(p.env, "BELLMAN_UPLOAD_ROOT="+p.dir)
	if err := os.WriteFile(filepath.Join(p.dir, "notes.md"), []byte("# Release notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	ours, said := p.open(t), map[string][]string{}
	note := func(tool string, r result) result {
		said[tool] = append(said[tool], r.text())
		return r
	}
	call := func(tool string, args map[string]any, into any) { note(tool, ours.ok(tool, args, into)) }
	brief := func(goal string) map[string]any {
		return map[string]any{"goal": goal, "state": "begun", "agent": map[string]any{"provider": "Anthropic", "model": "Claude", "client": "Claude Desktop"}}
	}

	signedOut := newProfile(t, h.URL+"/mcp", "").open(t)
	approve(t, startLink.FindString(note("bellman_rooms", signedOut.call("bellman_rooms", nil)).text()), "Ada")
	for deadline := time.Now().Add(20 * time.Second); signedOut.call("bellman_rooms", nil).IsError; {
		if time.Now().After(deadline) {
			t.Fatal("still not signed in")
		}
	}
	note("bellman_whoami", signedOut.call("bellman_whoami", nil))
	call("bellman_whoami", nil, nil)
	var seat struct {
		Room   string `json:"session_id"`
		Member string `json:"member_id"`
		Code   string `json:"join_code"`
	}
	call("bellman_start", map[string]any{
		"manifest": map[string]any{"room": "Release notes", "preset": "pair"}, "brief": brief("Write the release notes"),
		"capabilities": []string{"read_context", "receive_messages", "request_actions"},
	}, &seat)
	theirs := newProfile(t, h.URL+"/mcp", hubtest.Peer).open(t)
	var preview struct {
		Token string `json:"connect_token"`
	}
	note("bellman_connect", theirs.ok("bellman_connect", map[string]any{"join_code": seat.Code}, &preview))
	var other struct {
		Member string `json:"member_id"`
	}
	note("bellman_confirm", theirs.ok("bellman_confirm", map[string]any{"connect_token": preview.Token, "brief": brief("Help with the notes")}, &other))
	me := func(more map[string]any) map[string]any {
		args := map[string]any{"session_id": seat.Room, "member_id": seat.Member}
		maps.Copy(args, more)
		return args
	}
	theySend := func(kind string, payload map[string]any) {
		theirs.ok("bellman_send", map[string]any{"session_id": seat.Room, "member_id": other.Member, "type": kind, "payload": payload}, nil)
	}
	ours.collect(1)
	theySend("message", map[string]any{"text": "Which version?"})
	ours.untilWaiting("1 peer event is waiting")
	call("bellman_send", me(map[string]any{"type": "message", "payload": map[string]any{"text": "One moment."}}), nil)
	call("bellman_wait", map[string]any{"wait_seconds": 20}, nil)
	theySend("action_request", map[string]any{"ask": "Publish them today?"})
	call("bellman_sync", me(map[string]any{"since_cursor": 3, "wait_seconds": 20}), nil)
	call("bellman_upload", me(map[string]any{"path": "notes.md", "key": "notes"}), nil)
	call("bellman_surface", me(nil), nil)
	call("bellman_rooms", nil, nil)
	call("bellman_evict", map[string]any{"session_id": seat.Room, "member_id": other.Member}, nil)
	call("bellman_invite", me(map[string]any{"role": "peer_b"}), nil)
	call("bellman_leave", me(nil), nil)
	call("bellman_audit", map[string]any{"limit": 2}, nil)
	h.Stop(t)
	note("bellman_sync", ours.call("bellman_sync", me(nil)))
	return said
}
