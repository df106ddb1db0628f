package room_test

import (
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/room"
)

// The machine joins another network: a socket that looks open and is dead is
// replaced within one back-off step, as after a sleep. The same addresses are
// no news, and neither is a look that fails and goes well again.
func TestAnotherNetworkMakesEverySocketProveItself(t *testing.T) {
	for _, row := range []struct {
		name  string
		after string
		moved bool
	}{
		{"another address", "192.0.2.9/24", true},
		{"no address", "", true},
		{"one more address", "192.0.2.1/24 198.51.100.1/24", true},
		{"the same addresses", "192.0.2.1/24", false},
	} {
		t.Run(row.name, func(t *testing.T) {
			s := &script{sync: held}
			s.socket = s.hold(false)
			addresses := "192.0.2.1/24"
			var moved atomic.Bool
			bubbleWith(t, s, func(_ *testing.T, b *bridge) {
				b.watcher.Join(func() string {
					if moved.Load() {
						return row.after
					}
					return addresses
				})
			}, func(*testing.T, *bridge) {
				time.Sleep(5 * time.Second)
				moved.Store(true)
				time.Sleep(15 * time.Second)
			})
			opens := s.times(&s.opens)
			if !row.moved {
				if len(opens) != 1 {
					t.Errorf("sockets were opened at %v without a move", opens)
				}
				return
			}
			// The next look, 10 s for a sign of life, a second of jitter.
			if len(opens) != 2 || opens[1] > 5*time.Second+2*time.Second+10*time.Second+time.Second {
				t.Errorf("sockets were opened at %v", opens)
			}
		})
	}
}

// Another network is news once: a socket that answers is asked once and kept.
func TestAnotherNetworkIsNewsOnce(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	var moved atomic.Bool
	bubbleWith(t, s, func(_ *testing.T, b *bridge) {
		b.watcher.Join(func() string { return strconv.FormatBool(moved.Load()) })
	}, func(*testing.T, *bridge) {
		time.Sleep(5 * time.Second)
		moved.Store(true)
		time.Sleep(20 * time.Second)
	})
	if pings, opens := s.times(&s.pings), s.times(&s.opens); len(pings) != 1 || len(opens) != 1 {
		t.Errorf("pings at %v, sockets at %v", pings, opens)
	}
}

// A machine that is back on a network does not wait for the end of a back-off
// that began without one.
func TestAMachineThatIsBackOnANetworkTriesAtOnce(t *testing.T) {
	s := &script{sync: held, socket: status(http.StatusServiceUnavailable)}
	var back atomic.Bool
	bubbleWith(t, s, func(_ *testing.T, b *bridge) {
		b.watcher.Join(func() string {
			if back.Load() {
				return "192.0.2.1/24"
			}
			return ""
		})
	}, func(*testing.T, *bridge) {
		time.Sleep(10 * time.Minute) // pauses of a minute to two by now
		back.Store(true)
		time.Sleep(3 * time.Second)
	})
	opens := s.times(&s.opens)
	if last := opens[len(opens)-1]; last < 10*time.Minute || last > 10*time.Minute+2*time.Second {
		t.Errorf("the last try was at %v", last)
	}
}

// Only addresses that lead somewhere count: what a container or a neighbour's
// phone adds to the machine is no other network.
func TestLocalAddressesLeadSomewhere(t *testing.T) {
	for text := range strings.FieldsSeq(room.LocalAddresses()) {
		p, err := netip.ParsePrefix(text)
		if err != nil || p.Addr().IsLoopback() || p.Addr().IsLinkLocalUnicast() {
			t.Errorf("%q (%v)", text, err)
		}
	}
}

// A poll that is held may be on a network that is gone: a Kick ends it, and
// another is made at once.
func TestAKickEndsHeldPolls(t *testing.T) {
	s := &script{sync: held, socket: status(http.StatusUpgradeRequired)}
	bubble(t, s, 1, key, func(t *testing.T, b *bridge) {
		t.Helper()
		time.Sleep(5 * time.Second)
		b.watcher.Kick()
		time.Sleep(2 * time.Second)
		if syncs := s.times(&s.syncs); len(syncs) != 2 {
			t.Errorf("polled at %v", syncs)
		}
	})
}

// fillDisk makes the bridge's queue refuse every event until space is called.
func fillDisk(t *testing.T, b *bridge) (space func()) {
	t.Helper()
	run := func(query string) {
		db := openFile(t, b)
		if _, err := db.ExecContext(t.Context(), query); err != nil {
			t.Error(err)
		}
		_ = db.Close()
	}
	run("create trigger full before insert on event begin select raise(abort, 'disk full'); end")
	return func() { run("drop trigger full") }
}

// A queue that stays full is tried ever more rarely, up to once a minute.
func TestAQueueThatStaysFullIsTriedEverMoreRarely(t *testing.T) {
	s := &script{sync: held}
	s.socket = func(w http.ResponseWriter, r *http.Request, _ int) {
		sayThen(w, r, string(frameOf(1, "message", "m_peer", map[string]any{"text": "x"})), nil)
	}
	bubbleWith(t, s, func(t *testing.T, b *bridge) {
		t.Helper()
		fillDisk(t, b)
	}, func(*testing.T, *bridge) { time.Sleep(10 * time.Minute) })
	all := gaps(s.times(&s.opens))
	if n := len(all); n < 10 || n > 22 {
		t.Errorf("tried %d times in 10 minutes: %v", n, all)
	}
}

// A service that asks to be left alone for a day is asked again within ten
// minutes: a mistake there must not silence a room.
func TestRetryAfterHasABound(t *testing.T) {
	s := &script{sync: held, socket: status(http.StatusServiceUnavailable, "Retry-After", "86400")}
	bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(15 * time.Minute) })
	if opens := s.times(&s.opens); len(opens) != 2 || opens[1] < 10*time.Minute {
		t.Errorf("tried at %v", opens)
	}
}

// A polled room whose queue cannot be written is paused and says so: neither
// its polls nor the socket it is still waiting for are tried without end, and
// the service is left alone for as long as it asked (failure table: disk full).
func TestAPolledRoomThatCannotBeStoredIsTriedRarely(t *testing.T) {
	for name, row := range map[string]struct {
		header    []string
		mostOpens int
	}{
		"no socket":            {nil, 15},
		"no socket for a time": {[]string{"Retry-After", "300"}, 3},
	} {
		t.Run(name, func(t *testing.T) {
			event := string(frameOf(1, "message", "m_peer", map[string]any{"text": "x"}))
			s := &script{socket: status(http.StatusUpgradeRequired, row.header...), sync: func(int) string {
				return `{"content":[],"structuredContent":{"events":[{"trust":"untrusted","data":` + event + `}],"cursor":1,"session_status":"active"}}`
			}}
			var space func()
			bubbleWith(t, s, func(t *testing.T, b *bridge) {
				t.Helper()
				space = fillDisk(t, b)
			}, func(t *testing.T, b *bridge) {
				t.Helper()
				time.Sleep(10 * time.Minute)
				b.shows(t, "qs_0", queue.StatePaused, "events cannot be stored")
				if n := len(s.times(&s.syncs)); n < 8 || n > 40 {
					t.Errorf("polled %d times in 10 minutes", n)
				}
				if n := len(s.times(&s.opens)); n < 2 || n > row.mostOpens {
					t.Errorf("the socket was tried %d times in 10 minutes", n)
				}
				space()
				time.Sleep(2 * time.Minute)
				b.take(t, 1)
			})
		})
	}
}
