package bellman

import "unicode/utf8"

// Units returns the length of s in UTF-16 code units, which is how the
// service counts characters wherever it sets a bound. See protocol.md 10.
func Units(s string) int {
	n := 0
	for _, r := range s {
		n++
		if r > 0xFFFF && r <= utf8.MaxRune {
			n++
		}
	}
	return n
}
