package bellman

import "encoding/json"

// ServiceTools returns the eleven tools of the service in the order it lists
// them, each call a fresh copy. The hub serves exactly these, and the bridge
// falls back on them while it has no list of its own. See protocol.md 1.
func ServiceTools() []Tool {
	return []Tool{
		serviceTool(ToolStart, "Start a Bellman session", startText, startSchema, Annotations{}),
		serviceTool(ToolConnect, "Preview a Bellman session by join code", connectText, connectSchema, Annotations{}),
		serviceTool(ToolConfirm, "Confirm joining a Bellman session", confirmText, confirmSchema, Annotations{}),
		serviceTool(ToolInvite, "Issue a new Bellman join code", inviteText, inviteSchema, Annotations{}),
		serviceTool(ToolSend, "Send to Bellman session members", sendText, sendSchema, Annotations{}),
		serviceTool(ToolSync, "Sync Bellman session events", syncText, syncSchema,
			Annotations{ReadOnly: true, Idempotent: true}),
		serviceTool(ToolRooms, "Your Bellman rooms", roomsText, emptySchema,
			Annotations{ReadOnly: true, Idempotent: true}),
		serviceTool(ToolSurface, "The room's working surface", surfaceText, surfaceSchema,
			Annotations{ReadOnly: true, Idempotent: true}),
		serviceTool(ToolLeave, "Leave a Bellman session", leaveText, leaveSchema, Annotations{Idempotent: true}),
		serviceTool(ToolEvict, "Remove a member from a room you created", evictText, evictSchema,
			Annotations{Destructive: true}),
		serviceTool(ToolAudit, "Bellman org audit log", auditText, auditSchema,
			Annotations{ReadOnly: true, Idempotent: true}),
	}
}

// serviceTool puts the title in both places where hosts look for it.
func serviceTool(name, title, text, schema string, hints Annotations) Tool {
	hints.Title = title
	return Tool{
		Name:        name,
		Title:       title,
		Description: text,
		InputSchema: json.RawMessage(schema),
		Annotations: hints,
	}
}
