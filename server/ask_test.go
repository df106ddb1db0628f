package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
)

const canAsk = `{"elicitation":{"form":{},"url":{}}}`

// withBrowser puts a browser on the path that only notes on what it was opened,
// and in which environment beside it, and returns the file it writes to.
func (p *profile) withBrowser(t *testing.T) (opened string) {
	t.Helper()
	opened = filepath.Join(p.dir, "opened")
	if err := os.WriteFile(filepath.Join(p.dir, "xdg-open"), []byte("#!/bin/sh\nenv >'"+opened+".env'\necho \"$*\" >>'"+opened+"'\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "BELLMAN_NO_BROWSER=", "DISPLAY=:99", "PATH="+p.dir+":"+os.Getenv("PATH"))
	return opened
}

// openedLink waits for a browser to be opened and returns on what.
func (p *profile) openedLink(t *testing.T) string {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; time.Sleep(10 * time.Millisecond) {
		said, err := os.ReadFile(filepath.Join(p.dir, "opened"))
		if err == nil && strings.HasSuffix(string(said), "\n") {
			return strings.TrimSpace(string(said))
		}
		if time.Now().After(deadline) {
			t.Fatalf("no browser was opened: %v", err)
		}
	}
}

func wantOpened(t *testing.T, opened string, want int) {
	t.Helper()
	said, err := os.ReadFile(opened)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	if n := strings.Count(string(said), "\n"); n != want {
		t.Errorf("browsers opened: %d, want %d", n, want)
	}
}

// question returns what the bridge asks the host next.
func (b *bridge) question() (q question, id, link string) {
	b.t.Helper()
	select {
	case q = <-b.asked:
	case <-time.After(20 * time.Second):
		b.t.Fatal("the host was not asked")
	}
	var params struct{ Mode, ElicitationID, URL, Message string }
	if err := json.Unmarshal(q.Params, &params); err != nil {
		b.t.Fatal(err)
	}
	if q.Method != "elicitation/create" || params.Mode != "url" || params.ElicitationID == "" || params.Message == "" ||
		startLink.FindString(params.URL) != params.URL {
		b.t.Fatalf("the host was asked %s %s", q.Method, q.Params)
	}
	return q, params.ElicitationID, params.URL
}

func (b *bridge) answer(q question, reply string) {
	b.t.Helper()
	b.write(fmt.Sprintf(`{"jsonrpc":"2.0","id":%s,%s}`, q.ID, reply))
}

// A host that can take the person to a link is asked to, once for all calls;
// no browser is started beside it, and it is told when the sign-in is over.
func TestAHostThatCanAskIsAskedInPlaceOfABrowser(t *testing.T) {
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", "")
	opened := p.withBrowser(t)
	b := p.openIn(t, canAsk)
	_, one := b.send("tools/call", toolParams("bellman_rooms", nil))
	_, two := b.send("tools/call", toolParams("bellman_rooms", nil))
	q, id, link := b.question()
	b.answer(q, `"result":{"action":"accept"}`)
	if status, page := approve(t, link, "Ben"); status != http.StatusOK {
		t.Fatalf("the person lands on %d %s", status, page)
	}
	for _, ch := range []chan reply{one, two} {
		if r := b.tool(ch); r.IsError {
			t.Errorf("a call that waited: %s", r.text())
		}
	}
	for method := range b.notes {
		if method == "notifications/elicitation/complete" {
			break
		}
	}
	if len(b.asked) != 0 {
		t.Errorf("asked again: %+v", <-b.asked)
	}
	if id == "" || strings.Contains(link, id) {
		t.Errorf("the id %q gives the link away", id)
	}
	wantOpened(t, opened, 0)
}

// Who declines, cancels, or whose host answers nonsense is neither asked again
// nor sent a browser: the call ends at once, and the next one has the link.
func TestAPersonWhoDeclinesIsNotAskedAgain(t *testing.T) {
	for name, reply := range map[string]string{
		"decline": `"result":{"action":"decline"}`, "cancel": `"result":{"action":"cancel"}`,
		"nothing": `"result":{}`, "nonsense": `"result":["accept"]`, "another case": `"result":{"action":"ACCEPT "}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := hubtest.Start(t)
			p := newProfile(t, h.URL+"/mcp", "")
			opened := p.withBrowser(t)
			b := p.openIn(t, canAsk)
			_, ch := b.send("tools/call", toolParams("bellman_rooms", nil))
			q, _, _ := b.question()
			b.answer(q, reply)
			if r := b.tool(ch); !r.IsError || !strings.Contains(r.text(), "declined") || !strings.Contains(r.text(), "Nothing was sent") {
				t.Errorf("declined: %s", r.text())
			}
			r := b.call("bellman_rooms", nil)
			link := startLink.FindString(r.text())
			if !r.IsError || link == "" {
				t.Fatalf("the next call: %s", r.text())
			}
			if len(b.asked) != 0 {
				t.Error("asked again")
			}
			wantOpened(t, opened, 0)
			approve(t, link, "Ben")
			for deadline := time.Now().Add(20 * time.Second); b.call("bellman_rooms", nil).IsError; {
				if time.Now().After(deadline) {
					t.Fatal("the link of the answer does not sign in")
				}
			}
		})
	}
}

// A host that says it can ask and then cannot is as good as one that never
// said so.
func TestAHostThatCannotAskAfterAllOpensABrowser(t *testing.T) {
	h := hubtest.Start(t)
	p := newProfile(t, h.URL+"/mcp", "")
	p.withBrowser(t)
	b := p.openIn(t, canAsk)
	_, ch := b.send("tools/call", toolParams("bellman_rooms", nil))
	q, _, link := b.question()
	b.answer(q, `"error":{"code":-32601,"message":"\u001b[31mno such method"}`)
	if got := p.openedLink(t); got != link {
		t.Errorf("the browser was opened on %q, want %q", got, link)
	}
	approve(t, link, "Ben")
	if r := b.tool(ch); r.IsError {
		t.Errorf("the call: %s", r.text())
	}
	if strings.Contains(b.err.String(), "\x1b") {
		t.Error("the host's words stand in the log")
	}
}

// With no browser to be started, the person is still asked by a host that can;
// and one that never answers keeps nobody from signing in with the link.
func TestAHostThatNeverAnswersHoldsNothingUp(t *testing.T) {
	h := hubtest.Start(t)
	b := newProfile(t, h.URL+"/mcp", "").openIn(t, canAsk)
	_, ch := b.send("tools/call", toolParams("bellman_rooms", nil))
	_, _, link := b.question()
	approve(t, link, "Ben")
	if r := b.tool(ch); r.IsError {
		t.Errorf("the call: %s", r.text())
	}
	b.in.Close()
	b.exit()
}

// A host that knows forms alone is not asked.
func TestAHostThatCannotShowALinkIsNotAsked(t *testing.T) {
	for name, capabilities := range map[string]string{
		"none": `{}`, "no mode": `{"elicitation":{}}`, "form": `{"elicitation":{"form":{}}}`, "null": `{"elicitation":{"url":null}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProfile(t, hubtest.Start(t).URL+"/mcp", "")
			b := p.openIn(t, capabilities)
			if r := b.call("bellman_rooms", nil); !r.IsError || startLink.FindString(r.text()) == "" {
				t.Errorf("the call: %s", r.text())
			}
			if len(b.asked) != 0 {
				t.Errorf("the host was asked %s", (<-b.asked).Params)
			}
		})
	}
}
