package room_test

import (
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/hub/hubtest"
)

// html is what a captive portal answers to everything.
const html = "HTTP/1.1 200 OK\r\nContent-Type: text/html\r\nContent-Length: 26\r\nConnection: close\r\n\r\n<html>please log in</html>"

// faults are what a network does to connections; cut says that those which are
// open go with it.
var faults = []struct {
	name  string
	fault fault
	cut   bool
}{
	{"cut", fault{}, true},
	{"refused", fault{refuse: true}, true},
	{"stalled and cut", fault{stall: true}, true},
	{"half-open", fault{deaf: true}, true},
	{"slow", fault{delay: 20 * time.Millisecond}, false},
	{"reset in the middle of a frame", fault{limit: 300}, false},
	{"reply dropped after the service acted", fault{dropped: true}, false},
	{"captive portal", fault{say: html}, true},
	{"not HTTP at all", fault{say: "220 smtp ready\r\n"}, true},
}

// scene is a watch that a fault strikes in one of its states.
type scene struct {
	*service
	ours, peer *hubtest.Seat
	bridge     *bridge
	said       []string // and not taken yet
	strike     func()   // the fault begins
}

func (c *scene) say(t *testing.T, text string) {
	t.Helper()
	c.peer.Say(t, text)
	c.said = append(c.said, text)
}

// states are those a watch can be in; each brings one about and strikes.
var states = []struct {
	name  string
	reach func(t *testing.T, c *scene)
}{
	{"connecting", func(t *testing.T, c *scene) {
		t.Helper()
		c.strike()
		c.bridge = c.watching(t, c.ours)
	}},
	{"in the handshake", func(t *testing.T, c *scene) {
		t.Helper()
		asked, struck := make(chan struct{}), make(chan struct{})
		var n atomic.Int64
		c.answer(func(_ http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path == "/ws" && n.Add(1) == 1 {
				close(asked)
				<-struck
			}
			return false
		})
		c.bridge = c.watching(t, c.ours)
		<-asked
		c.strike()
		close(struck)
	}},
	{"replaying", func(t *testing.T, c *scene) {
		t.Helper()
		pad := strings.Repeat("x", 19_000)
		for i := range 16 {
			c.say(t, fmt.Sprint(i, pad))
		}
		c.set(fault{delay: 25 * time.Millisecond})
		c.bridge = c.watching(t, c.ours)
		c.bridge.eventually(t, "the replay has begun", func() bool { return c.bridge.membership(t, c.ours).Fetched > 0 })
		c.strike()
	}},
	{"live", func(t *testing.T, c *scene) {
		t.Helper()
		c.live(t)
		c.strike()
	}},
	{"polling", func(t *testing.T, c *scene) {
		t.Helper()
		c.noSocket(http.StatusUpgradeRequired)
		c.live(t)
		c.strike()
	}},
	{"degraded", func(t *testing.T, c *scene) {
		t.Helper()
		var offered atomic.Bool
		c.answer(func(w http.ResponseWriter, r *http.Request) bool {
			if r.URL.Path != "/ws" || offered.Load() {
				return false
			}
			http.Error(w, "no", http.StatusServiceUnavailable)
			return true
		})
		c.bridge = c.watching(t, c.ours)
		c.bridge.eventually(t, "it is polled", func() bool {
			if c.calls.Load() == 0 {
				c.bridge.watcher.Kick() // rather than wait for the third failure
			}
			return c.bridge.membership(t, c.ours).Fetched > 0
		})
		offered.Store(true)
		c.strike()
	}},
}

// live brings a watch that has stored something.
func (c *scene) live(t *testing.T) {
	t.Helper()
	c.bridge = c.watching(t, c.ours)
	c.say(t, "before")
	c.bridge.eventually(t, "it is watched", func() bool { return c.bridge.membership(t, c.ours).Fetched >= 2 })
}

// Every fault of the network in every state of a watch: what was said before,
// during and after it arrives once and in order, and nothing has ended.
func TestNothingIsLostOrDoubledByTheNetwork(t *testing.T) {
	for _, state := range states {
		for _, f := range faults {
			t.Run(f.name+" while "+state.name, func(t *testing.T) {
				t.Parallel()
				c := &scene{service: startService(t), said: []string{"member_joined"}}
				c.ours, c.peer = c.pair(t)
				c.strike = func() {
					c.set(f.fault)
					if f.cut {
						c.cut()
					}
				}
				state.reach(t, c)
				for i := range 3 {
					c.say(t, fmt.Sprint("during ", i))
				}
				time.Sleep(150 * time.Millisecond) // let the fault bite
				c.set(fault{})
				if f.cut {
					c.cut()
				}
				c.bridge.watcher.Kick()
				c.say(t, "after")
				got := c.bridge.take(t, len(c.said))
				if diff := cmp.Diff(c.said, texts(t, got)); diff != "" {
					t.Error(diff)
				}
				if end := c.bridge.membership(t, c.ours).Ended; end != "" {
					t.Errorf("the network ended the membership: %s", end)
				}
			})
		}
	}
}
