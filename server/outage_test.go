package main

import (
	"fmt"
	"strings"
	"testing"
)

// The service is gone, another bridge holds what has come and dies with it: the
// sync says so and hands out nothing, and the next wait has every event, once,
// flagged.
func TestAnOutageWhileAnotherBridgeHoldsAClaimAndDies(t *testing.T) {
	j, other := join(t)
	b := j.profile.open(t)
	b.ok("bellman_sync", j.seat(map[string]any{"since_cursor": 1}), nil)
	const n = 5
	for i := range n {
		j.peer.Say(t, fmt.Sprintf("%d %s", i, strings.Repeat("x", 19_000)))
	}
	other.untilWaiting("5 peer events are waiting")
	other.reading.Lock() // its host stops reading, so that its claim stays open
	other.send("tools/call", toolParams("bellman_wait", map[string]any{"wait_seconds": 20}))
	j.untilStatus(t, "waiting:    0 events")
	j.hub.Stop(t)
	r := b.call("bellman_sync", j.seat(map[string]any{"since_cursor": 1}))
	if !r.IsError || !strings.Contains(r.text(), "Nothing was read or lost") {
		t.Errorf("sync: %s", r.text())
	}
	if err := other.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	other.reading.Unlock()
	<-other.done
	w := b.collect(n)
	for i, e := range w.Events {
		if !strings.HasPrefix(e.Payload.Text, fmt.Sprint(i)+" ") || !e.Redelivered {
			t.Errorf("event %d: %.10q, redelivered %v", i, e.Payload.Text, e.Redelivered)
		}
	}
	wantTexts(t, b.wait(0))
}
