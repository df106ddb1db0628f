package room_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/journal"
	"bellman.sh/desktop/internal/hub/journal/journaltest"
	"bellman.sh/desktop/internal/hub/manifest"
	"bellman.sh/desktop/internal/hub/room"
)

// reads is an engine that counts how often a log is read.
type reads struct {
	journal.Journal
	n atomic.Int64
}

func (r *reads) Read(ctx context.Context, id string, from int64, limit int) ([]journal.Entry, error) {
	r.n.Add(1)
	return r.Journal.Read(ctx, id, from, limit)
}

// spent is how many reads f took.
func (r *reads) spent(f func()) int64 {
	before := r.n.Load()
	f()
	return r.n.Load() - before
}

// nagging is a room that speaks up about what the bits of rules say: a
// heartbeat, quiet members, open requests, an idle room, and each again.
func nagging(rules int) manifest.Manifest {
	after := func(bit int, d time.Duration) time.Duration {
		return time.Duration(rules>>bit&1) * d
	}
	m, _ := manifest.Builtin("swarm")
	m.Room, m.Heartbeat = "r", after(0, 10*time.Minute)
	m.Roles[1].HeartbeatOn = true // The helper's.
	m.Housekeeping = &manifest.Housekeeping{
		QuietAfter: after(1, 7*time.Minute), AnswerWithin: after(2, 5*time.Minute), IdleAfter: after(3, 4*time.Minute),
		RepeatAfter: after(4, 9*time.Minute),
	}
	return m
}

const everyRule = 1<<5 - 1

// script does the same things to a room for the same rules, beats after each
// step of the clock, and returns what the room said by itself. With fresh,
// each beat is that of a house that remembers nothing.
func script(t *testing.T, rules int, fresh bool) []string {
	t.Helper()
	now := time.Unix(1_800_000_000, 0)
	log := &journaltest.Memory{}
	open := func() *room.House {
		return room.NewHouse(log, func() time.Time { return now }, func(string) error { return nil })
	}
	h := open()
	ticket, err := h.Start(t.Context(), person(0), room.Opening{
		Manifest: nagging(rules), Brief: brief, Capabilities: []string{room.CanReceive, room.CanAct},
	})
	if err != nil {
		t.Fatal(err)
	}
	seats := []string{ticket.MemberID}
	people := []account.Identity{person(0)}
	dice := rand.New(rand.NewPCG(uint64(rules), 0))
	for range 80 {
		now = now.Add(time.Duration(1+dice.IntN(300)) * time.Second)
		n := dice.IntN(len(seats))
		msg := room.Message{Handle: seats[n]}
		switch dice.IntN(12) {
		case 0:
			who := person(len(seats))
			j, err := h.Join(t.Context(), who, ticket.SessionID, "helper", brief, []string{room.CanReceive, room.CanAct})
			if err == nil {
				seats, people = append(seats, j.MemberID), append(people, who)
			}
		case 1:
			if n > 0 {
				_, _ = h.Leave(t.Context(), people[n], ticket.SessionID, seats[n])
			}
		case 2:
			msg.Type, msg.Payload = room.TypeActionRequest, json.RawMessage(`{"ask":"x"}`)
		case 3, 4:
			msg.Type, msg.Payload = room.TypeProgress, json.RawMessage(`{"note":"x"}`)
		case 5:
			_ = h.Freeze(t.Context(), ticket.SessionID)
		case 6, 7:
			_ = h.Thaw(t.Context(), ticket.SessionID)
		}
		if msg.Type != "" {
			_, _ = h.Send(t.Context(), people[n], ticket.SessionID, msg) // Refused as the state has it, in both runs alike.
		}
		if fresh {
			h = open()
		}
		if err := h.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	var said []string
	got, err := h.Sync(t.Context(), person(0), ticket.SessionID, room.Query{Handle: ticket.MemberID})
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range got.Events {
		if e.Data.From.MemberID != "system" {
			continue
		}
		text := string(e.Data.Payload)
		for i, id := range seats { // Handles are drawn anew in each run.
			text = strings.ReplaceAll(text, id, fmt.Sprint("member ", i))
		}
		said = append(said, fmt.Sprintln(e.Data.Cursor, e.Data.At, e.Data.Type, text))
	}
	return said
}

// A house that remembers when a room is next due says the same, at the same
// time, as one that looks at every room each time.
func TestBeatForgetsNothing(t *testing.T) {
	spoken := 0
	for rules := range everyRule + 1 {
		got, want := script(t, rules, false), script(t, rules, true)
		spoken += len(want)
		for i := range max(len(got), len(want)) {
			if i >= len(got) || i >= len(want) || got[i] != want[i] {
				t.Fatalf("rules %05b, event %d: got %v, want %v", rules, i, got[min(i, len(got)):], want[min(i, len(want)):])
			}
		}
	}
	if spoken < 150 {
		t.Errorf("only %d events were compared", spoken)
	}
}

// A beat opens only rooms in which something can be due: with thousands of
// rooms it would otherwise read every log anew each few seconds.
func TestBeatLeavesRoomsAlone(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	log := &reads{Journal: &journaltest.Memory{}}
	h := room.NewHouse(log, func() time.Time { return now }, func(string) error { return nil })
	for range 20 {
		if _, err := h.Start(t.Context(), person(0), room.Opening{Manifest: nagging(everyRule), Brief: brief}); err != nil {
			t.Fatal(err)
		}
	}
	beat := func() {
		if err := h.Beat(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := log.spent(beat); n < 20 {
		t.Errorf("the first beat read %d logs, want all 20", n)
	}
	now = now.Add(3 * time.Minute)
	if n := log.spent(beat); n != 0 {
		t.Errorf("with nothing due a beat read %d logs", n)
	}
	now = now.Add(4 * time.Minute)
	if n := log.spent(beat); n < 20 {
		t.Errorf("with everybody quiet a beat read %d logs, want all 20", n)
	}
}

// Listing the rooms of somebody who sits in very many opens those that are
// listed and no others; created ones come first however old they are.
func TestRoomsOpensWhatItLists(t *testing.T) {
	log := &reads{Journal: &journaltest.Memory{}}
	open := func() *room.House {
		return room.NewHouse(log, time.Now, func(string) error { return nil })
	}
	h := open()
	mine := startPair(t, h, person(1))
	for range 60 {
		ticket := startPair(t, h, person(0))
		if _, err := h.Join(t.Context(), person(1), ticket.SessionID, "peer_b", brief, nil); err != nil {
			t.Fatal(err)
		}
	}
	h = open()
	var rooms []room.Listed
	n := log.spent(func() {
		var err error
		if rooms, err = h.Rooms(t.Context(), person(1)); err != nil {
			t.Fatal(err)
		}
	})
	if len(rooms) != 50 || rooms[0].SessionID != mine.SessionID || n != 50 {
		t.Errorf("%d rooms with %d reads, first %s; want 50 with 50, first %s", len(rooms), n, rooms[0].SessionID, mine.SessionID)
	}
}

// A damaged log is told of, by its room, and keeps no other room waiting.
func TestDamagedRoomHoldsUpNoOther(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	log := &journaltest.Memory{}
	if err := log.Append(t.Context(), "qs_damaged", 0, journal.Entry{Body: []byte(`{"at":`), Marks: []journal.Mark{{Space: "open"}, {Space: "beat"}}}); err != nil {
		t.Fatal(err)
	}
	h := room.NewHouse(log, func() time.Time { return now }, func(string) error { return nil })
	ticket, err := h.Start(t.Context(), person(0), room.Opening{Manifest: nagging(everyRule), Brief: brief})
	if err != nil {
		t.Fatal(err)
	}
	now = now.Add(11 * time.Minute)
	if err := h.Beat(t.Context()); err == nil || !strings.Contains(err.Error(), "qs_damaged") {
		t.Errorf("beat: %v, want the damaged room", err)
	}
	if err := h.Beat(t.Context()); err != nil {
		t.Errorf("the next beat: %v, want that it is told of once a minute", err)
	}
	got, err := h.Sync(t.Context(), person(0), ticket.SessionID, room.Query{Handle: ticket.MemberID})
	if err != nil || len(got.Events) == 0 {
		t.Errorf("the other room heard %d events, %v", len(got.Events), err)
	}
	now = now.Add(time.Minute)
	if err := h.Beat(t.Context()); err == nil {
		t.Error("a minute later the damaged room was not tried again")
	}
	now = now.Add(91 * 24 * time.Hour)
	if err := h.Sweep(t.Context()); err == nil || !strings.Contains(err.Error(), "qs_damaged") {
		t.Errorf("sweep: %v, want the damaged room", err)
	}
	if got, err = h.Sync(t.Context(), person(0), ticket.SessionID, room.Query{Handle: ticket.MemberID}); err != nil || got.Status != room.StatusClosed {
		t.Errorf("the abandoned room is %s, %v", got.Status, err)
	}
}
