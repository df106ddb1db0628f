package bellman_test

import (
	"encoding/json"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/bellman"
)

// Every tool can be listed anywhere: a title, a description, an object schema
// under 16 KiB, hints that agree with the contract, and no outside world.
func TestServiceToolsAreListable(t *testing.T) {
	readOnly := map[string]bool{
		bellman.ToolSync: true, bellman.ToolRooms: true, bellman.ToolSurface: true, bellman.ToolAudit: true,
	}
	idempotent := map[string]bool{bellman.ToolLeave: true}
	tools := bellman.ServiceTools()
	if len(tools) != 11 {
		t.Fatalf("got %d tools, want 11", len(tools))
	}
	for _, tool := range tools {
		var schema struct {
			Type       string         `json:"type"`
			Properties map[string]any `json:"properties"`
		}
		if err := json.Unmarshal(tool.InputSchema, &schema); err != nil {
			t.Errorf("%s: schema: %v", tool.Name, err)
			continue
		}
		if schema.Type != "object" || schema.Properties == nil {
			t.Errorf("%s: schema is no object with properties", tool.Name)
		}
		if n := len(tool.InputSchema); n > 16<<10 {
			t.Errorf("%s: schema of %d bytes, want at most 16 KiB", tool.Name, n)
		}
		if n := len(tool.Description); n == 0 || n > 4096 {
			t.Errorf("%s: description of %d bytes, want 1 to 4096", tool.Name, n)
		}
		want := bellman.Annotations{
			Title:       tool.Title,
			ReadOnly:    readOnly[tool.Name],
			Destructive: tool.Name == bellman.ToolEvict,
			Idempotent:  readOnly[tool.Name] || idempotent[tool.Name],
		}
		if tool.Annotations != want || tool.Title == "" {
			t.Errorf("%s: annotations %+v, want %+v", tool.Name, tool.Annotations, want)
		}
	}
}

// The sync tool tells an agent all it needs: each argument, each field of the
// answer, and what removal means.
func TestSyncDescriptionIsComplete(t *testing.T) {
	for _, tool := range bellman.ServiceTools() {
		if tool.Name != bellman.ToolSync {
			continue
		}
		for _, word := range []string{
			"since_cursor", "wait_seconds (0-25)", "surface_cursor", "outstanding", "removed: true", "member_evicted",
			"from_member_id", "from_label", "mine: true", "mine: false", "age_seconds", "expires_at", "30 minutes",
			"stop polling", "MCP cannot push", "Always pass the returned cursor",
		} {
			if !strings.Contains(tool.Description, word) {
				t.Errorf("description lacks %q", word)
			}
		}
		return
	}
	t.Fatal("no bellman_sync among the tools")
}
