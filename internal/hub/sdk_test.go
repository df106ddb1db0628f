package hub_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// The client that most of the world uses talks to the hub: the TypeScript
// SDK's, where the tools of this repository have been installed.
func TestTypeScriptClient(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("no node here")
	}
	folder, err := filepath.Abs("../../.cache/npm")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(folder, "node_modules/@modelcontextprotocol/sdk/package.json")); err != nil {
		t.Skip("no TypeScript SDK in .cache/npm (make tools)")
	}
	s := hubtest.Start(t)
	out, err := exec.CommandContext(t.Context(), node, "testdata/client.mjs", s.URL, folder).CombinedOutput()
	if err != nil {
		t.Fatalf("client: %v\n%s", err, out)
	}
	var got struct {
		Server, Text, Misfit string
		Tools                []string
	}
	decode(t, string(out), &got)
	if got.Server != "bellman-mcp-server" || got.Text != "hi" || !strings.Contains(got.Misfit, "member_id") {
		t.Errorf("conversation %s", out)
	}
	for i, tool := range bellman.ServiceTools() {
		if i >= len(got.Tools) || got.Tools[i] != tool.Name {
			t.Errorf("tools %v, want %s at %d", got.Tools, tool.Name, i)
			break
		}
	}
}
