package tools

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"bellman.sh/desktop/internal/bellman"
)

// The marks. They are the only way to reach an agent in a host that shows it
// nothing but tool descriptions.
const (
	syncMark = "Call this at the start of every turn, before any other work, once for each Bellman room you are in: " +
		"peers' messages wait on this machine and nothing arrives on its own.\n\n"
	pointer = "\n\nReplies do not arrive on their own: call bellman_sync at the start of every turn."
)

// maxDescription is how many characters of a description a host shows that
// honours the hint to load a tool always. What is cut is the service's tail.
const maxDescription = 4096

// markTool returns tool, one entry of a tools/list, with its mark. The mark is
// applied once however often the tool passes through here; every other member
// keeps its bytes. A tool that is not a JSON object is returned as it is.
func markTool(tool json.RawMessage) json.RawMessage {
	o, err := parseObject(tool)
	if err != nil {
		return tool
	}
	text := o.text("description")
	switch o.text("name") {
	case bellman.ToolSync:
		text = syncMark + cut(strings.ReplaceAll(text, syncMark, ""), maxDescription-utf8.RuneCountInString(syncMark))
		o.set("_meta", withAlwaysLoad(o.get("_meta")))
	case bellman.ToolStart, bellman.ToolConfirm, bellman.ToolSend:
		text = cut(strings.ReplaceAll(text, pointer, ""), maxDescription-utf8.RuneCountInString(pointer)) + pointer
	default:
		return tool
	}
	o.set("description", encode(text))
	return o.raw()
}

// withAlwaysLoad adds the hint to a tool's _meta and keeps the rest of it.
func withAlwaysLoad(meta json.RawMessage) json.RawMessage {
	o, err := parseObject(meta)
	if err != nil {
		o = nil
	}
	o.set("anthropic/alwaysLoad", json.RawMessage("true"))
	return o.raw()
}

// cut returns at most n characters of s.
func cut(s string, n int) string {
	if utf8.RuneCountInString(s) <= n {
		return s
	}
	return string([]rune(s)[:n-1]) + "…"
}
