package main

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"
)

// harsh is a host that treats its bridge badly: it gives up every third wait
// and kills the bridge during every tenth. It keeps the account of what came.
type harsh struct {
	t      *testing.T
	j      *joined
	b      *bridge
	random *rand.Rand

	waits, kills, said int
	given              map[int]chan reply // where a reply to a wait that was given up would come, by its number
	came               map[string]int
	unflagged          map[string]int
	batches            int // with a flagged event
}

// read decodes what a wait brought.
func (h *harsh) read(r reply) (w waited) {
	h.t.Helper()
	var res result
	if r.Error != nil || json.Unmarshal(r.Result, &res) != nil || res.IsError || json.Unmarshal(res.Data, &w) != nil {
		h.t.Fatalf("wait %d: %s %+v", h.waits, r.Result, r.Error)
	}
	return w
}

// take notes what a reply brought.
func (h *harsh) take(r reply) {
	h.t.Helper()
	flagged := false
	for _, e := range h.read(r).Events {
		h.came[e.Payload.Text]++
		if flagged = flagged || e.Redelivered; !e.Redelivered {
			h.unflagged[e.Payload.Text]++
		}
	}
	if flagged {
		h.batches++
	}
}

// speak lets the peer say something or nothing.
func (h *harsh) speak(most int) {
	for range h.random.IntN(most + 1) {
		h.j.peer.Say(h.t, fmt.Sprint(h.said))
		h.said++
	}
}

// moment is a time in which a reply may or may not have been written.
func (h *harsh) moment() { time.Sleep(time.Duration(h.random.IntN(4000)) * time.Microsecond) }

// wait makes one wait, with what befalls it.
func (h *harsh) wait() {
	h.waits++
	h.speak(2)
	id, ch := h.b.send("tools/call", toolParams("bellman_wait", map[string]any{"wait_seconds": 0.2}))
	switch {
	case h.waits%10 == 0:
		h.speak(1)
		h.moment()
		h.b.kill()
		h.kills++
		select {
		case r := <-ch: // it was read all the same
			h.take(r)
		default:
		}
		h.b = h.j.profile.open(h.t)
	case h.waits%3 == 0:
		h.speak(1)
		h.moment()
		h.b.write(fmt.Sprintf(`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":%s}}`, id))
		h.given[h.waits] = ch
	default:
		h.speak(1)
		h.take(h.b.receive(ch))
	}
}

// crossed returns what came to waits that had been given up, by their number:
// it had left before the bridge heard of it, and the host did not use it.
func (h *harsh) crossed() map[int][]string {
	all := map[int][]string{}
	for n, ch := range h.given {
		select {
		case r := <-ch:
			if w := h.read(r); w.Count > 0 {
				all[n] = w.texts()
			}
		default:
		}
	}
	return all
}

// Whatever such a host does, every event comes, and one that comes a second
// time says so; and no more batches say so than what the host did explains.
func TestAHostThatCancelsAndKillsIsOwedEveryEvent(t *testing.T) {
	length := 6 * time.Second
	if soak, err := time.ParseDuration(os.Getenv("BELLMAN_SOAK")); err == nil {
		length = soak
	}
	j, b := join(t)
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	h := &harsh{t: t, j: j, b: b, random: rand.New(rand.NewPCG(seed, 0)), given: map[int]chan reply{}, came: map[string]int{}, unflagged: map[string]int{}}
	for began := time.Now(); time.Since(began) < length; {
		h.wait()
	}
	for began := time.Now(); time.Since(began) < 2*time.Second; { // what is left, and nothing more
		_, ch := h.b.send("tools/call", toolParams("bellman_wait", map[string]any{"wait_seconds": 1}))
		h.take(h.b.receive(ch))
	}
	crossed := h.crossed()
	// A kill right behind a cancellation that crossed the reply leaves nobody to
	// hear of it.
	unheard := map[string]bool{}
	for n, texts := range crossed {
		for _, text := range texts {
			unheard[text] = unheard[text] || (n+1)%10 == 0
		}
	}
	twice := 0
	for i := range h.said {
		text := fmt.Sprint(i)
		if h.came[text] == 0 && !unheard[text] || h.unflagged[text] > 1 {
			t.Errorf("event %d came %d times, %d of them unflagged", i, h.came[text], h.unflagged[text])
		}
		if h.came[text] > 1 {
			twice++
		}
	}
	if h.batches > h.kills+len(crossed) {
		t.Errorf("%d batches are flagged, with %d kills and %d crossed cancellations", h.batches, h.kills, len(crossed))
	}
	t.Logf("%d waits, %d kills, %d given up, %d of them crossed: %d events, %d of them twice, %d batches flagged",
		h.waits, h.kills, len(h.given), len(crossed), h.said, twice, h.batches)
	if h.kills == 0 || len(h.given) == 0 || h.said < 20 {
		t.Error("the host was not harsh")
	}
}
