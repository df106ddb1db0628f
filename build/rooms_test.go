package main_test

import (
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// On every system that can be run here the packed bridge does what it is for:
// its agent takes a seat, what a peer says reaches it, and what the peer says
// while the bridge is gone reaches the next one, without a call about the room.
func TestPackedBridgeKeepsEventsOnEverySystem(t *testing.T) {
	for _, tt := range systems {
		t.Run(tt.platform+"-"+tt.arch, func(t *testing.T) {
			needs(t, tt.needs...)
			dir, _ := install(t)
			hub := hubtest.Start(t)
			peer := hub.As(hubtest.Jesse).Open(t, nil)
			state := filepath.Join(t.TempDir(), "state")
			if tt.platform == "win32" {
				state = "Z:" + strings.ReplaceAll(state, "/", `\`)
			}
			launch := func() *host {
				cmd := start(t, dir, tt.platform, tt.arch, map[string]any{"bellman_url": hub.URL + "/mcp"})
				cmd.Env = append(cmd.Env, "BELLMAN_KEY="+hubtest.Peer, "BELLMAN_STATE_DIR="+state)
				h := converse(t, cmd)
				h.ask("initialize", `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"host","version":"1"}}`)
				return h
			}
			h := launch()
			var preview struct {
				Token string `json:"connect_token"`
			}
			h.tool("bellman_connect", hubtest.Args{"join_code": peer.Code}, &preview)
			h.tool("bellman_confirm", hubtest.Args{"connect_token": preview.Token, "brief": hubtest.Brief("join")}, nil)
			peer.Say(t, "while you are here")
			h.wantEvent("while you are here")
			h.leave()
			peer.Say(t, "while you were gone")
			h = launch()
			h.wantEvent("while you were gone")
			h.leave()
			if strings.Contains(h.errs.String(), "opened again") {
				t.Errorf("the queue did not stay open:\n%s", h.errs)
			}
		})
	}
}

// tool calls a tool and reads what it returns into v, unless that is nil.
func (h *host) tool(name string, args hubtest.Args, v any) {
	h.t.Helper()
	params, err := json.Marshal(hubtest.Args{"name": name, "arguments": args})
	if err != nil {
		h.t.Fatal(err)
	}
	var result struct {
		IsError           bool
		StructuredContent json.RawMessage
	}
	reply := h.ask("tools/call", string(params))
	h.into(reply, &result)
	if result.IsError {
		h.t.Fatalf("%s: %s; the bridge said:\n%s", name, reply, h.errs)
	}
	if v != nil {
		h.into(result.StructuredContent, v)
	}
}

// wantEvent waits for the event that has this text. Before it only one may
// come that was handed out just before the bridge's input ended, and it says so.
func (h *host) wantEvent(text string) {
	h.t.Helper()
	for {
		var got struct {
			Events []struct {
				Payload     struct{ Text string }
				Redelivered bool
			}
		}
		h.tool("bellman_wait", hubtest.Args{"wait_seconds": 25}, &got)
		if len(got.Events) == 0 {
			h.t.Fatalf("nothing came, want %q; the bridge said:\n%s", text, h.errs)
		}
		for _, e := range got.Events {
			if e.Payload.Text == text {
				return
			}
			if !e.Redelivered {
				h.t.Errorf("%q came, want %q", e.Payload.Text, text)
			}
		}
	}
}
