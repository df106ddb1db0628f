package bellman

import "encoding/json"

// Tool names of the service, in the order it lists them, then of the bridge.
const (
	ToolStart   = "bellman_start"
	ToolConnect = "bellman_connect"
	ToolConfirm = "bellman_confirm"
	ToolInvite  = "bellman_invite"
	ToolSend    = "bellman_send"
	ToolSync    = "bellman_sync"
	ToolRooms   = "bellman_rooms"
	ToolSurface = "bellman_surface"
	ToolLeave   = "bellman_leave"
	ToolEvict   = "bellman_evict"
	ToolAudit   = "bellman_audit"

	ToolWait   = "bellman_wait"
	ToolWhoami = "bellman_whoami"
	ToolUpload = "bellman_upload"
)

// Tool is one entry of tools/list. InputSchema and Meta are JSON objects.
type Tool struct {
	Name        string          `json:"name"`
	Title       string          `json:"title,omitempty"`
	Description string          `json:"description"`
	InputSchema json.RawMessage `json:"inputSchema"`
	Annotations Annotations     `json:"annotations"`
	Meta        json.RawMessage `json:"_meta,omitempty"`
}

// Annotations are the hints of a tool. See MCP, ToolAnnotations.
type Annotations struct {
	Title       string `json:"title,omitempty"`
	ReadOnly    bool   `json:"readOnlyHint"`
	Destructive bool   `json:"destructiveHint"`
	Idempotent  bool   `json:"idempotentHint"`
	OpenWorld   bool   `json:"openWorldHint"`
}
