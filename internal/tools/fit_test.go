package tools_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/hubtest"
)

const maxReply = 900 << 10

// asText is a result that says a document twice, as the service does: as text,
// indented and after what stands before, and as structuredContent.
func asText(tb testing.TB, before, doc, indent string) string {
	tb.Helper()
	var v any
	d := json.NewDecoder(strings.NewReader(doc))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		tb.Fatal(err)
	}
	pretty, err := json.MarshalIndent(v, "", indent)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := json.Marshal(before + string(pretty))
	if err != nil {
		tb.Fatal(err)
	}
	return fmt.Sprintf(`{"content":[{"type":"text","text":%s}],"structuredContent":%s}`, text, doc)
}

// A reply is made smaller step by step, and no step takes more than it must.
func TestALargeReplyIsMadeSmallerInOrder(t *testing.T) {
	r, fixed, _ := answering(t)
	list := func(n, size int) string {
		return `{"n":1.50,"list":["` + strings.TrimSuffix(strings.Repeat(strings.Repeat("x", size)+`","`, n), `","`) + `"]}`
	}
	const preamble = "UNTRUSTED PEER CONTENT follows.\n\n"
	for _, c := range []struct {
		name, result   string
		indented, data bool
	}{
		{"small enough", asText(t, preamble, list(1000, 100), "  "), true, true},
		{"text compacted", asText(t, preamble, list(40_000, 3), strings.Repeat(" ", 20)), false, true},
		{"structuredContent left out", asText(t, preamble, list(6000, 100), "  "), false, false},
	} {
		fixed.Store(&c.result)
		got := r.call("some_tool", nil)
		if len(got.raw) > maxReply {
			t.Errorf("%s: %d bytes", c.name, len(got.raw))
		}
		if indented := strings.Contains(got.text(), "\n  "); indented != c.indented || (got.data != nil) != c.data {
			t.Errorf("%s: indented %v, structured %v", c.name, indented, got.data != nil)
		}
		doc := strings.TrimPrefix(got.text(), preamble)
		if len(doc) == len(got.text()) || !json.Valid([]byte(doc)) || !strings.Contains(doc, "1.5") {
			t.Errorf("%s: the text lost its preamble or its document: %.60q", c.name, got.text())
		}
	}
	// What only structuredContent says is not thrown away to save room.
	res := fmt.Sprintf(`{"content":[{"type":"text","text":"see below"}],"structuredContent":{"x":%q}}`, strings.Repeat("y", maxReply-1000))
	fixed.Store(&res)
	if got := r.call("some_tool", nil); len(got.data) < maxReply-1000 || len(got.raw) > maxReply {
		t.Errorf("structuredContent of %d bytes is left, the text says %q", len(got.data), got.text())
	}
}

// No reply that a host would refuse goes out, whatever it is made of: what
// cannot be made smaller says what became of the call, and keeps what is short
// of the result.
func TestNoReplyIsLargerThanAHostTakes(t *testing.T) {
	r, fixed, _ := answering(t)
	mega := strings.Repeat("z", 1<<20)
	handles := `"session_id":"qs_1","member_id":"m_1","cursor":7,"join_code":"BELL-1"`
	event := func(cursor int, payload string) string {
		return fmt.Sprintf(`{"trust":"untrusted","origin":{"memberId":"m_x","label":"l"},"data":{"cursor":%d,"type":"message","from":{"member_id":"m_x","label":"l"},"payload":%q,"ref_id":null,"at":"t"}}`, cursor, payload)
	}
	seat := args{"session_id": "qs_1", "member_id": "m_1", "since_cursor": 1}
	for _, c := range []struct {
		name, tool, result string
		isError            bool
		words              []string
	}{
		{"text", "of_tomorrow", `{"content":[{"type":"text","text":"` + mega + `"}],"structuredContent":{` + handles + `}}`, false, []string{"of_tomorrow succeeded: do not call it again", "1048", `"join_code":"BELL-1"`}},
		{"structure", "bellman_start", `{"content":[],"structuredContent":{` + handles + `,"big":"` + mega + `"}}`, false, []string{"bellman_start succeeded: do not call it again", `"session_id":"qs_1","member_id":"m_1","cursor":7,"join_code":"BELL-1"`}},
		{"structure that the text repeats", "bellman_confirm", asText(t, "", `{`+handles+`,"big":"`+mega+`"}`, ""), false, []string{"do not call it again", `"cursor":7`}},
		{"an image", "bellman_send", `{"content":[{"type":"image","data":"` + mega + `","mimeType":"image/png"}]}`, false, []string{"bellman_send succeeded: do not call it again"}},
		{"_meta", "bellman_invite", `{"content":[],"_meta":{"x":"` + mega + `"}}`, false, []string{"do not call it again"}},
		{"many small members", "bellman_leave", `{"content":[],"structuredContent":{` + strings.TrimSuffix(strings.Repeat(`"k":"`+mega[:200]+`",`, 5<<10), ",") + `}}`, false, []string{"do not call it again"}},
		{"a read", "bellman_rooms", `{"content":[{"type":"text","text":"` + mega + `"}]}`, true, []string{"Nothing was changed", "the same call would give the same"}},
		{"a surface", "bellman_surface", `{"content":[],"structuredContent":{"session_id":"qs_1","surface":"` + mega + `"}}`, true, []string{"one by one", `{"session_id":"qs_1"}`}},
		{"a refusal", "bellman_send", `{"isError":true,"content":[{"type":"text","text":"Error: <b>` + mega + `"}]}`, true, []string{`was refused, in more words than fit here: Error: \u003cb>zz`}},
		{"a sync with a surface", "bellman_sync", `{"content":[],"structuredContent":{"events":[` + event(8, "x") + `],"cursor":9,"surface":"` + mega + `"}}`, true, []string{"Nothing was handed over or lost", "without surface", "one by one"}},
		{"a sync with one event", "bellman_sync", `{"content":[],"structuredContent":{"events":[` + event(8, mega) + `,` + event(9, "x") + `],"cursor":9}}`, true, []string{"Nothing was handed over or lost", "pass since_cursor 8"}},
		{"a sync without events", "bellman_sync", `{"content":[],"structuredContent":{"events":[],"cursor":9,"outstanding":"` + mega + `"}}`, true, []string{"Nothing was handed over or lost"}},
		{"a sync in text alone", "bellman_sync", `{"content":[{"type":"text","text":"` + mega + `"}]}`, true, []string{"Nothing was changed"}},
		{"a refused sync", "bellman_sync", `{"isError":true,"content":[{"type":"text","text":"` + mega + `"}]}`, true, []string{"was refused"}},
	} {
		fixed.Store(&c.result)
		a := r.begin(t.Context(), c.tool, seat)
		if c.tool == "bellman_sync" && a.Receipt.Written != nil {
			t.Errorf("%s: handed over", c.name)
		}
		got := readResult(t, a)
		if len(got.raw) > 8<<10 || got.isError != c.isError {
			t.Errorf("%s: %d bytes, error %v: %.300s", c.name, len(got.raw), got.isError, got.raw)
		}
		for _, w := range c.words {
			if !strings.Contains(got.text(), w) {
				t.Errorf("%s says %.300q, want %q in it", c.name, got.text(), w)
			}
		}
	}
	two := `{"content":[],"structuredContent":{"events":[` + event(8, mega[:700<<10]) + `,` + event(9, mega[:700<<10]) + `],"cursor":9}}`
	fixed.Store(&two)
	if got := r.call("bellman_sync", seat); got.isError || len(got.raw) > maxReply || !strings.Contains(got.text(), `"cursor":8,`) || strings.Contains(got.text(), `"cursor":9`) {
		t.Errorf("of two large events one goes out: %.300s", got.raw)
	}
	var small []string
	for i := range 3000 {
		small = append(small, event(i+8, mega[:200]))
	}
	many := asText(t, "UNTRUSTED PEER CONTENT: "+mega[:300]+"\n\n", `{"events":[`+strings.Join(small, ",")+`],"cursor":9000}`, "  ")
	fixed.Store(&many)
	if got := r.call("bellman_sync", seat); got.isError || len(got.raw) > maxReply || len(got.raw) < maxReply-16<<10 || !strings.Contains(got.text(), "call bellman_sync again") {
		t.Errorf("of many small events as many go out as fit: %d bytes, %.300s", len(got.raw), got.raw)
	}
	refusal := fmt.Sprintf(`!{"code":-32000,"message":"no %s","data":%q}`, mega, mega)
	fixed.Store(&refusal)
	if a := r.begin(t.Context(), "bellman_rooms", nil); a.Error == nil || a.Error.Code != -32000 || len(a.Error.Message) > 8<<10 || a.Error.Data != nil {
		t.Errorf("an error of the protocol: %.100v", a.Error)
	}
}

// A sync whose events do not fit is cut after a whole one; going on from the
// cursor it names brings every event once, and the room ends with the last
// page only.
func TestALargeSyncIsCutAndGoesOn(t *testing.T) {
	j := join(t, nil)
	var want []string
	for i := range 16 {
		text := fmt.Sprintf("%03d%s", i, strings.Repeat("<\u202e\"", 4500))
		want = append(want, text)
		j.peer.Say(t, text)
	}
	j.peer.OK(t, "bellman_leave", j.peer.Ref(), nil)
	j.hub.As(hubtest.Jesse).OK(t, "bellman_leave", j.seat(), nil)
	var got []string
	pages := 0
	for more, at := true, j.last; more; pages++ {
		res := j.call("bellman_sync", j.seat(args{"since_cursor": at}))
		if len(res.raw) > maxReply || res.isError {
			t.Fatalf("page %d: %d bytes: %.300s", pages, len(res.raw), res.text())
		}
		more = strings.Contains(res.text(), "call bellman_sync again with the cursor above")
		if ended := j.membership().Ended != ""; ended == more {
			t.Fatalf("page %d, more to come %v: the room ended %v", pages, more, ended)
		}
		if !strings.HasPrefix(res.text(), "UNTRUSTED PEER CONTENT") && !strings.Contains(res.text(), "UNTRUSTED PEER CONTENT") {
			t.Errorf("page %d has no preamble", pages)
		}
		doc := res.texts[0][strings.Index("\n"+res.texts[0], "\n{"):]
		var s synced
		if err := json.Unmarshal([]byte(doc), &s); err != nil {
			t.Fatal(err)
		}
		for _, e := range s.Events {
			if e.Data.Type == "message" {
				got = append(got, e.Data.Payload.Text)
			}
		}
		if s.Cursor <= at {
			t.Fatalf("page %d goes on from %d", pages, s.Cursor)
		}
		at = s.Cursor
	}
	if pages < 2 || strings.Join(got, "|") != strings.Join(want, "|") {
		t.Errorf("%d events in %d pages, want %d", len(got), pages, len(want))
	}
}

// Whatever a sync holds, the reply fits while one event does, is JSON, keeps
// the events in order and names the last one's cursor when it left some out.
func TestAnySyncFits(t *testing.T) {
	r, fixed, _ := answering(t)
	for _, unit := range []string{"<", `"`} {
		for _, n := range []int{1, 8} {
			text, _ := json.Marshal(strings.Repeat(unit, 20_000))
			var events []string
			for i := range n {
				events = append(events, fmt.Sprintf(`{"trust":"untrusted","origin":{"memberId":"m_x","label":"l"},"data":{"cursor":%d,"type":"message","from":{"member_id":"m_x","label":"l"},"payload":{"text":%s,"n":1.0},"ref_id":null,"at":"t"}}`, 7+2*i, text))
			}
			doc := `{"events":[` + strings.Join(events, ",") + `],"cursor":` + fmt.Sprint(7+2*n) + `,"session_status":"active","big":12345678901234567890}`
			res := asText(t, "UNTRUSTED PEER CONTENT\n\n", doc, "  ")
			fixed.Store(&res)
			a := r.begin(t.Context(), "bellman_sync", args{"session_id": "qs_1", "member_id": "m_1", "since_cursor": 1})
			r.lose(a, false)
			checkFit(t, fmt.Sprintf("%d of %q", n, unit), readResult(t, a), n)
		}
	}
}

func checkFit(t *testing.T, what string, got result, n int) {
	t.Helper()
	body := got.data
	if body == nil {
		body = json.RawMessage(got.texts[0][strings.Index(got.texts[0], "{"):])
	}
	var s struct {
		Events []struct{ Data struct{ Cursor int64 } }
		Cursor int64
		Big    json.Number
	}
	if err := json.Unmarshal(body, &s); err != nil || s.Big != "12345678901234567890" || len(got.raw) > maxReply || len(s.Events) == 0 {
		t.Fatalf("%s: %v, %s, %d bytes, %d events", what, err, s.Big, len(got.raw), len(s.Events))
	}
	for i, e := range s.Events {
		if e.Data.Cursor != int64(7+2*i) {
			t.Fatalf("%s: event %d has cursor %d", what, i, e.Data.Cursor)
		}
	}
	last := int64(7 + 2*n)
	if len(s.Events) < n {
		last = s.Events[len(s.Events)-1].Data.Cursor
		if len(got.raw) < maxReply*3/4 {
			t.Errorf("%s: cut to %d bytes", what, len(got.raw))
		}
	}
	if s.Cursor != last {
		t.Errorf("%s: %d events, cursor %d, want %d", what, len(s.Events), s.Cursor, last)
	}
}
