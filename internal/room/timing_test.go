package room_test

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/coder/websocket"
	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/room"
)

// An open socket is asked for a sign of life after 30 s of silence, each time,
// and kept while it answers.
func TestASilentSocketIsPingedEvery30SecondsAndKept(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(5 * time.Minute) })
	if n := len(s.times(&s.opens)); n != 1 {
		t.Errorf("%d sockets were opened", n)
	}
	pings := s.times(&s.pings)
	if len(pings) != 9 && len(pings) != 10 {
		t.Errorf("%d pings in 5 minutes: %v", len(pings), pings)
	}
	for _, gap := range gaps(pings) {
		if gap < 30*time.Second || gap > 31*time.Second {
			t.Errorf("%v between two pings", gap)
		}
	}
}

// A socket that is half open is given up 10 s after the ping.
func TestAHalfOpenSocketIsGivenUpAfter40Seconds(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(false)
	bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(50 * time.Second) })
	opens := s.times(&s.opens)
	if len(opens) != 2 {
		t.Fatalf("sockets were opened at %v", opens)
	}
	// 30 s of silence, 10 s for an answer, at most 1 s of jitter.
	if gap := gaps(opens)[0]; gap < 40*time.Second || gap > 41*time.Second+time.Millisecond {
		t.Errorf("replaced after %v", gap)
	}
}

// A handshake that stalls is abandoned after 10 s, and the third failure in a
// row starts the polling.
func TestAStalledHandshakeIsAbandonedAfter10Seconds(t *testing.T) {
	s := &script{sync: held}
	s.socket = func(_ http.ResponseWriter, r *http.Request, _ int) { <-r.Context().Done() }
	bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(time.Minute) })
	opens, syncs := s.times(&s.opens), s.times(&s.syncs)
	if len(opens) < 3 || len(syncs) == 0 {
		t.Fatalf("opened at %v, polled at %v", opens, syncs)
	}
	for i, gap := range gaps(opens[:3]) {
		if most := 10*time.Second + time.Second<<i; gap < 10*time.Second || gap > most+time.Millisecond {
			t.Errorf("try %d came %v after the one before, want 10 s to %v", i+2, gap, most)
		}
	}
	if syncs[0] < opens[2]+10*time.Second || syncs[0] > opens[2]+11*time.Second {
		t.Errorf("polling began at %v, the third try at %v", syncs[0], opens[2])
	}
}

// The pauses double up to 120 s once polling serves, and are never much less
// than half of that: a service that is down is not hammered.
func TestTheSocketIsTriedEverMoreRarely(t *testing.T) {
	s := &script{sync: held, socket: status(http.StatusServiceUnavailable)}
	bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(20 * time.Minute) })
	all := gaps(s.times(&s.opens))
	for i, gap := range all {
		most := min(time.Second<<min(i, 10), 120*time.Second)
		least := time.Duration(0)
		if i >= 2 {
			least = most / 2
		}
		if gap < least || gap > most+time.Second {
			t.Errorf("pause %d is %v, want %v to %v", i+1, gap, least, most)
		}
	}
	if n := len(all); n < 12 || n > 30 {
		t.Errorf("%d tries in 20 minutes", n)
	}
	if n := len(s.times(&s.syncs)); n < 40 || n > 60 {
		t.Errorf("%d polls of 25 s in 20 minutes", n)
	}
}

// A socket that opens and closes at once is a failure like any other: no busy
// loop, whatever closes it (case 155).
func TestASocketThatClosesAtOnceIsNotForgiven(t *testing.T) {
	for _, code := range []websocket.StatusCode{websocket.StatusNormalClosure, websocket.StatusPolicyViolation, websocket.StatusGoingAway} {
		t.Run(code.String(), func(t *testing.T) {
			s := &script{sync: func(int) string { return syncActive }}
			s.socket = func(w http.ResponseWriter, r *http.Request, _ int) {
				sayThen(w, r, "", func(c *websocket.Conn) { _ = c.Close(code, "") })
			}
			bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(10 * time.Minute) })
			if n := len(s.times(&s.opens)); n < 5 || n > 20 {
				t.Errorf("%d sockets in 10 minutes", n)
			}
			if n := len(s.times(&s.syncs)); n > 640 {
				t.Errorf("%d polls in 10 minutes: under a second apart", n)
			}
		})
	}
}

// A connection that was held for 30 s is forgiven: the next pause is a second
// at most again.
func TestASocketThatWasHeldIsForgiven(t *testing.T) {
	s := &script{sync: held}
	s.socket = func(w http.ResponseWriter, r *http.Request, n int) {
		if n <= 4 {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		sayThen(w, r, "", func(c *websocket.Conn) {
			go answerPings(context.WithoutCancel(r.Context()), c)
			time.Sleep(31 * time.Second)
			_ = c.CloseNow()
		})
	}
	bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(3 * time.Minute) })
	all := gaps(s.times(&s.opens))
	for _, gap := range all[4:] {
		if gap < 31*time.Second || gap > 32*time.Second+time.Millisecond {
			t.Errorf("%v between two sockets that were held for 31 s", gap)
		}
	}
}

// Retry-After is honoured, even when the network changes meanwhile.
func TestRetryAfterIsHonoured(t *testing.T) {
	for _, code := range []int{http.StatusTooManyRequests, http.StatusServiceUnavailable} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := &script{sync: held, socket: status(code, "Retry-After", "90")}
			bubble(t, s, 1, key, func(_ *testing.T, b *bridge) {
				for range 8 {
					time.Sleep(20 * time.Second)
					b.watcher.Kick()
				}
			})
			opens := s.times(&s.opens)
			if len(opens) != 2 {
				t.Fatalf("tried at %v within 3 minutes", opens)
			}
			for _, gap := range gaps(opens) {
				if gap < 90*time.Second {
					t.Errorf("tried again after %v", gap)
				}
			}
		})
	}
}

// Polls that bring nothing are a second apart at least; refused ones back off
// further.
func TestPollsAreNeverABusyLoop(t *testing.T) {
	for name, row := range map[string]struct {
		result string
		most   int
	}{
		"empty at once":      {syncActive, 310},
		"refused":            {refusal("something new"), 40},
		"no answer at all":   {`{}`, 40},
		"cursor without end": {`{"content":[],"structuredContent":{"events":[],"cursor":9007199254740991,"session_status":"active"}}`, 310},
	} {
		t.Run(name, func(t *testing.T) {
			s := &script{sync: func(int) string { return row.result }, socket: status(http.StatusUpgradeRequired)}
			bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(5 * time.Minute) })
			if n := len(s.times(&s.syncs)); n < 5 || n > row.most {
				t.Errorf("%d polls in 5 minutes, want at most %d", n, row.most)
			}
		})
	}
}

// Without a credential a watch waits quietly, and a Kick ends the wait.
func TestWithoutACredentialTheWatchWaitsQuietly(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	creds := &tokens{}
	bubble(t, s, 1, creds, func(t *testing.T, b *bridge) {
		t.Helper()
		time.Sleep(10 * time.Minute)
		if n := creds.count(); n < 5 || n > 25 {
			t.Errorf("the credential was asked for %d times in 10 minutes", n)
		}
		creds.set("k")
		b.watcher.Kick()
		synctest.Wait()
		if n := len(s.times(&s.opens)); n != 1 {
			t.Errorf("%d sockets after the sign-in", n)
		}
	})
}

// A room that was polled when the credential went waits as quietly: its polls
// do not go on asking beside the watch.
func TestAPolledRoomWaitsQuietlyForACredential(t *testing.T) {
	s := &script{sync: held, socket: status(http.StatusUpgradeRequired)}
	creds := &tokens{token: "k"}
	bubble(t, s, 1, creds, func(t *testing.T, _ *bridge) {
		t.Helper()
		time.Sleep(10 * time.Minute)
		creds.set("")
		time.Sleep(5 * time.Minute) // the socket's turn has come, and with it the news
		before := creds.count()
		time.Sleep(20 * time.Minute)
		// Every 60 to 120 s, and no poll every 30 s beside it.
		if n := creds.count() - before; n < 9 || n > 21 {
			t.Errorf("asked for a credential %d times in 20 minutes", n)
		}
	})
}

// hasty are tokens that come while the first is asked for, which is told.
type hasty struct {
	tokens
	told func()
}

// Token implements remote.Tokens.
func (h *hasty) Token(ctx context.Context) (string, error) {
	token, err := h.tokens.Token(ctx)
	if err != nil {
		h.set("k")
		h.told()
	}
	return token, err
}

// A sign-in that is told while a try without it is under way is not missed.
func TestASignInDuringATryIsNotMissed(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	creds := &hasty{}
	var watcher atomic.Pointer[room.Watcher]
	creds.told = func() {
		for watcher.Load() == nil {
			time.Sleep(time.Millisecond)
		}
		watcher.Load().Kick()
	}
	bubble(t, s, 1, creds, func(t *testing.T, b *bridge) {
		t.Helper()
		watcher.Store(b.watcher)
		time.Sleep(2 * time.Second)
		if n := len(s.times(&s.opens)); n != 1 {
			t.Errorf("%d sockets 2 s after the sign-in", n)
		}
	})
}

// A thousand reconnects do not arrive in one second, and all rooms are watched
// again within a quarter of a minute.
func TestReconnectsAreSpreadOverTime(t *testing.T) {
	s := &script{sync: held}
	s.socket = s.hold(true)
	const rooms = 600
	bubble(t, s, rooms, key, func(*testing.T, *bridge) { time.Sleep(15 * time.Second) })
	opens := s.times(&s.opens)
	if len(opens) != rooms {
		t.Fatalf("%d of %d rooms are watched after 15 s", len(opens), rooms)
	}
	for i := range opens[:rooms-151] {
		if opens[i+151]-opens[i] < time.Second {
			t.Fatalf("more than 151 handshakes within a second, from %v on", opens[i])
		}
	}
}

// A frame that is too large for the socket comes by poll, and the socket goes
// on behind it (peers.md E2).
func TestAFrameTooLargeForTheSocketComesByPoll(t *testing.T) {
	big := string(frameOf(5, "message", "m_peer", map[string]any{"text": "big", "pad": strings.Repeat("x", 5<<20)}))
	next := string(frameOf(6, "message", "m_peer", map[string]any{"text": "next"}))
	s := &script{sync: func(n int) string {
		if n > 1 {
			return ""
		}
		return `{"content":[],"structuredContent":{"events":[{"trust":"untrusted","data":` + big + `}],"cursor":5,"session_status":"active"}}`
	}}
	s.socket = func(w http.ResponseWriter, r *http.Request, _ int) {
		if r.URL.Query().Get("cursor") == "0" {
			sayThen(w, r, big, nil)
		} else {
			sayThen(w, r, next, nil)
		}
	}
	bubble(t, s, 1, key, func(t *testing.T, b *bridge) {
		t.Helper()
		if diff := cmp.Diff([]string{"big", "next"}, texts(t, b.take(t, 2))); diff != "" {
			t.Error(diff)
		}
	})
}

// The machine slept: a socket that looks open and is dead is replaced within
// one back-off step, though no byte ever said so (failure table: laptop
// sleeps). Awake, it would have taken 40 s.
func TestASleepMakesEverySocketProveItself(t *testing.T) {
	for _, asleep := range []time.Duration{time.Hour, 0, -time.Hour} {
		t.Run(fmt.Sprint(asleep), func(t *testing.T) {
			s := &script{sync: held}
			s.socket = s.hold(false)
			bubble(t, s, 1, key, func(_ *testing.T, b *bridge) {
				time.Sleep(5 * time.Second)
				b.slept.Store(int64(asleep))
				time.Sleep(15 * time.Second)
			})
			opens := s.times(&s.opens)
			if asleep <= 0 {
				if len(opens) != 1 {
					t.Errorf("sockets were opened at %v without a sleep", opens)
				}
				return
			}
			// The next look at the clocks, 10 s for a sign of life, a second of jitter.
			if len(opens) != 2 || opens[1] > 5*time.Second+2*time.Second+10*time.Second+time.Second {
				t.Errorf("sockets were opened at %v", opens)
			}
		})
	}
}

// Where no socket is offered the polls begin at once, and are all that is
// asked: the room is not looked at beside them.
func TestWhereNoSocketIsOfferedPollsBeginAtOnce(t *testing.T) {
	for _, code := range []int{http.StatusUpgradeRequired, http.StatusMethodNotAllowed, http.StatusOK, http.StatusFound, http.StatusBadRequest} {
		t.Run(fmt.Sprint(code), func(t *testing.T) {
			s := &script{sync: held, socket: status(code)}
			bubble(t, s, 1, key, func(*testing.T, *bridge) { time.Sleep(20 * time.Second) })
			if syncs := s.times(&s.syncs); len(syncs) != 1 || syncs[0] > time.Second {
				t.Errorf("polled at %v within 20 s", syncs)
			}
		})
	}
}
