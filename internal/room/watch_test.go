package room_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// A message reaches the queue without any tool call, over the socket alone,
// and one's own events never come back (bridge.md 10, cases 3, 4 and 101).
func TestPeersEventsArriveAndOnesOwnDoNot(t *testing.T) {
	s := startService(t)
	ours, peer := s.pair(t)
	b := s.watching(t, ours)
	peer.Say(t, "one")
	ours.Say(t, "mine")
	peer.Say(t, "two")
	if diff := cmp.Diff([]string{"member_joined", "one", "two"}, texts(t, b.take(t, 3))); diff != "" {
		t.Error(diff)
	}
	if n := s.calls.Load(); n != 0 {
		t.Errorf("%d calls were made beside the socket", n)
	}
	if n := s.opens.Load(); n != 1 {
		t.Errorf("%d sockets were opened for one room", n)
	}
}

// The queue holds the service's own bytes and its ambient flag (case 55).
func TestEventsAreKeptAsTheyCame(t *testing.T) {
	s := startService(t)
	ours, peer := s.pair(t)
	b := s.watching(t, ours)
	peer.Send(t, "progress", hubtest.Args{"note": "é < \u2028 12345678901234567890"})
	got := b.take(t, 2)[1]
	if got.Event.Type != "progress" || !got.Event.Ambient {
		t.Errorf("got type %s, ambient %v", got.Event.Type, got.Event.Ambient)
	}
	if !strings.Contains(string(got.Event.Body), `"ambient":true`) || !strings.Contains(string(got.Event.Body), "12345678901234567890") {
		t.Errorf("body %s", got.Event.Body)
	}
}

// Two seats of one person in a room share one socket, which resumes from the
// lower cursor; each gets the other's events (case 135).
func TestOneSocketForARoomHoweverManySeats(t *testing.T) {
	s := startService(t)
	ours := s.As(hubtest.Jesse).Open(t, hubtest.Args{"room": "workbench", "preset": "swarm"})
	second := s.As(hubtest.Jesse).Join(t, ours.Code)
	peer := s.As(hubtest.Peer).Join(t, ours.Code)
	b := s.watching(t, ours, second)
	second.Say(t, "from the second")
	peer.Say(t, "to both")
	byMember := map[string][]string{}
	for _, d := range b.take(t, 6) {
		byMember[d.Member.ID] = append(byMember[d.Member.ID], texts(t, []queue.Delivery{d})...)
	}
	want := map[string][]string{
		ours.Member:   {"member_joined", "member_joined", "from the second", "to both"},
		second.Member: {"member_joined", "to both"},
	}
	if diff := cmp.Diff(want, byMember); diff != "" {
		t.Error(diff)
	}
	if n := s.opens.Load(); n != 1 {
		t.Errorf("%d sockets were opened", n)
	}
}

// A seat taken in a room that is watched already is watched from its own
// cursor.
func TestASeatThatJoinsLaterMissesNothing(t *testing.T) {
	s := startService(t)
	ours := s.As(hubtest.Jesse).Open(t, hubtest.Args{"room": "workbench", "preset": "swarm"})
	b := s.watching(t, ours)
	peer := s.As(hubtest.Peer).Join(t, ours.Code)
	b.take(t, 1)
	second := s.As(hubtest.Jesse).Join(t, ours.Code)
	peer.Say(t, "before it is known")
	b.take(t, 2)
	b.join(t, second)
	peer.Say(t, "after")
	got := b.take(t, 3)
	n := 0
	for _, d := range got {
		if d.Member.ID == second.Member {
			n++
		}
	}
	if n != 2 {
		t.Errorf("the second seat got %d of its 2 events: %v", n, texts(t, got))
	}
}

// A watch keeps the seat: long after the last tool call nobody who comes to the
// full room gets it, and once nobody watches it does go (case 15).
func TestAWatchedSeatIsNotGivenAway(t *testing.T) {
	t.Parallel()
	for _, way := range []string{"on the socket", "by poll"} {
		t.Run(way, func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			if way == "by poll" {
				s.noSocket(http.StatusUpgradeRequired)
			}
			creator := s.As(hubtest.Peer).Open(t, nil)
			ours := s.As(hubtest.Jesse).Join(t, creator.Code)
			b := s.watching(t, ours)
			creator.Say(t, "hello")
			b.take(t, 1)
			s.Clock.Advance(11 * time.Minute)
			creator.Say(t, "ends the poll, and shows that the creator is there")
			if way == "by poll" {
				b.eventually(t, "the next poll is heard", func() bool {
					return strings.Count(string(creator.OK(t, bellman.ToolRooms, hubtest.Args{}, nil).Structured), `"presence":"present"`) == 2
				})
			}
			creator.Refused(t, bellman.ToolInvite, creator.Ref(), "full")
			if end := b.membership(t, ours).Ended; end != "" {
				t.Fatalf("ended: %s", end)
			}
			b.stop()
			// Could not be if the seat were still kept; the hub may note only
			// after a while that the watch is gone.
			b.eventually(t, "the seat goes", func() bool {
				s.Clock.Advance(11 * time.Minute)
				r, err := creator.Call(t.Context(), bellman.ToolInvite, creator.Ref())
				return err == nil && !r.IsError
			})
		})
	}
}

// Polls go past one's own events, which they do not bring: else each would be
// answered at once, for ever.
func TestPollsGoPastOnesOwnEvents(t *testing.T) {
	t.Parallel()
	s := startService(t)
	s.noSocket(http.StatusUpgradeRequired)
	ours, _ := s.pair(t)
	b := s.watching(t, ours)
	b.take(t, 1)
	own := ours.Say(t, "mine")
	b.eventually(t, "the cursor is past it", func() bool { return b.membership(t, ours).Fetched == own })
}

// A connection that drops is taken up again from the cursor, and for one short
// failure nobody polls (case 152).
func TestAShortDropIsNotPolledOver(t *testing.T) {
	t.Parallel()
	s := startService(t)
	ours, peer := s.pair(t)
	b := s.watching(t, ours)
	b.take(t, 1)
	s.cut()
	peer.Say(t, "after the drop")
	if diff := cmp.Diff([]string{"after the drop"}, texts(t, b.take(t, 1))); diff != "" {
		t.Error(diff)
	}
	if opens, calls := s.opens.Load(), s.calls.Load(); opens != 2 || calls != 0 {
		t.Errorf("%d sockets and %d calls", opens, calls)
	}
}

// Memberships, cursors and what was not taken survive a restart, and watching
// goes on without a tool call (bridge.md 11.17).
func TestARestartResumesFromTheCursorWithoutAToolCall(t *testing.T) {
	s := startService(t)
	ours, peer := s.pair(t)
	dir := t.TempDir()
	first := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse))
	first.join(t, ours)
	first.start(t)
	peer.Say(t, "taken")
	first.take(t, 2)
	first.stop()
	peer.Say(t, "while it was away")
	second := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse)).start(t)
	if diff := cmp.Diff([]string{"while it was away"}, texts(t, second.take(t, 1))); diff != "" {
		t.Error(diff)
	}
}

// A room is watched from its cursor as soon as the queue knows it, and one that
// is left gives up its own socket and no other.
func TestANewRoomIsWatchedAsSoonAsItIsKnown(t *testing.T) {
	s := startService(t)
	b := s.watching(t)
	var want []string
	var seats []*hubtest.Seat
	for i := range 3 {
		ours, peer := s.pair(t)
		peer.Say(t, fmt.Sprint("room ", i))
		seats = append(seats, ours)
		want = append(want, "member_joined", fmt.Sprint("room ", i))
		b.join(t, ours)
	}
	got := texts(t, b.take(t, len(want)))
	slices.Sort(got)
	slices.Sort(want)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	// Leaving one, as bellman_leave does, closes its socket alone.
	if err := b.queue.End(t.Context(), b.id, queue.Member{Room: seats[0].Room, ID: seats[0].Member}, "left"); err != nil {
		t.Fatal(err)
	}
	b.eventually(t, "one socket is closed", func() bool { return s.open() == 2 })
}

// What a replay brings is stored in batches, in order and once each.
func TestAReplayArrivesInOrderAndOnce(t *testing.T) {
	t.Parallel()
	s := startService(t)
	const n = 9000
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		recite(w, r, n, "")
		return true
	})
	b := s.watching(t, &hubtest.Seat{Room: "qs_recited", Member: "m_ours"})
	last := int64(0)
	for _, d := range b.take(t, n) {
		if d.Event.Cursor != last+1 || d.Redelivered {
			t.Fatalf("cursor %d after %d, redelivered %v", d.Event.Cursor, last, d.Redelivered)
		}
		last = d.Event.Cursor
	}
}

// A flooded room pauses alone, others go on, and it resumes when it is drained
// (failure table: a peer floods one room; queue at its bound).
func TestAFloodedRoomPausesAloneAndResumes(t *testing.T) {
	t.Parallel()
	s := startService(t)
	quiet, peer := s.pair(t)
	flooded := &hubtest.Seat{Room: "qs_flooded", Member: "m_ours"}
	const n = 1100 // of 19 KB: the bound of 16 MiB is reached before that of events
	pad := strings.Repeat("x", 19_000)
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		if r.URL.Query().Get("session") != flooded.Room {
			return false
		}
		recite(w, r, n, pad)
		return true
	})
	b := s.watching(t, flooded, quiet)
	b.eventually(t, "the flooded room is paused", func() bool { return b.membership(t, flooded).Full })
	if b.membership(t, quiet).Full {
		t.Error("the other room is paused too")
	}
	peer.Say(t, "still here")
	b.eventually(t, "the other room goes on", func() bool { return b.membership(t, quiet).Fetched >= 2 })
	last := map[string]int64{}
	for _, d := range b.take(t, n+2) {
		if room := d.Member.Room; d.Event.Cursor <= last[room] || room == flooded.Room && d.Event.Cursor != last[room]+1 {
			t.Fatalf("cursor %d of %s comes after %d", d.Event.Cursor, room, last[room])
		}
		last[d.Member.Room] = d.Event.Cursor
	}
	if b.membership(t, flooded).Full {
		t.Error("the room is still paused")
	}
}

// While the socket is not offered every seat is polled for, and the socket is
// tried again; nothing is lost or doubled on the way there and back (case 141).
func TestPollingServesWhileThereIsNoSocket(t *testing.T) {
	for _, status := range []int{http.StatusNotFound, http.StatusMethodNotAllowed, http.StatusUpgradeRequired, http.StatusForbidden, http.StatusOK, http.StatusFound} {
		t.Run(fmt.Sprint(status), func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			s.noSocket(status, "Location", "http://127.0.0.1:9/")
			ours, peer := s.pair(t)
			b := s.watching(t, ours)
			peer.Say(t, "by poll")
			b.take(t, 2)
			if end := b.membership(t, ours).Ended; end != "" {
				t.Fatalf("a refused socket alone ended the membership: %s", end)
			}
			s.gate.Store(nil)
			b.watcher.Kick()
			b.eventually(t, "the socket is open", func() bool { return strings.Contains(b.log.String(), "the room socket is open") })
			peer.Say(t, "by socket")
			if diff := cmp.Diff([]string{"by socket"}, texts(t, b.take(t, 1))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
