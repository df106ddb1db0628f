package room_test

import (
	"bytes"
	"encoding/json"
	"regexp"
	"strings"
	"testing"
	"unicode/utf16"

	"bellman.sh/desktop/internal/hub/room"
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
		compact, sorted, units, deep, err := room.ReadPayload(raw)
		if err != nil || deep {
			return
		}
		var want, got any
		if json.Unmarshal(raw, &want) != nil {
			return // A number no float holds.
		}
		if err := json.Unmarshal(compact, &got); err != nil {
			t.Fatalf("%s was stored as %s: %v", raw, compact, err)
		}
		a, _ := json.Marshal(want)
		b, _ := json.Marshal(got)
		if !bytes.Equal(a, b) {
			t.Errorf("%s was stored as %s", raw, compact)
		}
		if n := len(utf16.Encode([]rune(string(compact)))); n != units {
			t.Errorf("%d units, want %d", units, n)
		}
		again, sortedAgain, _, _, err := room.ReadPayload(compact)
		if err != nil || !bytes.Equal(again, compact) || !bytes.Equal(sortedAgain, sorted) {
			t.Errorf("read again: %s, want %s", again, compact)
		}
	})
}

var codeForm = regexp.MustCompile(`^BELL-[2-9A-HJKMNP-Z]{4}-[2-9A-HJKMNP-Z]{2}-[A-Z][A-Z0-9-]{0,30}$`)

// A code survives being typed: case, spaces and underscores do not matter,
// and normalizing twice is normalizing once.
func FuzzCode(f *testing.F) {
	f.Add(" bell-7f3k_92 peer b")
	f.Add("\u00a0BELL\u2003")
	f.Fuzz(func(t *testing.T, typed string) {
		once := room.NormalCode(typed)
		if room.NormalCode(once) != once && strings.ToUpper(once) == once {
			t.Errorf("%q: %q, then %q", typed, once, room.NormalCode(once))
		}
		code := room.NewCode("peer_b")
		if !codeForm.MatchString(code) || room.NormalCode(strings.ToLower(" "+code)) != code {
			t.Errorf("code %q", code)
		}
	})
}

// Reading a surface write never fails in any way but by a refusal.
func FuzzSurfaceWrite(f *testing.F) {
	for _, seed := range []string{
		`{"key":"k","kind":"text","body":"x"}`, `{"key":"k","remove":true}`, `{"key":"k","kind":"shape","shape":{"form":"line","flip":true},"placement":{"x":-1e9,"y":0,"w":1,"h":1}}`,
		`{"key":"k","kind":"connector","ends":{"from":"a","to":"b"}}`, `null`, `{"key":null,"kind":null}`, `{"key":"k","kind":"link","body":"http://[::1"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		err := room.ReadWrite(raw)
		if _, ok := err.(*room.Error); err != nil && !ok { //nolint:errorlint // A refusal is never wrapped.
			t.Errorf("%s: %v", raw, err)
		}
	})
}
