package surface_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/hub/surface"
)

// What a write says is what its event says: an item that was accepted is
// accepted again as its event carries it, and is the same item.
func FuzzWrite(f *testing.F) {
	for _, seed := range []string{
		`{"key":"k","kind":"text","body":"x"}`, `{"key":"k","remove":true}`, `{"key":"k","kind":"shape","shape":{"form":"line","flip":true},"placement":{"x":-1e9,"y":0,"w":1,"h":1}}`,
		`{"key":"k","kind":"connector","ends":{"from":"a","to":"b"}}`, `null`, `{"key":null,"kind":null}`, `{"key":"k","kind":"link","body":"http://[::1"}`,
		`{"key":"k","kind":"image","blob":{"id":"0123456789abcdef0123456789abcdef"},"title":"t"}`, `{"key":"k","kind":"html","body":"<p>"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		w, err := surface.Read(raw)
		if err != nil || w.Remove {
			return
		}
		event, err := json.Marshal(w.Item.Event())
		if err != nil {
			t.Fatalf("%s: %v", raw, err)
		}
		again, err := surface.Read(event)
		if err != nil {
			t.Fatalf("%s was accepted, its event %s was not: %v", raw, event, err)
		}
		if diff := cmp.Diff(w, again); diff != "" {
			t.Errorf("%s: %s", raw, diff)
		}
	})
}
