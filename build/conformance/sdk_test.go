package conformance_test

import (
	"bytes"
	"encoding/json"
	"os/exec"
	"slices"
	"testing"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"

	"github.com/google/go-cmp/cmp"
)

// Two hosts on the TypeScript SDK's client meet in a room of a real hub
// through two bridges: every answer fits the SDK's schemas, a wait that is
// given up loses nothing, and nothing is handed over twice.
func TestTypeScriptHosts(t *testing.T) {
	dir, node := packages(t)
	cmd := exec.CommandContext(t.Context(), node, "testdata/room.mjs", dir, bridge, hubtest.Start(t).URL+"/mcp", t.TempDir())
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("converse: %v\n%s", err, stderr.Bytes())
	}
	type conversation struct {
		Aborted              string
		Woken, Synced, After []string
		Refused              bool
		Prompts, Shown       int
	}
	var got struct {
		Tools []string
		conversation
	}
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("read %q: %v", out, err)
	}
	want := conversation{
		Aborted: got.Aborted, Woken: []string{"first"}, Synced: []string{"second"}, After: []string{},
		Refused: true, Prompts: 3, Shown: 1,
	}
	if diff := cmp.Diff(want, got.conversation); diff != "" {
		t.Errorf("conversation (-want +got):\n%s", diff)
	}
	if got.Aborted == "" {
		t.Error("the wait that was given up was answered")
	}
	for _, tool := range bellman.ServiceTools() {
		if !slices.Contains(got.Tools, tool.Name) {
			t.Errorf("%s is not listed", tool.Name)
		}
	}
}
