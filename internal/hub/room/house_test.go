package room_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/manifest"
	"bellman.sh/desktop/internal/hub/room"
	"bellman.sh/desktop/internal/hub/sqlite"
)

// newHouse returns a house over state in memory.
func newHouse(t *testing.T) *room.House {
	t.Helper()
	db, err := sqlite.Open(t.Context(), sqlite.Options{Path: ":memory:", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return room.NewHouse(db, time.Now, func(string) error { return nil })
}

func startPair(t *testing.T, h *room.House, who account.Identity) room.Ticket {
	t.Helper()
	m, _ := manifest.Builtin("pair")
	m.Room = "r"
	ticket, err := h.Start(t.Context(), who, room.Opening{Manifest: m, Brief: brief, Capabilities: []string{room.CanReceive}})
	if err != nil {
		t.Fatal(err)
	}
	return ticket
}

// Rooms nobody uses are let go of, by number and by weight, and are what they
// were when somebody comes back.
func TestHouseForgetsFolds(t *testing.T) {
	h := newHouse(t)
	first := startPair(t, h, person(0))
	if _, err := h.Join(t.Context(), person(1), first.SessionID, "peer_b", brief, []string{room.CanReceive}); err != nil {
		t.Fatal(err)
	}
	heavy := strings.Repeat("x", 19000)
	for range 40 {
		if _, err := h.Send(t.Context(), person(0), first.SessionID, room.Message{
			Handle: first.MemberID, Type: "message", Payload: fmt.Appendf(nil, `{"text":%q}`, heavy),
		}); err != nil {
			t.Fatal(err)
		}
	}
	_, before := h.Folded()
	if before < 40*19000 {
		t.Errorf("weighs %d bytes with 40 heavy events", before)
	}
	for range room.KeepFolded + 10 {
		startPair(t, h, person(0))
	}
	rooms, bytes := h.Folded()
	if rooms > room.KeepFolded || bytes > before {
		t.Errorf("%d rooms of %d bytes are folded, want at most %d and less than %d", rooms, bytes, room.KeepFolded, before)
	}
	got, err := h.Sync(t.Context(), person(0), first.SessionID, room.Query{Handle: first.MemberID})
	if err != nil || got.Cursor != 41 {
		t.Errorf("folded again: cursor %d, %v, want 41", got.Cursor, err)
	}
}
