package main

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"
)

// looked is what `status --json` answered, once ok accepts it.
func (j *joined) looked(t *testing.T, what string, ok func(situation) bool) situation {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); ; {
		out, err := j.profile.command(t, "status", "--json").Output()
		if err != nil {
			t.Fatalf("status: %v\n%s", err, out)
		}
		var is situation
		if err := json.Unmarshal(out, &is); err != nil {
			t.Fatalf("%v\n%s", err, out)
		}
		if ok(is) {
			return is
		}
		if time.Now().After(deadline) {
			t.Fatalf("status does not show %s:\n%s", what, out)
		}
	}
}

// Status shows, while the bridge runs and from a process of its own, how each
// room is watched and by whom: the socket, the wait for a service that is gone
// with the reason, and a holder that was killed as one that is gone.
func TestStatusShowsHowEachRoomIsWatched(t *testing.T) {
	j, b := join(t)
	j.peer.Say(t, "waits")
	pid := b.cmd.Process.Pid
	is := j.looked(t, "the socket and what waits", func(is situation) bool {
		return len(is.Rooms) == 1 && is.Rooms[0].State == "socket" && is.Waiting.Events == 1
	})
	r := is.Rooms[0]
	if r.Room != j.room || r.Holder != pid || time.Since(r.Since) > time.Minute || time.Since(r.LastEvent) > time.Minute || r.LagMS > 60_000 || r.Problem != "" {
		t.Errorf("room %+v", r)
	}
	if len(r.Seats) != 1 || r.Seats[0].Member != j.member || r.Seats[0].Waiting != 1 || r.Seats[0].Ended != "" {
		t.Errorf("seats %+v", r.Seats)
	}
	if len(is.Bridges) != 1 || is.Bridges[0].PID != pid || is.Bridges[0].Rooms != 1 {
		t.Errorf("bridges %+v", is.Bridges)
	}
	j.untilStatus(t, fmt.Sprintf("bridge:     process %d since ", pid))
	j.untilStatus(t, fmt.Sprintf(", held by process %d, last event ", pid))

	j.hub.Stop(t)
	j.looked(t, "the wait for the service", func(is situation) bool {
		return is.Rooms[0].State == "waiting" && strings.HasPrefix(is.Rooms[0].Problem, "the service cannot be reached: ")
	})
	j.untilStatus(t, ": the service cannot be reached: ")

	if err := b.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	<-b.done
	is = j.looked(t, "that nobody watches", func(is situation) bool { return is.Rooms[0].State == "unwatched" })
	if r := is.Rooms[0]; r.Holder != 0 || r.Problem == "" || r.Seats[0].Waiting != 1 || len(is.Bridges) != 0 {
		t.Errorf("after the kill: %+v, bridges %+v", r, is.Bridges)
	}
}

// Where nobody is signed in the bridges are shown and the rooms are not.
func TestStatusHidesRoomsFromNobody(t *testing.T) {
	j, b := join(t)
	j.profile.env = append(j.profile.env, "BELLMAN_KEY=")
	out, err := j.profile.command(t, "status", "--json").CombinedOutput()
	if err == nil {
		t.Error("status succeeds though nobody is signed in")
	}
	var is situation
	if err := json.NewDecoder(strings.NewReader(string(out))).Decode(&is); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if len(is.Rooms) != 0 || is.Waiting != nil || len(is.Bridges) != 1 || is.Bridges[0].PID != b.cmd.Process.Pid || strings.Contains(string(out), j.room) {
		t.Errorf("status shows\n%s", out)
	}
}

// A room that is paused at the queue's bound says so, and an ended seat says
// why it ended.
func TestStatusSaysWhyARoomIsPausedOrOver(t *testing.T) {
	var out strings.Builder
	is := situation{Waiting: &waiting{}, Rooms: []roomIs{
		{Room: "qs_full", State: "paused", Why: "the queue is full", Seats: []seatIs{{Member: "m_1", ReadTo: 7, Waiting: 3}}},
		{Room: "qs_over", State: "ended", Seats: []seatIs{{Member: "m_2", Ended: "removed"}}},
		{Room: "qs_away", State: "unwatched", Problem: "the service answered 503 Service Unavailable", ProblemAt: time.Now(), LastEvent: time.Now(), LagMS: 1500},
	}}
	is.print(&out, true)
	for _, want := range []string{
		"  qs_full  paused (the queue is full)\n    m_1  read to 7, 3 waiting, last used ", "  qs_over  ended\n", ", ended (removed)\n",
		", here 1.5s later\n    last problem, ", ": the service answered 503 Service Unavailable\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}
