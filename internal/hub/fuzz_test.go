package hub_test

import (
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"unicode"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub"
)

// Whatever a file is called, what is kept of its name is short, stays in its
// folder and its line, shows what it is, and survives a header.
func FuzzFileName(f *testing.F) {
	for _, seed := range []string{"a.txt", "../../etc/passwd", "a\u202etxt.exe", "\u200d", " \t", "r\u00e9sum\u00e9 (1).md", "\xff\xfe", "a\r\nSet-Cookie: x", strings.Repeat("\U0001F514", 101)} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, given string) {
		name, ok := hub.CleanFileName(given)
		if !ok {
			return
		}
		if n := bellman.Units(name); n < 1 || n > 200 || strings.TrimSpace(name) != name {
			t.Errorf("%q became %q of %d units", given, name, n)
		}
		for _, r := range name {
			hidden := unicode.Is(unicode.Cf, r) && r != '\u00ad' && r != '\u200c' && r != '\u200d'
			if r == '/' || r == '\\' || unicode.IsControl(r) || hidden {
				t.Errorf("%q became %q, which holds %U", given, name, r)
			}
		}
		if again, ok := hub.CleanFileName(name); !ok || again != name {
			t.Errorf("cleaning %q again gives %q, %t", name, again, ok)
		}
		value := hub.ExtValue(name)
		if back, err := url.PathUnescape(value); err != nil || back != name {
			t.Errorf("%q in a header reads %q, %v", name, back, err)
		}
		if strings.ContainsAny(value, "\"\\;, \r\n'") {
			t.Errorf("%q in a header is %q", name, value)
		}
	})
}

// Whatever type a file claims, it is stored under one that a header can hold,
// and as an image only when it is one.
func FuzzMediaType(f *testing.F) {
	f.Add("text/html; charset=x", []byte("<p>"))
	f.Add("image/png", []byte("\x89PNG\r\n\x1a\n1234"))
	f.Add("IMAGE/SVG+XML", []byte("<svg"))
	f.Add("image/webp", []byte("RIFF1234WEBP"))
	f.Fuzz(func(t *testing.T, claimed string, head []byte) {
		got := hub.MediaType(claimed, head)
		if len(got) > 100 || strings.Count(got, "/") != 1 || strings.ContainsFunc(got, func(r rune) bool { return r <= ' ' || r > '~' || unicode.IsUpper(r) }) {
			t.Errorf("%q is stored as %q", claimed, got)
		}
		if strings.HasPrefix(got, "image/") && len(head) < 3 {
			t.Errorf("%d bytes are stored as %q", len(head), got)
		}
	})
}

// Whatever stands in a query, a handshake or a page is refused with 400 or
// begins at a cursor that JavaScript can hold.
func FuzzQuery(f *testing.F) {
	for _, seed := range []string{"session=x&cursor=0", "cursor=9007199254740992&session=x", "session=%00&cursor=+1", "after=1", "after=", "after=1&after=x", "session=x;cursor=1", "%zz"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/ws", nil)
		r.URL.RawQuery = query
		r.Header.Set("Upgrade", "h2c, WebSocket")
		w := httptest.NewRecorder()
		id, cursor, ok := hub.Handshake(w, r)
		switch {
		case ok && (id == "" || cursor < 0 || cursor > 1<<53-1):
			t.Errorf("%q: room %q from %d", query, id, cursor)
		case !ok && w.Code != http.StatusBadRequest:
			t.Errorf("%q: status %d", query, w.Code)
		}
		if after, err := hub.ReadAfter(r); err == nil && (after < -1 || after > 1<<53-1) {
			t.Errorf("%q: after %d", query, after)
		}
	})
}
