package remote_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/remote"
)

// accept answers calls with one token and refuses the others.
func accept(good string) func(http.ResponseWriter, *http.Request, request) {
	return func(w http.ResponseWriter, _ *http.Request, m request) {
		if m.token != good {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		if m.Method == "initialize" {
			welcome(w, m)
			return
		}
		reply(w, m, `{}`)
	}
}

// A refused token is replaced once and the request sent again with its body.
func TestARefusedTokenIsReplacedOnce(t *testing.T) {
	s := start(t, accept("new"))
	tokens := &rotating{tokens: []string{"old", "new", "newer"}}
	if _, err := call(t, client(t, s.URL, tokens)); err != nil {
		t.Fatal(err)
	}
	if n := tokens.replaced(); n != 1 {
		t.Errorf("replaced %d times", n)
	}
	if n := s.count("initialize"); n != 2 {
		t.Errorf("initialize was sent %d times", n)
	}
}

// A second 401 is the last word: no loop, and only the person can help.
func TestASecondRefusalIsTheLastWord(t *testing.T) {
	s := start(t, accept("none"))
	tokens := &rotating{tokens: []string{"a", "b", "c", "d"}}
	_, err := call(t, client(t, s.URL, tokens))
	if !errors.Is(err, remote.ErrSignInNeeded) {
		t.Errorf("got %v", err)
	}
	if n := tokens.replaced(); n != 1 || s.count("initialize") != 2 {
		t.Errorf("replaced %d times, asked %d times", n, s.count("initialize"))
	}
}

// A refresh that fails for the moment is no reason to sign in again: nothing
// was sent, and the next call tries again (auth.md: transient failures never
// open a browser).
func TestARefreshThatFailsForTheMomentIsNoSignIn(t *testing.T) {
	s := start(t, accept("good"))
	tokens := &rotating{tokens: []string{"stale"}, err: errors.New("token endpoint answered 503")}
	c := client(t, s.URL, tokens)
	_, err := call(t, c)
	if errors.Is(err, remote.ErrSignInNeeded) {
		t.Fatalf("asked for a sign-in: %v", err)
	}
	if e := serviceError(t, err); e.Sent || e.Status != 0 || !strings.Contains(e.Error(), "503") {
		t.Errorf("got %+v", e)
	}
	tokens.mu.Lock()
	tokens.tokens = []string{"good"}
	tokens.mu.Unlock()
	if _, err := call(t, c); err != nil {
		t.Error(err)
	}
}

// Why there is no token is said in full, and not laid at the service's door: a
// keychain or another copy may be what holds it up.
func TestWhyThereIsNoTokenIsSaid(t *testing.T) {
	s := start(t, accept("good"))
	busy := fmt.Errorf("another copy is refreshing the sign-in: %w", fmt.Errorf("wait for the lock: %w", context.DeadlineExceeded))
	for name, tokens := range map[string]*failing{"none": {token: busy}, "no other": {replace: busy}} {
		_, err := call(t, client(t, s.URL, tokens))
		e := serviceError(t, err)
		if !strings.Contains(e.Error(), "sign-in cannot be used") || !strings.Contains(e.Error(), "another copy") || !strings.HasSuffix(e.Error(), "wait for the lock: no answer in time") || strings.Contains(e.Error(), "service") {
			t.Errorf("%s: %v", name, e)
		}
		if e.Sent || errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s: it is taken for a call whose fate is unknown", name)
		}
		if plain := e.Plain(); plain != "the sign-in cannot be used at the moment" {
			t.Errorf("%s: %q", name, plain)
		}
	}
}

// failing is a sign-in that gives no token, or no other one.
type failing struct{ token, replace error }

func (f *failing) Token(context.Context) (string, error)           { return "stale", f.token }
func (f *failing) Replace(context.Context, string) (string, error) { return "", f.replace }

// A key is what it is: its refusal needs the person, and is not tried twice.
func TestARefusedKeyIsNotTriedTwice(t *testing.T) {
	s := start(t, accept("other"))
	_, err := call(t, client(t, s.URL, remote.Key(secret)))
	if !errors.Is(err, remote.ErrSignInNeeded) || strings.Contains(err.Error(), secret) {
		t.Errorf("got %v", err)
	}
	if n := s.count("initialize"); n != 1 {
		t.Errorf("asked %d times", n)
	}
}

// The token goes to the service's origin and nowhere else: a redirect is an
// answer, not a way.
func TestTheTokenGoesNowhereElse(t *testing.T) {
	other := start(t, func(w http.ResponseWriter, _ *http.Request, m request) { reply(w, m, `{}`) })
	for _, status := range []int{301, 302, 303, 307, 308} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			s := start(t, func(w http.ResponseWriter, r *http.Request, m request) {
				if m.Method == "initialize" {
					welcome(w, m)
					return
				}
				http.Redirect(w, r, other.URL+"/mcp", status)
			})
			c := client(t, s.URL, remote.Key(secret))
			_, err := call(t, c)
			if e := serviceError(t, err); e.Status != status {
				t.Errorf("got %v", e)
			}
			if _, err := c.OpenSocket(t.Context(), "qs_1", 0); serviceError(t, err).Status != status {
				t.Errorf("socket: %v", err)
			}
			_, err = c.UploadBlob(t.Context(), remote.Upload{Room: "qs_1", Member: "m", Name: "n", Type: "text/plain", Size: 2, Open: text("hi")})
			if serviceError(t, err).Status != status {
				t.Errorf("upload: %v", err)
			}
		})
	}
	if n := len(other.requests("")) + other.count("tools/call"); n != 0 {
		t.Errorf("the other origin was asked %d times", n)
	}
}

// An upload streams, is named and typed as told, and is sent again once after
// a refused token; its answer names the blob.
func TestAnUploadIsReplayedAfterARefusedToken(t *testing.T) {
	var got, path string
	s := start(t, func(w http.ResponseWriter, r *http.Request, m request) {
		if m.token != "new" {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		body, _ := io.ReadAll(r.Body)
		got, path = string(body)+" "+r.Header.Get("Content-Type"), r.URL.String()
		w.WriteHeader(http.StatusCreated)
		_, _ = io.WriteString(w, `{"blob_id":"b1","bytes":5,"type":"text/plain","name":"x"}`)
	})
	c := client(t, s.URL, &rotating{tokens: []string{"old", "new"}})
	blob, err := c.UploadBlob(t.Context(), remote.Upload{
		Room: "qs/../1", Member: "m&1", Name: "é ?.txt", Type: "text/plain", Size: 5, Open: text("hello"),
	})
	if err != nil || blob != (remote.Blob{ID: "b1", Bytes: 5, Type: "text/plain", Name: "x"}) {
		t.Fatalf("got %+v, %v", blob, err)
	}
	if got != "hello text/plain" || path != "/rooms/qs%2F..%2F1/blobs?member_id=m%261&name=%C3%A9+%3F.txt" {
		t.Errorf("got %q at %s", got, path)
	}
}

var errFile = errors.New("file became shorter")

type broken struct{}

func (broken) Read([]byte) (int, error) { return 0, errFile }

// Why an upload failed stays to be told: a refusal by its status and words, a
// file by its own error.
func TestAnUploadThatFails(t *testing.T) {
	for name, row := range map[string]struct {
		status       int
		body, detail string
		sent         bool
	}{
		"JSON":       {409, `{"error":"frozen","error_description":"the room is frozen"}`, "the room is frozen", false},
		"text":       {413, "too\nlarge", "too large", false},
		"crash":      {500, "", "", true},
		"no blob id": {201, "{}", "the answer names no blob", true},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(w http.ResponseWriter, r *http.Request, _ request) {
				_, _ = io.Copy(io.Discard, r.Body)
				w.WriteHeader(row.status)
				_, _ = io.WriteString(w, row.body)
			})
			c := client(t, s.URL, remote.Key(secret))
			_, err := c.UploadBlob(t.Context(), remote.Upload{Room: "qs_1", Member: "m", Name: "n", Type: "t/x", Size: 2, Open: text("hi")})
			if e := serviceError(t, err); e.Status != row.status || e.Detail != row.detail || e.Sent != row.sent {
				t.Errorf("got %+v", e)
			}
			_, err = c.UploadBlob(t.Context(), remote.Upload{Room: "qs_1", Member: "m", Name: "n", Type: "t/x", Size: 2, Open: func() io.Reader { return broken{} }})
			if !errors.Is(err, errFile) {
				t.Errorf("a file that cannot be read: %v", err)
			}
		})
	}
}

// widening are tokens of which the service finds the first one too narrow.
type widening struct {
	rotating

	widened    error
	challenges []string
}

// Widen implements remote.Widener.
func (w *widening) Widen(_ context.Context, _ string, challenges []string) (string, error) {
	w.challenges = challenges
	if w.widened != nil {
		return "", w.widened
	}
	return "wide", nil
}

// A 403 with a challenge is about access: a token that has more is tried once,
// only the person can help when they must be asked, and else the refusal
// stands, as one without a challenge does.
func TestATokenThatIsTooNarrow(t *testing.T) {
	challenge := `Bearer error="insufficient_scope", scope="write"`
	for name, c := range map[string]struct {
		challenge string
		tokens    remote.Tokens
		check     func(error) bool
		calls     int
	}{
		"another has more": {challenge, &widening{rotating: rotating{tokens: []string{"narrow"}}}, func(err error) bool { return err == nil }, 2},
		"the person is to be asked": {
			challenge, &widening{rotating: rotating{tokens: []string{"narrow"}}, widened: fmt.Errorf("x: %w", remote.ErrSignInNeeded)},
			func(err error) bool { return errors.Is(err, remote.ErrSignInNeeded) }, 1,
		},
		"no more to be had": {challenge, &widening{rotating: rotating{tokens: []string{"narrow"}}, widened: errors.New("x")}, forbidden, 1},
		"no challenge":      {"", &widening{rotating: rotating{tokens: []string{"narrow"}}}, forbidden, 1},
		"a key":             {challenge, remote.Key("narrow"), forbidden, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := start(t, func(w http.ResponseWriter, _ *http.Request, m request) {
				switch {
				case m.Method == "initialize":
					welcome(w, m)
				case m.Method == "tools/call" && m.token == "narrow":
					if c.challenge != "" {
						w.Header().Set("WWW-Authenticate", c.challenge)
					}
					w.WriteHeader(http.StatusForbidden)
				default:
					reply(w, m, `{}`)
				}
			})
			_, err := call(t, client(t, s.URL, c.tokens))
			if !c.check(err) {
				t.Errorf("got %v", err)
			}
			if n := s.count("tools/call"); n != c.calls {
				t.Errorf("called %d times, want %d", n, c.calls)
			}
			if w, ok := c.tokens.(*widening); ok && (len(w.challenges) > 0) != (c.challenge != "") {
				t.Errorf("challenges %q", w.challenges)
			}
		})
	}
}

func forbidden(err error) bool {
	e, ok := errors.AsType[*remote.Error](err)
	return ok && e.Status == http.StatusForbidden && !e.Sent
}

// text is a file that holds s.
func text(s string) func() io.Reader { return func() io.Reader { return strings.NewReader(s) } }
