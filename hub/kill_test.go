package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// childEnv makes the test binary be the program.
const childEnv = "BELLMAN_HUB_TEST_CHILD"

// child is a hub in a process of its own.
type child struct {
	cmd *exec.Cmd
	url string
}

// startChild starts a hub over a data directory and waits until it listens.
func startChild(t *testing.T, data string) *child {
	t.Helper()
	cmd := exec.CommandContext(context.WithoutCancel(t.Context()), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--data", data, "--dev-keys", "--rate", "0")
	cmd.Env = append(os.Environ(), childEnv+"=1")
	pipe, err := cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	lines := bufio.NewScanner(pipe)
	if !lines.Scan() {
		t.Fatalf("the hub said nothing: %v", lines.Err())
	}
	_, url, ok := strings.Cut(lines.Text(), "listening on ")
	if !ok {
		t.Fatalf("the hub said %q", lines.Text())
	}
	return &child{cmd: cmd, url: url}
}

// kill ends the process as a crash does.
func (c *child) kill(t *testing.T) {
	t.Helper()
	if err := c.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = c.cmd.Wait()
}

// sent is a message whose sending was confirmed.
type sent struct {
	text   string
	cursor int64
}

// writeUntilDead sends numbered messages as fast as they are taken, and
// returns those that were confirmed and the one that was under way.
func writeUntilDead(ctx context.Context, seat *hubtest.Seat, name string) (done []sent, open hubtest.Args) {
	for i := 0; ; i++ {
		text := fmt.Sprintf("%s-%d", name, i)
		args := seat.Ref().With(hubtest.Args{
			"type": "message", "payload": hubtest.Args{"text": text}, "idempotency_key": "key-" + text,
		})
		r, err := seat.Call(ctx, bellman.ToolSend, args)
		var answer struct {
			Cursor int64 `json:"cursor"`
		}
		if err != nil || r.IsError || json.Unmarshal(r.Structured, &answer) != nil {
			return done, args
		}
		done = append(done, sent{text, answer.Cursor})
	}
}

// A hub killed under load keeps everything it confirmed, nothing twice, and
// what was under way can be sent again.
func TestKilledUnderLoad(t *testing.T) {
	data := filepath.Join(t.TempDir(), "data")
	hub := startChild(t, data)
	server := &hubtest.Server{URL: hub.url}
	a := server.As(hubtest.Jesse).Open(t, nil)
	b := server.As(hubtest.Peer).Join(t, a.Code)

	for round := range 3 {
		var wg sync.WaitGroup
		results := make([][]sent, 4)
		pending := make([]hubtest.Args, 4)
		ctx := context.WithoutCancel(t.Context())
		for i := range results {
			wg.Go(func() { results[i], pending[i] = writeUntilDead(ctx, a, fmt.Sprintf("r%d-w%d", round, i)) })
		}
		time.Sleep(300 * time.Millisecond)
		hub.kill(t)
		wg.Wait()

		hub = startChild(t, data)
		server.URL = hub.url
		for _, args := range pending {
			a.OK(t, bellman.ToolSend, args, nil)
			a.OK(t, bellman.ToolSend, args, nil)
		}
		counts := map[string]int{}
		at := map[int64]string{}
		last := int64(0)
		for _, e := range b.Sync(t, b.Cursor).Events {
			if e.Data.Cursor != last+1 && last != 0 {
				t.Fatalf("cursor %d after %d", e.Data.Cursor, last)
			}
			last = e.Data.Cursor
			var p struct{ Text string }
			if err := json.Unmarshal(e.Data.Payload, &p); err != nil {
				t.Fatal(err)
			}
			counts[p.Text]++
			at[e.Data.Cursor] = p.Text
		}
		total := 0
		for _, list := range results {
			total += len(list)
			for _, s := range list {
				if at[s.cursor] != s.text {
					t.Fatalf("confirmed %q at %d, found %q", s.text, s.cursor, at[s.cursor])
				}
			}
		}
		if total == 0 {
			t.Fatal("nothing was confirmed before the kill, so nothing was tested")
		}
		for text, n := range counts {
			if n != 1 {
				t.Fatalf("%q is there %d times", text, n)
			}
		}
	}
	// The seats are still who they were.
	if r := b.OK(t, bellman.ToolRooms, hubtest.Args{}, nil); !strings.Contains(r.Text, b.Member) {
		t.Error("the seat is gone")
	}
	// An operator's command reaches the hub that serves, without its help.
	operate := func(args ...string) {
		t.Helper()
		var out, errOut strings.Builder
		if code := run(t.Context(), args, os.Getenv, &out, &errOut); code != exitOK {
			t.Fatalf("%v: %d %s", args, code, errOut.String())
		}
	}
	operate("room", "freeze", "--data", data, a.Room)
	if got := b.Sync(t, 0).SessionStatus; got != bellman.StatusFrozen {
		t.Errorf("after a freeze from outside: %s", got)
	}
	operate("room", "thaw", "--data", data, a.Room)
	a.Say(t, "thawed")
	hub.kill(t)
	var out, errOut strings.Builder
	if code := run(t.Context(), []string{"check", "--data", data}, os.Getenv, &out, &errOut); code != exitOK || out.String() != "ok: 1 rooms\n" {
		t.Errorf("check: %d %q %q", code, out.String(), errOut.String())
	}
}
