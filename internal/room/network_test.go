package room_test

import (
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

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
			bubbleWith(t, s, func(b *bridge) {
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

// A machine that is back on a network does not wait for the end of a back-off
// that began without one.
func TestAMachineThatIsBackOnANetworkTriesAtOnce(t *testing.T) {
	s := &script{sync: held, socket: status(http.StatusServiceUnavailable)}
	var back atomic.Bool
	bubbleWith(t, s, func(b *bridge) {
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
