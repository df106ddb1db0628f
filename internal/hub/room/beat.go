package room

import (
	"context"
	"errors"
	"math"
	"slices"
	"strconv"
	"time"

	"bellman.sh/desktop/internal/bellman"
)

// asking is the one sentence a heartbeat asks with.
const asking = "Members listed here: reply now with bellman_send type progress, {note, step?, eta_seconds?}, saying what you are busy with."

// failedPause is how long a room that failed is left alone.
const failedPause = time.Minute

// Beat appends the heartbeats and housekeeping notices that have fallen due
// in any room. It opens only the rooms in which something can be due. A room
// that fails keeps no other waiting and is tried again in a minute; its error
// is among those returned. See protocol.md 4.7.
func (h *House) Beat(ctx context.Context) error {
	marks, err := h.log.Find(ctx, markBeat, "", 0)
	if err != nil {
		return err
	}
	now := h.now().UnixMilli()
	h.mu.Lock()
	known := h.due
	h.mu.Unlock()
	due := make(map[string]int64, len(marks))
	var errs []error
	for _, m := range marks {
		at := known[m.Room]
		if now >= at && ctx.Err() == nil {
			if at, err = h.beatRoom(ctx, m.Room); err != nil {
				at = now + failedPause.Milliseconds()
				errs = append(errs, err)
			}
		}
		due[m.Room] = at
	}
	h.mu.Lock()
	h.due = due
	h.mu.Unlock()
	return errors.Join(errs...)
}

// beatRoom appends what is due in one room and returns when something may be
// due there again.
func (h *House) beatRoom(ctx context.Context, id string) (next int64, err error) {
	r, leave, err := h.enter(ctx, id)
	if asRefusal(err) != nil {
		return 0, nil // Purged since it was found.
	}
	if err != nil {
		return 0, err
	}
	defer leave()
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		rec := &record{At: now}
		if s.status != StatusActive || len(s.seated()) == 0 {
			return rec, nil
		}
		if err := s.tick(rec, now); err != nil {
			return nil, err
		}
		return rec, r.keepHouse(s, rec, now)
	})
	r.look(func(s *state, now int64) { next = s.nextBeat(now) })
	return next, err
}

// nextBeat is the earliest time at which a room may have something to say by
// itself: when what goes on now falls due, and no later than something that
// begins now could.
func (s *state) nextBeat(now int64) int64 {
	if s.status != StatusActive {
		return now // A thaw can make anything due.
	}
	next := int64(math.MaxInt64)
	begins := func(after time.Duration) {
		if after > 0 {
			next = min(next, now+after.Milliseconds())
		}
	}
	begins(s.manifest().Heartbeat)
	if rules := s.manifest().Housekeeping; rules != nil {
		begins(rules.QuietAfter)
		begins(rules.AnswerWithin)
		begins(rules.IdleAfter)
	}
	for _, m := range s.seated() {
		if s.manifest().Reports(m.Role) {
			next = min(next, s.reportDue(m))
		}
	}
	for _, q := range s.silences() {
		next = min(next, s.noticeDue(q))
	}
	return next
}

// beatMember is a member in a heartbeat.
type beatMember struct {
	MemberID     string  `json:"member_id"`
	Label        string  `json:"label"`
	Role         string  `json:"room_role"`
	LastReportAt *string `json:"last_report_at"`
	SilentFor    int64   `json:"silent_for_seconds"`
	Silent       bool    `json:"silent"`
}

// reportDue is when a reporting member is to be asked. One that was due at the
// last heartbeat already gets a whole cadence from then.
func (s *state) reportDue(m *member) int64 {
	cadence := s.manifest().Heartbeat.Milliseconds()
	if due := m.reported + cadence; due > s.lastTick {
		return due
	}
	return s.lastTick + cadence
}

// tick records a heartbeat when a reporting member is due.
func (s *state) tick(rec *record, now int64) error {
	due := false
	members := []beatMember{}
	for _, m := range s.seated() {
		if !s.manifest().Reports(m.Role) {
			continue
		}
		due = due || now >= s.reportDue(m)
		b := s.beat(m, now)
		members = append(members, beatMember{m.ID, m.Label, m.Role, b.LastReportAt, b.SilentFor, b.Silent})
	}
	if !due {
		return nil
	}
	texts := map[string]string{}
	for _, role := range s.manifest().Roles {
		if role.HeartbeatOn && role.Report != nil {
			texts[role.Name] = *role.Report
		}
	}
	var instructions any
	if len(texts) > 0 {
		instructions = untrusted(s.creator(), texts)
	}
	rec.Tick = true
	_, err := rec.say(s, typeHeartbeat, system("bellman"), struct {
		Cadence      int64        `json:"cadence_seconds"`
		Ask          string       `json:"ask"`
		Instructions any          `json:"instructions"`
		Members      []beatMember `json:"members"`
	}{s.manifest().Heartbeat.Milliseconds() / 1000, asking, instructions, members}, nil)
	return err
}

// Findings of housekeeping.
const (
	memberQuiet       = "member_quiet"
	requestUnanswered = "request_unanswered"
	roomIdle          = "room_idle"
)

// silence is something that a room waits for and may speak up about.
type silence struct {
	kind    string
	subject string // of its key, empty for the room
	user    string // whose open socket ends it, if anybody's
	about   any    // in the notice, nil for nothing
	since   int64
	after   time.Duration // how long it may last
}

func (q silence) key() string { return q.kind + ":" + q.subject }

// silences lists what the room waits for, as far as its rules speak of it.
func (s *state) silences() []silence {
	rules := s.manifest().Housekeeping
	if rules == nil {
		return nil
	}
	var list []silence
	if rules.QuietAfter > 0 {
		for _, m := range s.seated() {
			about := map[string]any{"member_id": m.ID}
			list = append(list, silence{memberQuiet, m.ID, m.User, about, m.seen, rules.QuietAfter})
		}
	}
	if rules.AnswerWithin > 0 {
		for _, q := range s.requests {
			if !q.closed {
				about := map[string]any{"cursor": q.cursor}
				list = append(list, silence{requestUnanswered, strconv.FormatInt(q.cursor, 10), "", about, q.at, rules.AnswerWithin})
			}
		}
	}
	if rules.IdleAfter > 0 {
		list = append(list, silence{kind: roomIdle, since: s.lastSaid(), after: rules.IdleAfter})
	}
	return list
}

// lastSaid is when the room last heard anything but its own housekeeping.
func (s *state) lastSaid() int64 {
	for _, e := range slices.Backward(s.events) {
		if e.Type != typeHousekeeping && e.Type != typeHeartbeat {
			return e.Time().UnixMilli()
		}
	}
	return s.openedAt
}

// noticeDue is when a silence is to be announced, for the first time or again.
func (s *state) noticeDue(q silence) int64 {
	last, again := s.found[q.key()]
	if !again || last.Since != q.since {
		return q.since + q.after.Milliseconds()
	}
	if pause := s.manifest().Housekeeping.RepeatAfter; pause > 0 {
		return last.At + pause.Milliseconds()
	}
	return math.MaxInt64
}

// keepHouse records a notice for each silence that is due. A person on a
// socket is not quiet.
func (r *room) keepHouse(s *state, rec *record, now int64) error {
	for _, q := range s.silences() {
		if r.sockets[q.user] > 0 || now < s.noticeDue(q) {
			continue
		}
		f := finding{Key: q.key(), Since: q.since, Repeat: 1, At: now}
		if last, again := s.found[f.Key]; again && last.Since == q.since {
			f.Repeat = last.Repeat + 1
		}
		rec.Found = append(rec.Found, f)
		if _, err := rec.say(s, typeHousekeeping, system("bellman"), struct {
			About   any    `json:"about,omitempty"`
			Finding string `json:"finding"`
			Repeat  int    `json:"repeat"`
			Since   int64  `json:"since"`
		}{q.about, q.kind, f.Repeat, q.since}, nil); err != nil {
			return err
		}
	}
	return nil
}

// Freeze refuses every write to a room until it is thawed. It writes no
// event and wakes no poll.
func (h *House) Freeze(ctx context.Context, id string) error {
	return h.setStatus(ctx, id, StatusActive, StatusFrozen)
}

// Thaw undoes Freeze. Nobody counts as quiet for the time between.
func (h *House) Thaw(ctx context.Context, id string) error {
	return h.setStatus(ctx, id, StatusFrozen, StatusActive)
}

func (h *House) setStatus(ctx context.Context, id, from, to string) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return r.change(ctx, func(s *state, now int64) (*record, error) {
		switch s.status {
		case to:
			return nil, nil
		case from:
			rec := &record{At: now, Status: to}
			if to == StatusActive {
				endIfEmpty(s, rec) // Everybody may have left meanwhile.
			}
			return rec, nil
		}
		return nil, refuse(Conflict, "the session is %s", s.status)
	})
}

// expire records that a room was abandoned.
func (s *state) expire(rec *record, lastSeen int64) error {
	rec.Status = bellman.StatusClosed
	_, err := rec.say(s, typeExpired, system("bellman"), map[string]any{"reason": "abandoned", "last_seen_at": wireTime(lastSeen)}, nil)
	return err
}
