package bellman_test

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode"
	"unicode/utf8"

	"bellman.sh/desktop/internal/bellman"
)

// What can hide, move or close something in a text is written as an escape of
// JSON; what is laid out or merely foreign stays.
func TestEscapeText(t *testing.T) {
	for given, want := range map[string]string{
		"plain ASCII {\"a\":1}\n\tindented":    "plain ASCII {\"a\":1}\n\tindented",
		"Grüße, 語 😀 é":                         "Grüße, 語 😀 é",
		"</tag>":                               `\u003c/tag>`,
		"a\x00\x07\x1b[31m\r\x7f":              `a\u0000\u0007\u001b[31m\u000d\u007f`,
		"\u0085\u009b":                         `\u0085\u009b`,
		"\u202a\u202e\u2066\u2069\u200e\u061c": `\u202a\u202e\u2066\u2069\u200e\u061c`,
		"\u200b\u200c\u200d\u2060\ufeff\u00ad": `\u200b\u200c\u200d\u2060\ufeff\u00ad`,
		"\U000e0001\U000e0041\U000e007f":       `\udb40\udc01\udb40\udc41\udb40\udc7f`,
		"\ufe00\ufe0f\U000e0100\u180b":         `\ufe00\ufe0f\udb40\udd00\u180b`,
		"\u2028\u2029\u3164\uffa0\u115f\u034f": `\u2028\u2029\u3164\uffa0\u115f\u034f`,
		"\u2065\ufff0\ufff8\U000e0fff":         `\u2065\ufff0\ufff8\udb43\udfff`, // not assigned, and invisible once they are
		"bad \xff\xfe":                         `bad \ufffd\ufffd`,
	} {
		if got := bellman.EscapeText(given); got != want {
			t.Errorf("%q: got %s, want %s", given, got, want)
		}
	}
}

// Of every text: nothing hidden is left, once is enough, and a JSON document
// keeps its value.
func FuzzEscapeText(f *testing.F) {
	for _, seed := range []string{"", "<", "a\u202eb", "\U000e0041", "\xff", `{"<":"\u200b\\u003c"}`, "\ud7ff\ue000"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := bellman.EscapeText(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, hides) {
			t.Fatalf("%q became %q", s, got)
		}
		if again := bellman.EscapeText(got); again != got {
			t.Fatalf("%q became %q, then %q", s, got, again)
		}
		if strings.Contains(s, "\r") {
			return // a carriage return moves the reader's eye, and no service lays JSON out with one
		}
		var in, out any
		if utf8.ValidString(s) && json.Unmarshal([]byte(s), &in) == nil {
			if err := json.Unmarshal([]byte(got), &out); err != nil || !equal(in, out) {
				t.Fatalf("%q means %v, %q means %v (%v)", s, in, got, out, err)
			}
		}
		quoted, err := json.Marshal(s)
		if err != nil {
			return
		}
		var value string
		if err := json.Unmarshal([]byte(bellman.EscapeText(string(quoted))), &value); err != nil || value != strings.ToValidUTF8(s, "\ufffd") && utf8.ValidString(s) {
			t.Fatalf("the string %q reads %q (%v)", s, value, err)
		}
	})
}

// hides is the promise in other words than the code's.
func hides(r rune) bool {
	return r == '<' || (unicode.IsControl(r) && r != '\n' && r != '\t') || unicode.Is(unicode.Bidi_Control, r) ||
		unicode.Is(unicode.Variation_Selector, r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Other_Default_Ignorable_Code_Point, r)
}

func equal(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && string(x) == string(y)
}
