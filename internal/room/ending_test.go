package room_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// called reads the request of a tool and reports whether it is one; the body
// can be read again.
func called(r *http.Request) (id json.RawMessage, ok bool) {
	if r.URL.Path != "/mcp" {
		return nil, false
	}
	body, _ := io.ReadAll(r.Body)
	r.Body = io.NopCloser(bytes.NewReader(body))
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method string          `json:"method"`
	}
	if json.Unmarshal(body, &m) != nil || m.Method != "tools/call" {
		return nil, false
	}
	return m.ID, true
}

// replyTool answers a tool call with a result.
func replyTool(w http.ResponseWriter, id json.RawMessage, result string) {
	w.Header().Set("Content-Type", "application/json")
	_, _ = io.WriteString(w, `{"jsonrpc":"2.0","id":`+string(id)+`,"result":`+result+`}`)
}

const (
	syncActive  = `{"content":[],"structuredContent":{"events":[],"cursor":0,"session_status":"active"}}`
	syncFrozen  = `{"content":[],"structuredContent":{"events":[],"cursor":0,"session_status":"frozen"}}`
	syncClosed  = `{"content":[],"structuredContent":{"events":[],"cursor":0,"session_status":"closed"}}`
	syncRemoved = `{"content":[],"structuredContent":{"events":[],"cursor":0,"session_status":"active","removed":true}}`
	syncOld     = `{"content":[],"structuredContent":{"events":[],"cursor":0}}`
)

func refusal(text string) string {
	return `{"isError":true,"content":[{"type":"text","text":"Error: ` + text + `"}]}`
}

// What ends a membership and what does not: the socket's status makes the
// watch ask, a flag or status in the answer decides, then an event's type, and
// words only in an error, which has no code.
func TestWhatEndsAMembership(t *testing.T) {
	const ours = "m_ours"
	event := func(kind, from string, payload map[string]any) string {
		return string(frameOf(1, kind, from, payload))
	}
	for _, row := range []struct {
		name   string
		socket int    // status of the handshake; 0 opens it
		frame  string // what an open socket says
		sync   string // result of bellman_sync
		want   string // "" goes on
	}{
		{"409 and closed", 409, "", syncClosed, "closed"},
		{"409 that the room denies", 409, "", syncActive, ""},
		{"403 and the removed flag", 403, "", syncRemoved, "removed"},
		{"403 that the room denies", 403, "", syncActive, ""},
		{"404 and the room unknown", 404, "", refusal("session not found: there is no such session"), "gone"},
		{"404 and other capitals", 404, "", refusal("Session Not Found"), "gone"},
		{"403 and the seat somebody else's", 403, "", refusal("member_id is not yours"), "not yours"},
		{"an error nobody knows", 404, "", refusal("something new"), ""},
		{"an answer without a status", 404, "", syncOld, ""},
		{"an answer that is none", 409, "", `{"content":[]}`, ""},
		{"frozen is not the end", 409, "", syncFrozen, ""},
		{"503 asks nobody", 503, "", syncClosed, ""},
		{"429 asks nobody", 429, "", syncClosed, ""},
		{"own eviction", 0, event("member_evicted", "system", map[string]any{"member_id": ours}), syncActive, "removed"},
		{"own seat timed out", 0, event("member_timed_out", "system", map[string]any{"member_id": ours}), syncActive, "removed"},
		{"left elsewhere", 0, event("member_left", ours, map[string]any{"label": "x"}), syncActive, "left"},
		{"somebody else's eviction", 0, event("member_evicted", "system", map[string]any{"member_id": "m_other"}), syncActive, ""},
		{"somebody else left", 0, event("member_left", "m_other", map[string]any{"label": "x"}), syncActive, ""},
		{"a peer writes the handle into a message", 0, event("message", "m_peer", map[string]any{"member_id": ours}), syncActive, ""},
		{"expired and closed", 0, event("session_expired", "system", nil), syncClosed, "closed"},
		{"expired, which the room denies", 0, event("session_expired", "system", nil), syncActive, ""},
	} {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				id, ok := called(r)
				switch {
				case ok:
					replyTool(w, id, row.sync)
				case r.URL.Path != "/ws":
					return false
				case row.socket != 0:
					http.Error(w, "no", row.socket)
				default:
					say(w, r, row.frame)
				}
				return true
			})
			seat := &hubtest.Seat{Room: "qs_row", Member: ours}
			b := s.watching(t, seat)
			if row.frame != "" && !strings.Contains(row.frame, `"member_id":"m_ours","label"`) && !strings.HasPrefix(row.name, "left") {
				b.take(t, 1) // the event first, and whatever it says
			}
			if row.want != "" {
				b.eventually(t, "the membership ends", func() bool { return b.membership(t, seat).Ended == row.want })
				b.eventually(t, "nobody watches the room", func() bool {
					_, err := b.queue.Lease(t.Context(), b.id, seat.Room)
					return err == nil
				})
				return
			}
			b.eventually(t, "the socket or the room was asked", func() bool { return s.opens.Load() > 0 })
			time.Sleep(300 * time.Millisecond) // for what must not happen
			if got := b.membership(t, seat).Ended; got != "" {
				t.Errorf("ended: %s", got)
			}
		})
	}
}

// say serves a room socket that says one frame and then only answers pings.
func say(w http.ResponseWriter, r *http.Request, frame string) {
	sayThen(w, r, frame, nil)
}

// Being removed: one's own eviction is delivered, then nothing, not even what
// was said behind it, and the socket closes (cases 8 and 106).
func TestOwnEvictionIsDeliveredFirstAndNothingAfterIt(t *testing.T) {
	for _, how := range []string{"on the socket", "by poll", "while away"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			creator := s.As(hubtest.Peer).Open(t, nil)
			ours := s.As(hubtest.Jesse).Join(t, creator.Code)
			if how == "by poll" {
				s.noSocket(http.StatusUpgradeRequired)
			}
			dir := t.TempDir()
			b := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse))
			b.join(t, ours)
			if how != "while away" {
				b.start(t)
			}
			creator.Say(t, "before")
			if how != "while away" {
				b.take(t, 1)
			}
			creator.OK(t, bellman.ToolEvict, ours.Ref(), nil)
			if how == "while away" {
				b.start(t)
			}
			want := []string{"before", "member_evicted"}
			if how != "while away" {
				want = want[1:]
			}
			if diff := cmp.Diff(want, texts(t, b.take(t, len(want)))); diff != "" {
				t.Error(diff)
			}
			b.eventually(t, "the membership ends", func() bool { return b.membership(t, ours).Ended == "removed" })
			if p, err := b.queue.Pending(t.Context(), b.id, queue.Filter{}); err != nil || p.Events != 0 {
				t.Errorf("%d events are left (%v)", p.Events, err)
			}
		})
	}
}

// Somebody else's eviction is news like any other (case 9).
func TestAnothersEvictionEndsNothing(t *testing.T) {
	s := startService(t)
	ours := s.As(hubtest.Jesse).Open(t, hubtest.Args{"room": "workbench", "preset": "swarm"})
	other := s.As(hubtest.Peer).Join(t, ours.Code)
	b := s.watching(t, ours)
	b.take(t, 1)
	ours.OK(t, bellman.ToolEvict, other.Ref(), nil)
	if diff := cmp.Diff([]string{"member_evicted", "invite_revoked"}, texts(t, b.take(t, 2))); diff != "" {
		t.Error(diff)
	}
	if end := b.membership(t, ours).Ended; end != "" {
		t.Errorf("ended: %s", end)
	}
}

// Leaving through another host ends the seat here too, and a rejoin gives a
// new seat and a new watch.
func TestARejoinIsANewSeatAndANewWatch(t *testing.T) {
	s := startService(t)
	creator := s.As(hubtest.Jesse).Open(t, hubtest.Args{"room": "workbench", "preset": "swarm"})
	ours := s.As(hubtest.Peer).Join(t, creator.Code)
	b := s.bridgeOf(t, t.TempDir(), remote.Key(hubtest.Peer))
	b.join(t, ours)
	b.start(t)
	creator.Say(t, "one")
	b.take(t, 1)
	ours.OK(t, bellman.ToolLeave, ours.Ref(), nil)
	b.eventually(t, "the seat has ended", func() bool { return b.membership(t, ours).Ended == "left" })
	again := s.As(hubtest.Peer).Join(t, creator.Invite(t, ""))
	b.join(t, again)
	creator.Say(t, "two")
	got := b.take(t, 1)
	if got[0].Member.ID != again.Member {
		t.Errorf("the event came for %s, not for the new seat %s", got[0].Member.ID, again.Member)
	}
	if diff := cmp.Diff([]string{"two"}, texts(t, got)); diff != "" {
		t.Error(diff)
	}
}

// A 403 or 404 ends nothing until the credential is known to be that
// identity's (failure table: signed in as somebody else).
func TestAnotherPersonsCredentialEndsNothing(t *testing.T) {
	s := startService(t)
	ours, peer := s.pair(t)
	creds := &tokens{token: hubtest.Outsider}
	b := s.bridgeOf(t, t.TempDir(), creds)
	b.join(t, ours)
	me := b.id
	b.signIn(&queue.Identity{Server: me.Server, User: "u_outsider"})
	b.start(t)
	peer.Say(t, "for me")
	time.Sleep(300 * time.Millisecond) // for what must not happen
	if n := s.opens.Load(); n != 0 {
		t.Errorf("%d sockets were opened for a room of somebody else", n)
	}
	// The moment between two people: the token is the other's already, or still.
	b.signIn(&me)
	b.eventually(t, "the room was asked with the wrong token", func() bool { return s.opens.Load() > 0 })
	b.signIn(&queue.Identity{Server: me.Server, User: "u_outsider"})
	creds.set(hubtest.Jesse)
	time.Sleep(100 * time.Millisecond)
	b.signIn(&me)
	if b.membership(t, ours).Ended != "" {
		t.Skip("the service answered before the person changed, which tells nothing")
	}
	b.take(t, 2)
}

// The person changes while the room is being asked: the answer, which the other
// one's token brought, ends nothing of the first one's.
func TestAnAnswerToSomebodyElseEndsNothing(t *testing.T) {
	t.Parallel()
	s := startService(t)
	asked, changed := make(chan struct{}), make(chan struct{})
	var once sync.Once
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		id, ok := called(r)
		switch {
		case ok:
			once.Do(func() { close(asked) })
			<-changed
			replyTool(w, id, refusal("session not found"))
		case r.URL.Path == "/ws":
			http.Error(w, "no", http.StatusNotFound)
		default:
			return false
		}
		return true
	})
	seat := &hubtest.Seat{Room: "qs_asked", Member: "m_ours"}
	b := s.watching(t, seat)
	<-asked
	b.become(&queue.Identity{Server: b.id.Server, User: "u_other"})
	close(changed)
	b.eventually(t, "the watch has ended", func() bool {
		l, err := b.queue.Lease(t.Context(), b.id, seat.Room)
		return err == nil && b.queue.Unlease(t.Context(), l) == nil
	})
	if end := b.membership(t, seat).Ended; end != "" {
		t.Errorf("ended: %s", end)
	}
}

// A status that may mean the end has the room asked without a wait: a closed
// room would hold a long poll for its whole time.
func TestARoomThatMayBeOverIsAskedWithoutAWait(t *testing.T) {
	for _, code := range []int{http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusGone} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				id, ok := called(r)
				body, _ := io.ReadAll(r.Body)
				switch {
				case ok && bytes.Contains(body, []byte(`"wait_seconds":0`)):
					replyTool(w, id, syncClosed)
				case ok:
					<-r.Context().Done()
				case r.URL.Path == "/ws":
					http.Error(w, "no", code)
				default:
					r.Body = io.NopCloser(bytes.NewReader(body))
					return false
				}
				return true
			})
			seat := &hubtest.Seat{Room: "qs_over", Member: "m_ours"}
			b := s.watching(t, seat)
			b.eventually(t, "the membership ends", func() bool { return b.membership(t, seat).Ended == "closed" })
		})
	}
}
