package tools

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"bellman.sh/desktop/internal/bellman"
)

// maxReply is the size above which a reply is made smaller: hosts refuse
// results near 1 MB.
const maxReply = 900 << 10

// fit returns the result, made smaller if it must be: first the JSON in its
// text compact, then without structuredContent where the text repeats it. What
// is still larger than maxReply must not go out.
func (r *reply) fit() json.RawMessage {
	raw := r.o.raw()
	if len(raw) <= maxReply {
		return raw
	}
	r.eachText(compactText)
	if raw = r.o.raw(); len(raw) <= maxReply || !r.textHoldsAll() {
		return raw
	}
	r.o.remove("structuredContent")
	return r.o.raw()
}

// answer is the answer to a call of tool with this result, or, when a host
// would not take that, what became of the call and what of the result is short.
func (r *reply) answer(tool string) Answer {
	raw := r.fit()
	switch {
	case len(raw) <= maxReply:
		return Answer{Result: raw}
	case r.isError:
		return failure("%s was refused, in more words than fit here: %s", plain(tool), cut(r.firstText(), maxWords))
	case readOnly(tool):
		return failure("%s succeeded, but its answer of %d bytes is more than this host takes. Nothing was changed, and the same call would give the same. %sOf the answer: %s", plain(tool), len(raw), oneByOne(tool), r.short())
	}
	return success(fmt.Sprintf("%s succeeded: do not call it again. Its answer of %d bytes is more than this host takes and is left out, save for: %s", plain(tool), len(raw), r.short()), nil)
}

// oneByOne tells where else to find what stands on a surface.
func oneByOne(tool string) string {
	if tool != bellman.ToolSurface && tool != bellman.ToolSync {
		return ""
	}
	return "The items of the surface come one by one, too, in the surface events of bellman_sync from since_cursor 0. "
}

// maxWords is how many characters are told of a refusal that has too many.
const maxWords = 2000

// short is the structured result with those members alone that are short, as
// handles and cursors are.
func (r *reply) short() string {
	kept := object{}
	for _, m := range r.structured {
		if len(m.raw)+len(m.name) <= 256 && len(kept) < 32 {
			kept = append(kept, m)
		}
	}
	return string(kept.raw())
}

// textHoldsAll reports whether the text says all that structuredContent does.
func (r *reply) textHoldsAll() bool {
	_, doc := splitText(r.firstText())
	return r.structured != nil && doc != "" && sameJSON(json.RawMessage(doc), r.o.get("structuredContent"))
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

// cutEvents writes the reply of a sync anew from its structured result, as text
// alone, with as many events from the front as fit, one at least. Where some
// had to go it sets the cursor to the last one kept, says so, and returns that
// cursor with cut true. A reply that has no events to cut stays as it is.
func (r *reply) cutEvents() (last int64, cut bool) {
	var events []json.RawMessage
	if r.structured == nil || json.Unmarshal(r.structured.get("events"), &events) != nil || len(events) == 0 {
		return 0, false
	}
	before, _ := splitText(r.firstText())
	r.structured.set("events", json.RawMessage("[]"))
	// What is said once around the events, with room for the note.
	size := len(r.o.raw()) - len(r.o.get("content")) - len(r.o.get("structuredContent")) + inText(before+string(r.structured.raw())) + 1<<10
	kept := 0
	for ; kept < len(events); kept++ {
		if size += inText(string(events[kept])) + 1; size > maxReply && kept > 0 {
			break
		}
	}
	cut = kept < len(events)
	if cut {
		if last, cut = eventCursor(events[kept-1]); !cut {
			kept = len(events) // without a cursor to go on from nothing can be left out
		}
	}
	r.structured.set("events", encode(events[:kept]))
	note := "This answer was made smaller to fit."
	if cut {
		r.structured.set("cursor", encode(last))
		note = "This answer was cut to fit. More events are waiting: call bellman_sync again with the cursor above."
	}
	text := before + bellman.EscapeText(string(r.structured.raw()))
	r.o.set("content", encode([]textBlock{{"text", text}, {"text", note}}))
	r.o.remove("structuredContent")
	return last, cut
}

// wayOn tells how to read on where cutEvents could not make a reply small
// enough.
func (r *reply) wayOn() string {
	if r.structured.get("surface") != nil {
		return "Call it again without surface. " + oneByOne(bellman.ToolSync)
	}
	var events []json.RawMessage
	if json.Unmarshal(r.structured.get("events"), &events) == nil && len(events) > 0 {
		if at, ok := eventCursor(events[0]); ok {
			return fmt.Sprintf("The event with cursor %d is too large: pass since_cursor %d to read on behind it.", at, at)
		}
	}
	return "The same call would give the same."
}

// inText is how many bytes s takes in a text block: escaped, as a JSON string.
func inText(s string) int { return len(encode(bellman.EscapeText(s))) }

// eventCursor reads the cursor of an enveloped event.
func eventCursor(envelope json.RawMessage) (int64, bool) {
	o, err := parseObject(envelope)
	if err != nil {
		return 0, false
	}
	data, err := parseObject(o.get("data"))
	if err != nil {
		return 0, false
	}
	n, ok := data.integer("cursor")
	return n, ok && n > 0
}
