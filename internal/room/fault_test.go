package room_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
)

// A service that is gone and comes back at the same address is found again
// without a restart, and its log has what was missed (failure table: service
// down for an hour).
func TestTheServiceRestartsAndTheWatchGoesOn(t *testing.T) {
	t.Parallel()
	s := startService(t)
	ours, peer := s.pair(t)
	b := s.watching(t, ours)
	peer.Say(t, "before")
	b.take(t, 2)
	s.stop(t)
	time.Sleep(100 * time.Millisecond)
	s.restart(t)
	peer.Say(t, "after")
	if diff := cmp.Diff([]string{"after"}, texts(t, b.take(t, 1))); diff != "" {
		t.Error(diff)
	}
}

// A credential that dies ends nothing: nothing is asked of the service but
// now and then, and the next credential resumes where the last one left
// (cases 40 and 147).
func TestALostCredentialEndsNothing(t *testing.T) {
	for _, how := range []string{"none", "refused"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			ours, peer := s.pair(t)
			creds := &tokens{token: hubtest.Jesse}
			b := s.bridgeOf(t, t.TempDir(), creds)
			b.join(t, ours)
			b.start(t)
			b.take(t, 1)
			if how == "none" {
				creds.set("")
			} else {
				creds.set("qk_nobody")
			}
			s.cut()
			peer.Say(t, "unseen")
			b.eventually(t, "the credential was missed", func() bool { return strings.Contains(b.log.String(), "sign-in needed") })
			before := s.opens.Load()
			time.Sleep(300 * time.Millisecond) // for what must not happen
			if n := s.opens.Load() - before; n > 0 {
				t.Errorf("the refused credential was tried %d more times within 300 ms", n)
			}
			if end := b.membership(t, ours).Ended; end != "" {
				t.Fatalf("ended: %s", end)
			}
			creds.set(hubtest.Jesse)
			b.watcher.Kick()
			if diff := cmp.Diff([]string{"unseen"}, texts(t, b.take(t, 1))); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A token that is refused and can be replaced is, once, and the socket opens
// with the new one (case 157).
func TestAnExpiredTokenIsReplacedWithinTheHandshake(t *testing.T) {
	s := startService(t)
	ours, peer := s.pair(t)
	creds := &renewing{tokens: tokens{token: "expired"}, next: hubtest.Jesse}
	b := s.bridgeOf(t, t.TempDir(), creds)
	b.join(t, ours)
	b.start(t)
	peer.Say(t, "hello")
	b.take(t, 2)
	if creds.renewals() != 1 {
		t.Errorf("%d renewals", creds.renewals())
	}
}

// Signed out, or in as somebody else: the first person's rooms are not
// watched, and are again at the next sign-in (failure table).
func TestSigningOutStopsTheWatchAndSigningInResumesIt(t *testing.T) {
	s := startService(t)
	ours, peer := s.pair(t)
	b := s.watching(t, ours)
	b.take(t, 1)
	me := b.id
	for _, who := range []*queue.Identity{nil, {Server: me.Server, User: "u_other"}} {
		b.signIn(who)
		b.eventually(t, "the socket is closed", func() bool { return s.open() == 0 })
		peer.Say(t, "kept in the room")
		b.signIn(&me)
		b.take(t, 1)
	}
}

// Malformed frames do not stop the room: what is no event is passed over (case
// 148).
func TestFramesThatAreNoEventsArePassedOver(t *testing.T) {
	good := string(frameOf(7, "message", "m_peer", map[string]any{"text": "good"}))
	for name, frame := range map[string]string{
		"not JSON":          "hello",
		"a list":            "[]",
		"no cursor":         strings.Replace(good, `"cursor":7,`, "", 1),
		"cursor zero":       strings.Replace(good, `"cursor":7`, `"cursor":0`, 1),
		"cursor negative":   strings.Replace(good, `"cursor":7`, `"cursor":-7`, 1),
		"cursor a fraction": strings.Replace(good, `"cursor":7`, `"cursor":7.5`, 1),
		"cursor a string":   strings.Replace(good, `"cursor":7`, `"cursor":"7"`, 1),
		"cursor too large":  strings.Replace(good, `"cursor":7`, `"cursor":99999999999999999999`, 1),
		"cursor unsafe":     strings.Replace(good, `"cursor":7`, `"cursor":9007199254740992`, 1),
		"no type":           strings.Replace(good, `"type":"message"`, `"type":""`, 1),
		"type a number":     strings.Replace(good, `"type":"message"`, `"type":3`, 1),
		"no sender":         strings.Replace(good, `"member_id":"m_peer"`, `"member_id":""`, 1),
		"sender a string":   strings.Replace(good, `{"label":"Peer","member_id":"m_peer"}`, `"m_peer"`, 1),
		"ref_id a number":   strings.Replace(good, `"ref_id":null`, `"ref_id":7`, 1),
		"no time":           strings.Replace(good, `"at":`, `"then":`, 1),
		"html":              "<html>",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if frame == good {
				t.Fatal("the frame is as good as the good one")
			}
			s := startService(t)
			s.answer(func(w http.ResponseWriter, r *http.Request) bool {
				if r.URL.Path == "/ws" {
					sayAll(w, r, frame, good, good)
				}
				return r.URL.Path == "/ws"
			})
			seat := &hubtest.Seat{Room: "qs_odd", Member: "m_ours"}
			b := s.watching(t, seat)
			if diff := cmp.Diff([]string{"good"}, texts(t, b.take(t, 1))); diff != "" {
				t.Error(diff)
			}
			if n := s.opens.Load(); n != 1 {
				t.Errorf("%d sockets were opened", n)
			}
		})
	}
}

// A disk that is full pauses the watch, which says so and tries again; the
// room's log has what could not be stored (failure table: disk full).
func TestAQueueThatCannotBeWrittenPausesTheWatch(t *testing.T) {
	t.Parallel()
	s := startService(t)
	ours, peer := s.pair(t)
	b := s.watching(t, ours)
	b.take(t, 1)
	release := holdWriteLock(t, b)
	peer.Say(t, "unwritable")
	b.eventually(t, "the pause is told", func() bool { return strings.Contains(b.log.String(), "cannot be stored") })
	release()
	b.watcher.Kick()
	b.take(t, 1)
	if n := strings.Count(b.log.String(), "cannot be stored"); n != 1 {
		t.Errorf("it was said %d times", n)
	}
}

// A membership that no tool call has touched for 72 hours holds no connection;
// the next call resumes it from where it had read, and nothing is lost.
func TestAnIdleMembershipIsNotWatchedUntilItIsTouched(t *testing.T) {
	t.Parallel()
	s := startService(t)
	ours, peer := s.pair(t)
	b := s.watching(t, ours)
	b.take(t, 1)
	db := openFile(t, b)
	if _, err := db.ExecContext(t.Context(), "update member set touched = ?", time.Now().Add(-73*time.Hour).UnixMilli()); err != nil {
		t.Fatal(err)
	}
	b.eventually(t, "the socket is closed", func() bool { return s.open() == 0 })
	peer.Say(t, "meanwhile")
	b.join(t, ours)
	if diff := cmp.Diff([]string{"meanwhile"}, texts(t, b.take(t, 1))); diff != "" {
		t.Error(diff)
	}
}
