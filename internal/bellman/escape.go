package bellman

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
)

// EscapeText returns s with everything that could hide or close something in
// the text an agent reads written as a JSON escape: '<', control characters
// other than tab and newline, bidirectional and zero-width characters, tag
// characters, variation selectors and invalid UTF-8. Inside a JSON string the
// value stays the same; s itself may be JSON, whose own line breaks are kept.
func EscapeText(s string) string {
	clean := true
	for _, r := range s {
		if hidden(r) {
			clean = false
			break
		}
	}
	if clean {
		return s
	}
	var b strings.Builder
	b.Grow(len(s) + 64)
	for _, r := range s {
		switch {
		case !hidden(r):
			b.WriteRune(r)
		case r > 0xFFFF:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}

// hidden reports whether r can close a tag, move the reader's eye or not be
// seen at all. unicode.Cf holds the bidi controls, zero-width characters and
// tags; the last table holds joiners and fillers without a glyph, and what is not
// assigned yet and will have none.
func hidden(r rune) bool {
	switch {
	case r < 0x80: // nearly all there is
		return r == '<' || r == 0x7F || (r < ' ' && r != '\n' && r != '\t')
	case r == unicode.ReplacementChar:
		return true
	}
	return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector, unicode.Other_Default_Ignorable_Code_Point)
}
