package payload_test

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf16"

	"bellman.sh/desktop/internal/hub/payload"
)

// A payload means the same after it was read, is as long as JavaScript would
// say, and compares equal to itself.
func FuzzPayload(f *testing.F) {
	for _, seed := range []string{
		`{}`, `{"a":[1,1.0,1e3,12345678901234567890]}`, `{"a":1,"a":2}`, `{"__proto__":{"x":1}}`, "{\"s\":\"\u2028</\\u0000\U0001F514\"}",
		strings.Repeat(`{"a":`, 64) + `1` + strings.Repeat(`}`, 64), strings.Repeat(`{"a":`, 65) + `1` + strings.Repeat(`}`, 65),
		`[]`, `"x"`, `{"a":}`, `{"a":1}{"b":2}`, `{"z":1,"a":{"y":1,"b":2}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		if !json.Valid(raw) {
			return // The transport lets nothing else through.
		}
		p, err := payload.Read(raw)
		if err != nil || p.Deep {
			return
		}
		var want, got any
		if json.Unmarshal(raw, &want) != nil {
			return // A number no float holds.
		}
		if err := json.Unmarshal(p.Compact, &got); err != nil {
			t.Fatalf("%s was stored as %s: %v", raw, p.Compact, err)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Errorf("%s was stored as %s", raw, p.Compact)
		}
		if n := len(utf16.Encode([]rune(string(p.Compact)))); n != p.Units {
			t.Errorf("%d units, want %d", p.Units, n)
		}
		again, err := payload.Read(p.Compact)
		if err != nil || !bytes.Equal(again.Compact, p.Compact) || !bytes.Equal(again.Sorted, p.Sorted) {
			t.Errorf("read again: %s, want %s", again.Compact, p.Compact)
		}
	})
}
