package tools

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/bellman"
)

type textBlock struct {
	Type string `json:"type"`
	Text string `json:"text"`
}

type toolResult struct {
	Content    []textBlock `json:"content"`
	Structured any         `json:"structuredContent,omitempty"`
	IsError    bool        `json:"isError,omitempty"`
}

// failure is the answer to a call that could not be done: what happened,
// whether anything was sent, what to do next. It is safe to read whatever the
// args hold.
func failure(format string, args ...any) Answer {
	text := "Error: " + oneLine(fmt.Sprintf(format, args...))
	return Answer{Result: encode(toolResult{Content: []textBlock{{"text", text}}, IsError: true})}
}

// success is the answer of a tool of ours. Its text is safe to read, too.
func success(text string, structured any) Answer {
	return Answer{Result: encode(toolResult{Content: []textBlock{{"text", bellman.EscapeText(text)}}, Structured: structured})}
}

// oneLine makes a sentence safe to read: it may name what peers chose, and a
// line break in that must not look like a new paragraph of ours.
func oneLine(s string) string {
	return strings.NewReplacer("\n", `\n`, "\t", `\t`).Replace(bellman.EscapeText(s))
}

// reply is a tool result of the service, taken apart as far as the bridge acts
// on it.
type reply struct {
	o          object
	isError    bool
	structured object // nil when there is none or it is no object
}

// parseReply takes a result apart. What a host would refuse to read, content
// that is no list of objects, is an error: the agent would hear of nothing.
func parseReply(raw json.RawMessage) (*reply, error) {
	o, err := parseObject(raw)
	if err != nil {
		return nil, err
	}
	if content := o.get("content"); content != nil && !isListOfObjects(content) {
		return nil, errors.New("content is no list of objects")
	}
	r := &reply{o: o, isError: string(o.get("isError")) == "true"}
	if s := o.get("structuredContent"); s != nil {
		r.structured, err = parseObject(s)
		if err != nil {
			r.structured = nil
		}
	}
	return r, nil
}

func isListOfObjects(raw json.RawMessage) bool {
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || list == nil {
		return false
	}
	return !slices.ContainsFunc(list, func(item json.RawMessage) bool { return item[0] != '{' })
}

// eachText replaces the text of every text block by what f makes of it. Other
// blocks, and other members of the block, keep their bytes.
func (r *reply) eachText(f func(string) string) {
	var blocks []json.RawMessage
	if json.Unmarshal(r.o.get("content"), &blocks) != nil {
		return
	}
	changed := false
	for i, raw := range blocks {
		o, err := parseObject(raw)
		if err != nil || o.text("type") != "text" {
			continue
		}
		before := o.text("text")
		if after := f(before); after != before || o.repeated("text") || o.repeated("type") {
			o.set("type", encode("text"))
			o.set("text", encode(after))
			blocks[i], changed = o.raw(), true
		}
	}
	if changed {
		r.o.set("content", encode(blocks))
	}
}

// addText appends a text block.
func (r *reply) addText(text string) {
	var blocks []json.RawMessage
	if json.Unmarshal(r.o.get("content"), &blocks) == nil {
		r.o.set("content", encode(append(blocks, encode(textBlock{"text", text}))))
	}
}

// firstText returns the first text block, which carries an error's sentence.
func (r *reply) firstText() string {
	var blocks []textBlock
	if json.Unmarshal(r.o.get("content"), &blocks) == nil {
		for _, b := range blocks {
			if b.Type == "text" {
				return b.Text
			}
		}
	}
	return ""
}

// escape makes the text blocks safe to read. structuredContent stays exact. The
// sentence of a refusal stands on one line; JSON keeps the lines it is laid
// out in.
func (r *reply) escape() {
	if r.isError {
		r.eachText(oneLine)
		return
	}
	r.eachText(bellman.EscapeText)
}
