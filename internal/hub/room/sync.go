package room

import (
	"cmp"
	"context"
	"math"
	"slices"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// requestLife is how long an action request waits for an answer.
const requestLife = 30 * time.Minute

// Query asks what happened after a cursor.
type Query struct {
	Handle  string
	Since   int64
	Wait    time.Duration
	Surface bool // also the whole surface
}

// Synced answers a Query. See protocol.md 1.6.
type Synced struct {
	Events        []bellman.Envelope[bellman.Event] `json:"events"`
	Cursor        int64                             `json:"cursor"`
	Status        string                            `json:"session_status"`
	SurfaceCursor int64                             `json:"surface_cursor,omitempty"`
	Surface       *Surface                          `json:"surface,omitempty"`
	Outstanding   []Outstanding                     `json:"outstanding,omitempty"`
	Removed       bool                              `json:"removed,omitempty"`
}

// Outstanding is an action request that nobody has answered in time.
type Outstanding struct {
	Cursor       int64  `json:"cursor"`
	FromMemberID string `json:"from_member_id"`
	FromLabel    string `json:"from_label"`
	Mine         bool   `json:"mine"`
	AgeSeconds   int64  `json:"age_seconds"`
	ExpiresAt    string `json:"expires_at"`
}

// Sync returns the events after a cursor. With nothing to return it waits for
// an event until q.Wait has passed, ctx ends or the house closes.
func (h *House) Sync(ctx context.Context, who account.Identity, id string, q Query) (Synced, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return Synced{}, err
	}
	defer leave()
	if err := r.heard(ctx, who, q.Handle); err != nil {
		return Synced{}, err
	}
	waiting, stop := h.waiting(ctx, q.Wait)
	defer stop()
	for {
		var answer Synced
		var position int64
		var err error
		ready := q.Wait <= 0
		r.look(func(s *state, now int64) {
			position = s.position
			answer, err = s.sync(who, q, now)
			ready = ready || answer.Cursor != q.Since || answer.Removed
		})
		if err != nil || ready {
			return answer, err
		}
		news, err := h.log.Watch(waiting, id, position)
		if err == nil {
			err = r.reachTo(ctx, news)
		} else if waiting.Err() != nil {
			// The time is over: what has come meanwhile is looked for once more.
			q.Wait = 0
			err = r.reach(ctx)
		}
		if err != nil {
			return Synced{}, err
		}
	}
}

// waiting ends with ctx, after d, or when the house closes.
func (h *House) waiting(ctx context.Context, d time.Duration) (context.Context, func()) {
	if d <= 0 {
		return ctx, func() {}
	}
	waiting, cancel := context.WithTimeout(ctx, d)
	done := make(chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		select {
		case <-h.closing:
			cancel()
		case <-done:
		}
	}()
	return waiting, func() {
		close(done)
		<-ended
		cancel()
	}
}

// heard notes that the caller is present, when that is worth a record, and
// refuses a handle that is not the caller's.
func (r *room) heard(ctx context.Context, who account.Identity, handle string) error {
	var err error
	due := false
	note := func(s *state, now int64) (*record, error) {
		m, err := s.own(who.UserID, handle)
		if err != nil {
			return nil, err
		}
		rec := &record{At: now}
		touch(s, rec, m, now)
		return rec, nil
	}
	r.look(func(s *state, now int64) {
		var rec *record
		rec, err = note(s, now)
		due = err == nil && !rec.empty()
	})
	if err != nil || !due {
		return err
	}
	return r.change(ctx, note)
}

// sync slices the log for one handle. The rules are numbered in protocol.md
// 1.6.
func (s *state) sync(who account.Identity, q Query, now int64) (Synced, error) {
	m, err := s.own(who.UserID, q.Handle)
	if err != nil {
		return Synced{}, err
	}
	a := Synced{Events: []bellman.Envelope[bellman.Event]{}, Cursor: q.Since, Status: s.status, Removed: m.cut > 0}
	end := s.last()
	if m.cut > 0 {
		end = min(end, m.cut)
	}
	if q.Since < end {
		a.Cursor = end
		for _, e := range s.events[q.Since:end] {
			if e.From.MemberID != m.ID {
				a.Events = append(a.Events, bellman.Untrusted(e.From.MemberID, e.From.Label, e))
			}
		}
	}
	if m.cut == 0 {
		a.SurfaceCursor = s.surfaceCursor
	}
	if q.Surface {
		whole := s.wholeSurface(m.cut)
		a.Surface, a.SurfaceCursor = &whole, whole.Cursor
	}
	a.Outstanding = s.outstanding(m, now)
	return a, nil
}

// outstanding lists the requests that wait for an answer, as m may see them.
func (s *state) outstanding(m *member, now int64) []Outstanding {
	var open []Outstanding
	// Requests stand in the order of their time, which never goes back.
	young, _ := slices.BinarySearchFunc(s.requests, now-requestLife.Milliseconds(), func(q *request, at int64) int { return cmp.Compare(q.at, at) })
	for _, q := range s.requests[young:] {
		expires := q.at + requestLife.Milliseconds()
		mine := q.from.MemberID == m.ID
		switch {
		case q.closed:
			continue
		case m.cut > 0 && q.cursor > m.cut:
			continue
		case !mine && m.left != 0:
			continue
		}
		age := math.Round(float64(now-q.at) / 1000)
		open = append(open, Outstanding{
			Cursor: q.cursor, FromMemberID: q.from.MemberID, FromLabel: q.from.Label, Mine: mine,
			AgeSeconds: int64(max(age, 0)), ExpiresAt: wireTime(expires),
		})
	}
	return open
}
