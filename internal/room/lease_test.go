package room_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/room"
)

// Two bridges on one profile hold one connection for each room between them,
// and when one leaves in order the other has its rooms at once, without losing
// or doubling anything (cases 103, 144 and 145).
func TestTwoBridgesShareTheRoomsOfAProfile(t *testing.T) {
	t.Parallel()
	s := startService(t)
	dir := t.TempDir()
	first := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse))
	const rooms = 8
	var peers []*hubtest.Seat
	for range rooms {
		ours, peer := s.pair(t)
		first.join(t, ours)
		peers = append(peers, peer)
	}
	first.start(t)
	second := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse)).start(t)
	second.take(t, rooms) // of the joins, whoever fetched them
	if n := s.opens.Load(); n != rooms {
		t.Errorf("%d sockets for %d rooms", n, rooms)
	}
	first.stop()
	var want []string
	for i, peer := range peers {
		peer.Say(t, fmt.Sprint("later ", i))
		want = append(want, fmt.Sprint("later ", i))
	}
	later := second.take(t, rooms)
	said := texts(t, later)
	slices.Sort(said)
	if diff := cmp.Diff(want, said); diff != "" {
		t.Error(diff)
	}
	if n := s.open(); n != rooms {
		t.Errorf("%d sockets are open for %d rooms", n, rooms)
	}
}

// Only a wall clock that ran ahead of the monotonic one is a sleep: one that is
// set back, or a process that was merely slow, is none.
func TestSleepIsTheWallClockRunningAhead(t *testing.T) {
	for _, row := range []struct {
		wall, running time.Duration
		want          bool
	}{
		{2 * time.Second, 2 * time.Second, false},
		{time.Hour, time.Hour, false},
		{11 * time.Second, 2 * time.Second, false},
		{13 * time.Second, 2 * time.Second, true},
		{time.Hour, 2 * time.Second, true},
		{-time.Hour, 2 * time.Second, false},
		{0, time.Minute, false},
	} {
		if got := room.Slept(row.wall, row.running); got != row.want {
			t.Errorf("wall %v, running %v: slept %v", row.wall, row.running, got)
		}
	}
}
