package room

import (
	"context"
	"slices"
	"strconv"
	"time"

	"bellman.sh/desktop/internal/bellman"
)

// asking is the one sentence a heartbeat asks with.
const asking = "Members listed here: reply now with bellman_send type progress, {note, step?, eta_seconds?}, saying what you are busy with."

// Beat appends the heartbeats and housekeeping notices that have fallen due
// in any room. See protocol.md 4.7.
func (h *House) Beat(ctx context.Context) error {
	marks, err := h.log.Find(ctx, markBeat, "", 0)
	if err != nil {
		return err
	}
	for _, m := range marks {
		if err := h.beatRoom(ctx, m.Room); err != nil {
			return err
		}
	}
	return nil
}

func (h *House) beatRoom(ctx context.Context, id string) error {
	r, leave, err := h.enter(ctx, id)
	if asRefusal(err) != nil {
		return nil // Purged since it was found.
	}
	if err != nil {
		return err
	}
	defer leave()
	return r.change(ctx, func(s *state, now int64) (*record, error) {
		rec := &record{At: now}
		if s.status != StatusActive || len(s.seated()) == 0 {
			return rec, nil
		}
		if err := s.tick(rec, now); err != nil {
			return nil, err
		}
		return rec, r.keepHouse(s, rec, now)
	})
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

// tick records a heartbeat when a reporting member's deadline has passed. A
// member that was due at the last heartbeat already gets a whole cadence from
// then before it is asked again.
func (s *state) tick(rec *record, now int64) error {
	cadence := s.manifest().Heartbeat.Milliseconds()
	if cadence == 0 {
		return nil
	}
	due := false
	members := []beatMember{}
	for _, m := range s.seated() {
		if !s.manifest().Reports(m.Role) {
			continue
		}
		deadline := m.reported + cadence
		if deadline <= s.lastTick {
			deadline = s.lastTick + cadence
		}
		due = due || now >= deadline
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
	}{cadence / 1000, asking, instructions, members}, nil)
	return err
}

// Findings of housekeeping.
const (
	memberQuiet       = "member_quiet"
	requestUnanswered = "request_unanswered"
	roomIdle          = "room_idle"
)

// keepHouse records a notice for each silence that is due, and again after
// repeat_after while it lasts.
func (r *Room) keepHouse(s *state, rec *record, now int64) error {
	rules := s.manifest().Housekeeping
	if rules == nil {
		return nil
	}
	for _, m := range s.seated() {
		if r.sockets[m.User] > 0 || !overdue(m.seen, now, rules.QuietAfter) {
			continue
		}
		if err := s.notice(rec, memberQuiet, m.ID, map[string]any{"member_id": m.ID}, m.seen, now); err != nil {
			return err
		}
	}
	for _, q := range s.requests {
		if q.closed || !overdue(q.at, now, rules.AnswerWithin) {
			continue
		}
		about := map[string]any{"cursor": q.cursor}
		if err := s.notice(rec, requestUnanswered, strconv.FormatInt(q.cursor, 10), about, q.at, now); err != nil {
			return err
		}
	}
	if since := s.lastSaid(); overdue(since, now, rules.IdleAfter) {
		return s.notice(rec, roomIdle, "", nil, since, now)
	}
	return nil
}

// overdue reports whether a silence has lasted as long as a rule allows; a
// rule of 0 is none.
func overdue(since, now int64, after time.Duration) bool {
	return after > 0 && now-since >= after.Milliseconds()
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

// notice records one finding unless it was announced too recently.
func (s *state) notice(rec *record, kind, subject string, about map[string]any, since, now int64) error {
	key := kind + ":" + subject
	last, again := s.found[key]
	again = again && last.Since == since
	f := finding{Key: key, Since: since, Repeat: 1, At: now}
	if again {
		pause := s.manifest().Housekeeping.RepeatAfter.Milliseconds()
		if pause == 0 || now-last.At < pause {
			return nil
		}
		f.Repeat = last.Repeat + 1
	}
	payload := map[string]any{"finding": kind, "since": since, "repeat": f.Repeat}
	if about != nil {
		payload["about"] = about
	}
	rec.Found = append(rec.Found, f)
	_, err := rec.say(s, typeHousekeeping, system("bellman"), payload, nil)
	return err
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
