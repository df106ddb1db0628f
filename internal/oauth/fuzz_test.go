package oauth_test

import (
	"bytes"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"unicode"

	"bellman.sh/desktop/internal/oauth"
)

// Whatever the query of a callback is, it is refused or it is unambiguous, and
// what is said of it is one printable line.
func FuzzCallback(f *testing.F) {
	for _, s := range []string{"code=a&state=b", "error=access_denied&error_description=no%1b%5b31m", "code=a&code=b", "code=a&error=b", "a;b", "%zz", "iss=&iss="} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, raw string) {
		code, failure, said, err := oauth.ParseCallback(raw)
		if err != nil {
			return
		}
		if code != "" && failure != "" {
			t.Error("both a code and an error")
		}
		for _, name := range []string{"code", "state", "iss", "error"} {
			if n := strings.Count("&"+raw, "&"+name+"="); n > 1 {
				t.Errorf("%s was there %d times", name, n)
			}
		}
		if len(said) > 1200 || strings.ContainsFunc(said, func(r rune) bool { return !unicode.IsPrint(r) }) {
			t.Errorf("said %q", said)
		}
	})
}

// A header is read without harm, and a quoted value comes back as it was.
func FuzzWWWAuthenticate(f *testing.F) {
	for _, s := range []string{`Bearer resource_metadata="x"`, `Basic realm="a, b", Bearer x=y`, `Bearer a="\"`, `,,,=`, `Bearer`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		_ = oauth.BearerParam(s, "resource_metadata")
		quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(s)
		if got := oauth.BearerParam(`Basic realm="x", Bearer error="e", resource_metadata="`+quoted+`"`, "resource_metadata"); got != s {
			t.Errorf("read %q, want %q", got, s)
		}
	})
}

// Of a parameter that is there twice the first one counts, and one of another
// scheme never does.
func TestWhichParameterOfAChallengeCounts(t *testing.T) {
	for header, want := range map[string]string{
		`Bearer scope="a", scope="b"`:                "a",
		`Bearer SCOPE=a, scope="b"`:                  "a",
		`Basic scope="a", Bearer scope="b"`:          "b",
		`Bearer realm="x", Digest scope="a"`:         "",
		`Bearer realm="x", bearer scope = "a b" , x`: "a b",
		`scope="a"`:                            "",
		`Bearer realm="scope=\"a\"", scope="b`: "b",
	} {
		if got := oauth.BearerParam(header, "scope"); got != want {
			t.Errorf("%s: %q, want %q", header, got, want)
		}
	}
}

// An item of another version is none, and one that no keychain would hold is
// not made: without a refresh token, leaving the access token out would be
// leaving out the sign-in.
func TestItemsThatAreNone(t *testing.T) {
	const item = `{"v":%d,"gen":1,"iss":"https://a","res":"https://a/mcp","cid":"c","te":"https://a/t","at":%q,"rt":%q,"cs":%q}`
	long := strings.Repeat("x", 2400)
	for name, c := range map[string]struct {
		item        string
		read, again bool
	}{
		"an item":                        {fmt.Sprintf(item, 1, "a", "r", ""), true, true},
		"another version":                {fmt.Sprintf(item, 2, "a", "r", ""), false, false},
		"a long access token":            {fmt.Sprintf(item, 1, long, "r", ""), true, true},
		"a long access token alone":      {fmt.Sprintf(item, 1, long, "", ""), true, false},
		"a secret longer than all of it": {fmt.Sprintf(item, 1, "a", "r", long), true, false},
	} {
		_, _, again, ok := oauth.DecodeItem([]byte(c.item))
		if ok != c.read || (again != nil) != c.again || len(again) > 2300 {
			t.Errorf("%s: read %v, written again in %d bytes", name, ok, len(again))
		}
	}
}

// An endpoint that is accepted has the issuer's origin, over https or on
// loopback.
func FuzzEndpoint(f *testing.F) {
	for _, s := range []string{"https://a/token", "https://a:443/x?y=z", "https://a@b/", "http://127.0.0.1/", "https://[::1]/", "https://a\\@b", "//a/"} {
		f.Add(s, "https://a")
	}
	f.Fuzz(func(t *testing.T, raw, issuer string) {
		to, at, err := oauth.Endpoint(raw, issuer)
		if err != nil {
			return
		}
		if to != at {
			t.Errorf("at %s, the issuer at %s", to, at)
		}
		host := strings.TrimPrefix(to, "http://")
		if host != to && !strings.HasPrefix(host, "127.") && !strings.HasPrefix(host, "localhost:") && !strings.HasPrefix(host, "[") {
			t.Errorf("plain http to %s", host)
		}
	})
}

// A stored item that something else has written is refused, or sends tokens
// to its own issuer only, and is stored again as it was.
func FuzzStoredItem(f *testing.F) {
	f.Add([]byte(`{"v":1,"gen":3,"iss":"https://a","res":"https://a/mcp","cid":"c","te":"https://a/token","rt":"r","at":"t","exp":5,"ttl":600}`))
	f.Add([]byte(`{"v":1,"iss":"https://a","res":"https://a/mcp","cid":"c","te":"https://evil/token","rt":"r"}`))
	f.Add([]byte(`{}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		token, issuer, again, ok := oauth.DecodeItem(b)
		if !ok {
			return
		}
		if to, at, err := oauth.Endpoint(token, issuer); err != nil || to != at {
			t.Errorf("would send to %s for %s: %v", token, issuer, err)
		}
		if again == nil {
			return // Too large to be stored.
		}
		if _, _, twice, ok := oauth.DecodeItem(again); !ok || !bytes.Equal(twice, again) {
			t.Errorf("stored as %s, then as %s", again, twice)
		}
	})
}

// No verb and no encoder shows a token, in whatever it is held.
func TestSecretsMaskThemselves(t *testing.T) {
	const token = "tok-0123456789"
	for _, v := range oauth.Shown(token) {
		for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%X", "%d", "%t"} {
			out := fmt.Sprintf(verb, v)
			if strings.Contains(out, token) || strings.Contains(strings.ToLower(out), fmt.Sprintf("%x", token)) {
				t.Errorf("%s of %T shows the token: %s", verb, v, out)
			}
		}
	}
}

// A public server cannot lead to what only this machine or its network can
// reach; nobody can lead to a cloud's metadata.
func TestServersCannotLeadInwards(t *testing.T) {
	const public, private, loopback = "93.184.216.34", "10.0.0.1", "127.0.0.1"
	for _, c := range []struct {
		from, to string
		want     bool
	}{
		{public, public, true},
		{public, "2606:4700::1111", true},
		{private, private, true},
		{private, public, true},
		{loopback, loopback, true},
		{loopback, private, true},
		{public, private, false},
		{public, "192.168.1.1", false},
		{public, "100.64.0.1", false},
		{public, "fd00::1", false},
		{public, "::ffff:10.0.0.1", false},
		{public, "64:ff9b::a00:1", false},
		{public, loopback, false},
		{public, "::1", false},
		{public, "::ffff:127.0.0.1", false},
		{private, loopback, false},
		{public, "169.254.169.254", false},
		{loopback, "169.254.169.254", false},
		{loopback, "fe80::1", false},
		{loopback, "64:ff9b::a9fe:a9fe", false},
		{loopback, "0.0.0.0", false},
		{loopback, "0.1.2.3", false},
		{public, "255.255.255.255", false},
		{public, "2002:7f00:1::", false},
		{public, "::127.0.0.1", false},
		{public, "224.0.0.1", false},
	} {
		if got := oauth.MayLead(c.from, c.to); got != c.want {
			t.Errorf("from %s to %s: %v, want %v", c.from, c.to, got, c.want)
		}
	}
}

// Whatever the two documents hold, what is found belongs to the server that
// was asked and to one issuer, or nothing is.
func FuzzMetadata(f *testing.F) {
	f.Add("", `{"resource":"https://api.example/mcp","authorization_servers":["https://login.example"]}`,
		`{"issuer":"https://login.example","authorization_endpoint":"https://login.example/a","token_endpoint":"https://login.example/t","code_challenge_methods_supported":["S256"]}`)
	f.Add(`Bearer resource_metadata="https://api.example/x", scope="a"`, `{"resource":"https://api.example","authorization_servers":["https://api.example"]}`,
		`{"issuer":"https://api.example","authorization_endpoint":"https://API.example:443/a?b","token_endpoint":"https://api.example/t","registration_endpoint":"https://evil.example/r","code_challenge_methods_supported":["S256"]}`)
	f.Add(`Bearer resource_metadata="https://evil.example/x"`, `[]`, `null`)
	f.Add("Basic", `{"resource":1}`, `{"issuer":{}}`)
	f.Fuzz(func(t *testing.T, challenge, about, issuing string) {
		s, err := oauth.New(oauth.Config{Server: "https://api.example/mcp", Dir: t.TempDir(), Store: oauth.MemoryStore(), Log: slog.New(slog.DiscardHandler)})
		if err != nil {
			t.Fatal(err)
		}
		s.AnswerWith(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			switch {
			case r.Method == http.MethodPost:
				w.Header().Set("WWW-Authenticate", challenge)
				w.WriteHeader(http.StatusUnauthorized)
			case r.URL.Host == "api.example" && !strings.Contains(r.URL.Path, "authorization-server") && !strings.Contains(r.URL.Path, "openid"):
				_, _ = io.WriteString(w, about)
			default:
				_, _ = io.WriteString(w, issuing)
			}
		}))
		resource, issuer, endpoints, err := oauth.Discover(t.Context(), s)
		if err != nil {
			return
		}
		if resource != "https://api.example/mcp" && !strings.HasPrefix(strings.ToLower(resource), "https://api.example") {
			t.Errorf("a token would be asked for %q", resource)
		}
		for _, at := range endpoints {
			end, own, err := oauth.Endpoint(at.String(), issuer)
			if err != nil || end != own || at.Scheme != "https" || at.User != nil || at.Fragment != "" {
				t.Errorf("the issuer %q leads to %s: %v", issuer, at, err)
			}
		}
	})
}
