package room_test

import (
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/journal"
	"bellman.sh/desktop/internal/hub/journal/journaltest"
	"bellman.sh/desktop/internal/hub/manifest"
	"bellman.sh/desktop/internal/hub/room"
	"bellman.sh/desktop/internal/hub/sqlite"
)

// said is an event as the model remembers it.
type said struct {
	from, kind string
	about      string // the member a removal is about
}

// seat is a member as the model knows it.
type seat struct {
	id   string
	who  account.Identity
	left bool
	cut  int64
}

// model is a room in plain words: a list of seats, a list of events, and what
// was said with which key. It shares no code with the room.
type model struct {
	house  *room.House
	now    time.Time
	people []account.Identity

	id     string
	frozen bool
	closed bool
	seats  []*seat
	log    []said
	keys   map[string]int64
	texts  map[string]string
}

func person(n int) account.Identity {
	org := "org_x"
	return account.Identity{UserID: fmt.Sprint("u_", n), OrgID: &org, Plan: "team", Role: "member", Label: fmt.Sprintf("p%d@example", n)}
}

var brief = room.Brief{
	Goal: "g", State: "s", Constraints: []string{}, OpenQuestions: []string{},
	Agent: room.Agent{Provider: "p", Model: "m", Client: "c"},
}

func newModel(t *rapid.T, log journal.Journal) *model {
	m := &model{now: time.Unix(1_800_000_000, 0), keys: map[string]int64{}, texts: map[string]string{}}
	for n := range 3 {
		m.people = append(m.people, person(n))
	}
	discard := func(string) error { return nil }
	m.house = room.NewHouse(log, func() time.Time { return m.now }, discard)
	swarm, _ := manifest.Builtin("swarm")
	swarm.Room = "r"
	ticket, err := m.house.Start(t.Context(), m.people[0], room.Opening{
		Manifest: swarm, Brief: brief, Capabilities: []string{room.CanReceive},
	})
	if err != nil {
		t.Fatal(err)
	}
	m.id = ticket.SessionID
	m.seats = []*seat{{id: ticket.MemberID, who: m.people[0]}}
	return m
}

func code(err error) room.Code {
	if e, ok := errors.AsType[*room.Error](err); ok {
		return e.Code
	}
	if err != nil {
		return room.Code("fault: " + err.Error())
	}
	return ""
}

func (m *model) expect(t *rapid.T, what string, err error, want room.Code) {
	t.Helper()
	if got := code(err); got != want {
		t.Fatalf("%s: %q (%v), want %q", what, got, err, want)
	}
}

// state is the refusal a write meets whatever it is.
func (m *model) state() room.Code {
	switch {
	case m.closed:
		return room.Closed
	case m.frozen:
		return room.Frozen
	}
	return ""
}

func (m *model) active() int {
	n := 0
	for _, s := range m.seats {
		if !s.left {
			n++
		}
	}
	return n
}

func (m *model) pick(t *rapid.T) *seat { return rapid.SampledFrom(m.seats).Draw(t, "seat") }

func (m *model) join(t *rapid.T) {
	who := rapid.SampledFrom(m.people).Draw(t, "who")
	joined, err := m.house.Join(t.Context(), who, m.id, "helper", brief, []string{room.CanReceive})
	m.expect(t, "join", err, m.state())
	if err != nil {
		return
	}
	m.seats = append(m.seats, &seat{id: joined.MemberID, who: who})
	m.log = append(m.log, said{from: joined.MemberID, kind: "member_joined"})
	if joined.Cursor != int64(len(m.log)) || len(joined.Members) != len(m.seats) {
		t.Fatalf("joined at %d among %d, want %d and %d", joined.Cursor, len(joined.Members), len(m.log), len(m.seats))
	}
}

func (m *model) send(t *rapid.T) {
	s := m.pick(t)
	who := rapid.SampledFrom([]account.Identity{s.who, m.people[2]}).Draw(t, "sender")
	text := rapid.SampledFrom([]string{"a", "b"}).Draw(t, "text")
	key := rapid.SampledFrom([]string{"", "key-1-xx", "key-2-xx"}).Draw(t, "key")
	sent, err := m.house.Send(t.Context(), who, m.id, room.Message{
		Handle: s.id, Type: "message", Payload: []byte(fmt.Sprintf(`{"text":%q}`, text)), Key: key,
	})
	ref := s.id + "/" + key
	at, known := m.keys[ref]
	switch want := m.state(); {
	case want != "":
		m.expect(t, "send", err, want)
	case who.UserID != s.who.UserID:
		m.expect(t, "send as another", err, room.NotFound)
	case s.left:
		m.expect(t, "send after leaving", err, room.Forbidden)
	case m.active() == 1:
		m.expect(t, "send alone", err, room.Conflict)
	case key != "" && known && m.texts[ref] != text:
		m.expect(t, "send with a used key", err, room.Conflict)
	case key != "" && known:
		m.expect(t, "send again", err, "")
		if !sent.Replayed || sent.Cursor != at {
			t.Fatalf("sent again: %+v, want replayed at %d", sent, at)
		}
	default:
		m.expect(t, "send", err, "")
		m.log = append(m.log, said{from: s.id, kind: "message"})
		if sent.Replayed || sent.Cursor != int64(len(m.log)) || len(sent.RoomMembers) != m.active()-1 {
			t.Fatalf("sent: %+v, want cursor %d and %d others", sent, len(m.log), m.active()-1)
		}
		if key != "" {
			m.keys[ref], m.texts[ref] = sent.Cursor, text
		}
	}
}

func (m *model) leave(t *rapid.T) {
	s := m.pick(t)
	_, err := m.house.Leave(t.Context(), s.who, m.id, s.id)
	m.expect(t, "leave", err, "")
	if s.left {
		return
	}
	s.left = true
	m.log = append(m.log, said{from: s.id, kind: "member_left"})
	m.closed = m.closed || m.active() == 0 && !m.frozen
}

func (m *model) evict(t *rapid.T) {
	s := m.pick(t)
	who := rapid.SampledFrom(m.people).Draw(t, "who")
	_, err := m.house.Evict(t.Context(), who, m.id, s.id)
	switch {
	case who.UserID != m.people[0].UserID:
		m.expect(t, "evict by another", err, room.Forbidden)
		return
	case s.who.UserID == who.UserID:
		m.expect(t, "evict oneself", err, room.Invalid)
		return
	case m.state() != "":
		m.expect(t, "evict", err, m.state())
		return
	}
	m.expect(t, "evict", err, "")
	if s.left {
		m.revoked(t)
		return
	}
	s.left = true
	m.log = append(m.log, said{from: "system", kind: "member_evicted", about: s.id})
	s.cut = int64(len(m.log))
	m.closed = m.active() == 0
	m.revoked(t)
}

// revoked takes in that the first eviction of a helper also retires the code
// the room began with.
func (m *model) revoked(t *rapid.T) {
	page, err := m.house.Events(t.Context(), m.people[0], m.id, int64(len(m.log)))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range page.Events {
		if e.Data.Type != "invite_revoked" || slices.Contains(m.log, said{from: "system", kind: "invite_revoked"}) {
			t.Fatalf("after an eviction: %s, unasked", e.Data.Type)
		}
		m.log = append(m.log, said{from: "system", kind: "invite_revoked"})
	}
}

func (m *model) freeze(t *rapid.T) {
	err := m.house.Freeze(t.Context(), m.id)
	if m.closed {
		m.expect(t, "freeze", err, room.Conflict)
		return
	}
	m.expect(t, "freeze", err, "")
	m.frozen = true
}

func (m *model) thaw(t *rapid.T) {
	err := m.house.Thaw(t.Context(), m.id)
	if m.closed {
		m.expect(t, "thaw", err, room.Conflict)
		return
	}
	m.expect(t, "thaw", err, "")
	m.frozen = false
	m.closed = m.active() == 0
}

// check reads the room as every seat and compares.
func (m *model) check(t *rapid.T) {
	since := rapid.Int64Range(0, int64(len(m.log))+1).Draw(t, "since")
	for _, s := range m.seats {
		got, err := m.house.Sync(t.Context(), s.who, m.id, room.Query{Handle: s.id, Since: since})
		m.expect(t, "sync", err, "")
		end := int64(len(m.log))
		if s.cut > 0 {
			end = s.cut
		}
		var want []said
		for i := since; i < end; i++ {
			if e := m.log[i]; e.from != s.id {
				want = append(want, e)
			}
		}
		if len(got.Events) != len(want) || got.Cursor != max(since, end) || got.Removed != (s.cut > 0) {
			t.Fatalf("sync of %s from %d: %d events to %d, removed %t; want %d to %d", s.id, since, len(got.Events), got.Cursor, got.Removed, len(want), max(since, end))
		}
		for i, e := range got.Events {
			if e.Data.Type != want[i].kind || e.Data.From.MemberID != want[i].from || want[i].about != "" && !e.Data.Removes(want[i].about) {
				t.Fatalf("sync of %s: event %+v, want %+v", s.id, e.Data, want[i])
			}
		}
		status := map[bool]string{true: bellman.StatusFrozen, false: bellman.StatusActive}[m.frozen]
		if m.closed {
			status = bellman.StatusClosed
		}
		if got.Status != status {
			t.Fatalf("status %s, want %s", got.Status, status)
		}
	}
}

// A room behaves as its plain model does, whatever is done to it in whatever
// order, also when it is folded anew from its log, and on any engine.
func TestRoomModel(t *testing.T) {
	t.Run("SQLite", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) {
			db, err := sqlite.Open(t.Context(), sqlite.Options{Path: ":memory:", Log: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			defer func() {
				if err := db.Close(); err != nil {
					t.Fatal(err)
				}
			}()
			walk(t, db)
		})
	})
	t.Run("Memory", func(t *testing.T) {
		rapid.Check(t, func(t *rapid.T) { walk(t, &journaltest.Memory{}) })
	})
}

// walk does things to a room and its model in a random order.
func walk(t *rapid.T, log journal.Journal) {
	m := newModel(t, log)
	t.Repeat(map[string]func(*rapid.T){
		"":       m.check,
		"join":   m.join,
		"send":   m.send,
		"leave":  m.leave,
		"evict":  m.evict,
		"freeze": m.freeze,
		"thaw":   m.thaw,
		"fold anew": func(*rapid.T) {
			discard := func(string) error { return nil }
			m.house = room.NewHouse(log, func() time.Time { return m.now }, discard)
		},
	})
}
