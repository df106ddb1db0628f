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
// tags; the rest of the list is invisible without being in it.
func hidden(r rune) bool {
	switch {
	case r < 0x80: // nearly all there is
		return r == '<' || r == 0x7F || (r < ' ' && r != '\n' && r != '\t')
	case r == unicode.ReplacementChar:
		return true
	case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp, unicode.Variation_Selector):
		return true
	}
	switch r {
	case 0x034F, 0x115F, 0x1160, 0x17B4, 0x17B5, 0x3164, 0xFFA0: // joiners and fillers without a glyph
		return true
	}
	return r >= 0xE0000 && r <= 0xE0FFF
}
