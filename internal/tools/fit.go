package tools

import (
	"bytes"
	"encoding/json"
	"strings"

	"bellman.sh/desktop/internal/bellman"
)

// maxReply is the size above which a reply is made smaller: hosts refuse
// results near 1 MB.
const maxReply = 900 << 10

// fit returns the result, made smaller if it must be: first the JSON in its
// text compact, then without structuredContent, which the text repeats.
func (r *reply) fit() json.RawMessage {
	raw := r.o.raw()
	if len(raw) <= maxReply {
		return raw
	}
	r.eachText(compactText)
	if raw = r.o.raw(); len(raw) <= maxReply {
		return raw
	}
	if r.structured != nil && r.firstText() != "" {
		r.o.remove("structuredContent")
		raw = r.o.raw()
	}
	return raw
}

// compactText squeezes the JSON that ends a text block. What stands before it,
// the untrusted preamble, stays.
func compactText(text string) string {
	before, doc := splitText(text)
	var b bytes.Buffer
	if doc == "" || json.Compact(&b, []byte(doc)) != nil {
		return text
	}
	return before + b.String()
}

// splitText returns what stands before the JSON document of a text block, and
// the document, "" when there is none.
func splitText(text string) (before, doc string) {
	if i := strings.Index("\n"+text, "\n{"); i >= 0 {
		return text[:i], text[i:]
	}
	return text, ""
}

// cutEvents drops events from the end of a sync's reply until it fits, sets
// its cursor to the last one kept and says so, and returns that cursor. It
// works on the structured result and writes the text anew from it. ok is false
// when nothing was or could be cut.
func (r *reply) cutEvents() (cursor int64, ok bool) {
	var events []json.RawMessage
	if r.structured == nil || json.Unmarshal(r.structured.get("events"), &events) != nil || len(events) < 2 {
		return 0, false
	}
	// What is said once around the events, with room for the note.
	overhead := len(r.o.raw()) - len(r.o.get("content")) - len(r.o.get("structuredContent")) +
		len(r.structured.raw()) - len(r.structured.get("events")) + 4<<10
	size, kept := overhead, 0
	for kept < len(events) {
		// In the text an event is a string inside JSON: quotes are escaped, and
		// so is what EscapeText writes.
		size += len(encode(bellman.EscapeText(string(events[kept])))) + 1
		if size > maxReply && kept > 0 {
			break
		}
		kept++
	}
	var last struct {
		Data struct {
			Cursor int64 `json:"cursor"`
		} `json:"data"`
	}
	if kept == len(events) || json.Unmarshal(events[kept-1], &last) != nil || last.Data.Cursor < 1 {
		return 0, false
	}
	cursor = last.Data.Cursor
	before, _ := splitText(r.firstText())
	r.structured.set("events", encode(events[:kept]))
	r.structured.set("cursor", encode(cursor))
	text := before + bellman.EscapeText(string(r.structured.raw()))
	r.o.set("content", encode([]textBlock{{"text", text}, {
		"text",
		"This answer was cut to fit. More events are waiting: call bellman_sync again with the cursor above.",
	}}))
	r.o.remove("structuredContent")
	return cursor, true
}
