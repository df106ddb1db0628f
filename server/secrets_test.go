package main

import (
	"bytes"
	"encoding/json"
	"io"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// ear hears everything secret that passes between a bridge and a hub.
type ear struct {
	hub http.Handler

	mu      sync.Mutex
	secrets map[string]string // what it is, by its value
}

// listenIn puts an ear in front of a hub and returns the origin to use.
func listenIn(t *testing.T, h *hubtest.Server) (*ear, string) {
	t.Helper()
	e := &ear{secrets: map[string]string{}}
	s := httptest.NewUnstartedServer(e)
	origin := "http://" + s.Listener.Addr().String()
	e.hub = h.Hub.Handler(origin)
	s.Start()
	t.Cleanup(s.Close)
	return e, origin
}

func (e *ear) hear(what, value string) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if value != "" {
		e.secrets[value] = what
	}
}

// heard tells how often each kind of secret was heard.
func (e *ear) heard() map[string]int {
	e.mu.Lock()
	defer e.mu.Unlock()
	n := map[string]int{}
	for _, what := range e.secrets {
		n[what]++
	}
	return n
}

// ServeHTTP implements http.Handler.
func (e *ear) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	bearer, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	e.hear("access token", bearer)
	switch {
	case r.URL.Path == "/token":
		body, _ := io.ReadAll(r.Body)
		form, _ := url.ParseQuery(string(body))
		e.hear("code", form.Get("code"))
		e.hear("verifier", form.Get("code_verifier"))
		e.hear("refresh token", form.Get("refresh_token"))
		r.Body = io.NopCloser(bytes.NewReader(body))
		rec := httptest.NewRecorder()
		e.hub.ServeHTTP(rec, r)
		var pair struct {
			Access  string `json:"access_token"`
			Refresh string `json:"refresh_token"`
		}
		_ = json.Unmarshal(rec.Body.Bytes(), &pair)
		e.hear("access token", pair.Access)
		e.hear("refresh token", pair.Refresh)
		maps.Copy(w.Header(), rec.Header())
		w.WriteHeader(rec.Code)
		_, _ = w.Write(rec.Body.Bytes())
	case strings.HasPrefix(r.URL.Path, "/authorize"):
		e.hear("state", r.URL.Query().Get("state"))
		e.hub.ServeHTTP(w, r)
	default:
		e.hub.ServeHTTP(w, r)
	}
}

// A whole life of a sign-in, at the most talkative level, leaves no token, code,
// verifier or state behind: not in the log, an answer, a file but the
// credential's own, a command's output, nor with the browser that is started.
func TestNoSecretLeavesTheBridge(t *testing.T) {
	h := hubtest.Start(t)
	e, origin := listenIn(t, h)
	p := newProfile(t, origin+"/mcp", "", "BELLMAN_CREDENTIAL_STORE=file", "BELLMAN_LOG=debug")
	p.withBrowser(t)
	places := map[string]string{}
	b := p.open(t)
	_, ch := b.send("tools/call", toolParams("bellman_start", map[string]any{"manifest": map[string]any{"room": "r", "preset": "pair"}, "brief": hubtest.Brief("g")}))
	approve(t, p.openedLink(t), "Ada")
	started := b.tool(ch)
	if started.IsError {
		t.Fatal(started.text())
	}
	places["the answer to bellman_start"] = started.text() + string(started.Data)
	for range 2 { // the token is over, and the refresh goes the whole way
		h.Clock.Advance(11 * time.Minute)
		r := b.call("bellman_rooms", nil)
		if r.IsError {
			t.Fatal(r.text())
		}
		places["the answer to bellman_rooms"] += r.text() + string(r.Data)
	}
	r := b.call("bellman_whoami", nil)
	places["the answer to bellman_whoami"] = r.text() + string(r.Data)
	for _, command := range [][]string{{"whoami"}, {"status"}, {"status", "--json"}, {"doctor"}, {"doctor", "--json"}, {"logout"}, {"whoami"}} {
		out, _ := p.command(t, command...).CombinedOutput()
		places["what "+strings.Join(command, " ")+" says"] += string(out)
	}
	b.in.Close()
	b.exit()
	places["the log"] = b.err.String()
	err := filepath.WalkDir(p.dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || d.Name() == "credential.json" {
			return err
		}
		held, err := os.ReadFile(path)
		places[path] = string(held)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if heard := e.heard(); heard["access token"] < 3 || heard["refresh token"] < 3 || heard["code"] != 1 || heard["verifier"] != 1 || heard["state"] == 0 {
		t.Fatalf("this tests nothing: heard %v", heard)
	}
	for secret, what := range e.secrets {
		for place, text := range places {
			if strings.Contains(text, secret) {
				t.Errorf("%s holds a %s", place, what)
			}
		}
	}
}
