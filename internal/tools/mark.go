package tools

import (
	"encoding/json"
	"slices"
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

// roomNote tells on bellman_start, where a room file is in reach, that the
// manifest may be left out.
const roomNote = "\n\nWithout a manifest the room described in " + roomFileName + " of the working directory is started."

// markTool returns tool, one entry of a tools/list, with its mark. The mark is
// applied once however often the tool passes through here; every other member
// keeps its bytes. A tool that is not a JSON object is returned as it is.
func markTool(tool json.RawMessage) json.RawMessage {
	o, err := parseObject(tool)
	if err != nil {
		return tool
	}
	switch o.text("name") {
	case bellman.ToolSync:
		o.describe(syncMark, "")
		o.set("_meta", withAlwaysLoad(o.get("_meta")))
	case bellman.ToolStart, bellman.ToolConfirm, bellman.ToolSend:
		o.describe("", pointer)
	default:
		return tool
	}
	return o.raw()
}

// offerRoomFile makes the manifest of a marked bellman_start optional and says
// what stands in for it. Other tools are returned as they are.
func offerRoomFile(tool json.RawMessage) json.RawMessage {
	o, err := parseObject(tool)
	if err != nil || o.text("name") != bellman.ToolStart {
		return tool
	}
	o.describe("", roomNote+pointer)
	if schema, err := parseObject(o.get("inputSchema")); err == nil {
		var required []json.RawMessage
		if json.Unmarshal(schema.get("required"), &required) == nil {
			required = slices.DeleteFunc(required, func(name json.RawMessage) bool { return string(name) == `"manifest"` })
			if len(required) == 0 {
				schema.remove("required")
			} else {
				schema.set("required", encode(required))
			}
			o.set("inputSchema", schema.raw())
		}
	}
	return o.raw()
}

// describe puts the description between prefix and suffix, once: marks that
// are there already are taken out first.
func (o *object) describe(prefix, suffix string) {
	text := o.text("description")
	for _, mark := range []string{syncMark, roomNote, pointer} {
		for strings.Contains(text, mark) { // taking one out may join the halves of another
			text = strings.ReplaceAll(text, mark, "")
		}
	}
	room := maxDescription - utf8.RuneCountInString(prefix) - utf8.RuneCountInString(suffix)
	o.set("description", encode(prefix+cut(text, room)+suffix))
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
