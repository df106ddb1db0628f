package room_test

import (
	"regexp"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/room"
)

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
