package queue_test

import (
	"slices"

	"pgregory.net/rapid"
)

// The steps after a claim: what becomes of it, of syncs and of processes.

// settle takes a claim that is out from the model.
func (w *world) settle(t *rapid.T) *modelClaim {
	if len(w.claims) == 0 {
		t.Skip("no claim is out")
	}
	i := rapid.IntRange(0, len(w.claims)-1).Draw(t, "claim")
	c := w.claims[i]
	w.claims = slices.Delete(w.claims, i, i+1)
	return c
}

func (c *modelClaim) free(flagged bool) {
	for s, events := range c.taken {
		s.claim = nil
		for _, e := range events {
			e.claim = nil
			e.flagged = e.flagged || flagged
		}
	}
}

func (w *world) sent(t *rapid.T) {
	if len(w.claims) == 0 {
		t.Skip("no claim is out")
	}
	c := rapid.SampledFrom(w.claims).Draw(t, "claim")
	w.queues[c.by].Sent(c.token)
	c.sent = true
}

func (w *world) ack(t *rapid.T) {
	c := w.settle(t)
	w.must(t, w.queues[1-c.by].Ack(t.Context(), c.token)) // not its claim: nothing happens
	w.must(t, w.queues[c.by].Ack(t.Context(), c.token))
	w.must(t, w.queues[c.by].Release(t.Context(), c.token, true)) // settled: nothing happens
	for s, events := range c.taken {
		s.claim = nil
		c.taken[s] = slices.DeleteFunc(events, func(e *modelEvent) bool { return !slices.Contains(s.events, e) })
		s.events = slices.DeleteFunc(s.events, func(e *modelEvent) bool { return e.claim == c })
	}
	w.acked = append(w.acked, c)
}

func (w *world) release(t *rapid.T) {
	c := w.settle(t)
	flagged := rapid.Bool().Draw(t, "flagged")
	w.must(t, w.queues[c.by].Release(t.Context(), c.token, flagged))
	c.free(flagged || c.sent)
}

func (w *world) recall(t *rapid.T) {
	if len(w.acked) == 0 {
		t.Skip("nothing was acknowledged")
	}
	i := rapid.IntRange(0, len(w.acked)-1).Draw(t, "claim")
	c := w.acked[i]
	w.acked = slices.Delete(w.acked, i, i+1)
	w.must(t, w.queues[c.by].Recall(t.Context(), c.token))
	for s, events := range c.taken {
		for _, e := range events {
			s.events = append(s.events, &modelEvent{cursor: e.cursor, key: e.key, ambient: e.ambient, flagged: true})
		}
		slices.SortFunc(s.events, func(a, b *modelEvent) int { return int(a.cursor - b.cursor) })
	}
}

func (w *world) beginSync(t *rapid.T) {
	w.begin(t, rapid.SampledFrom(w.seats).Draw(t, "seat"))
}

func (w *world) begin(t *rapid.T, seat *modelSeat) {
	by := rapid.IntRange(0, 1).Draw(t, "process")
	s, err := w.queues[by].BeginSync(t.Context(), seat.id, seat.m)
	w.must(t, err)
	seat.syncs = append(seat.syncs, &modelSync{by: by, seat: seat, s: s})
}

func (w *world) endSync(t *rapid.T) {
	seat := rapid.SampledFrom(w.seats).Draw(t, "seat")
	if len(seat.syncs) == 0 {
		w.begin(t, seat)
	}
	y := seat.syncs[0]
	seat.syncs = seat.syncs[1:]
	if rapid.IntRange(0, 3).Draw(t, "cancel") == 0 {
		y.s.Cancel()
		y.s.Cancel()
		return
	}
	from := max(0, seat.fetched-int64(rapid.IntRange(-1, 20).Draw(t, "back")))
	to := from + int64(rapid.IntRange(0, 20).Draw(t, "length"))
	w.must(t, y.s.Done(t.Context(), from, to))
	y.s.Cancel()
	in := func(e *modelEvent) bool { return e.cursor > from && e.cursor <= to }
	seat.events = slices.DeleteFunc(seat.events, in)
	for _, c := range slices.Concat(w.claims, w.acked) {
		if events, ok := c.taken[seat]; ok {
			c.taken[seat] = slices.DeleteFunc(events, in)
		}
	}
	for c := from + 1; c <= to; c++ {
		if c > seat.fetched {
			seat.handed[c] = true
		}
	}
}

// crash kills one process; the other, or the next start, finds its lock free.
func (w *world) crash(t *rapid.T) {
	by := rapid.IntRange(0, 1).Draw(t, "process")
	w.must(t, w.queues[by].Crash())
	w.gone(by, func(*modelClaim) bool { return true })
	if rapid.Bool().Draw(t, "survivor first") {
		w.must(t, w.queues[1-by].Reap(t.Context()))
	}
	w.open(t, by)
}

// restart closes one process in order.
func (w *world) restart(t *rapid.T) {
	by := rapid.IntRange(0, 1).Draw(t, "process")
	w.must(t, w.queues[by].Close())
	w.gone(by, func(c *modelClaim) bool { return c.sent })
	w.open(t, by)
}

func (w *world) gone(by int, flagged func(*modelClaim) bool) {
	w.claims = slices.DeleteFunc(w.claims, func(c *modelClaim) bool {
		if c.by == by {
			c.free(flagged(c))
		}
		return c.by == by
	})
	w.acked = slices.DeleteFunc(w.acked, func(c *modelClaim) bool { return c.by == by })
	for _, s := range w.seats {
		s.syncs = slices.DeleteFunc(s.syncs, func(y *modelSync) bool { return y.by == by })
	}
}

func (w *world) end(t *rapid.T) {
	s := rapid.SampledFrom(w.seats).Draw(t, "seat")
	q := w.queues[rapid.IntRange(0, 1).Draw(t, "process")]
	if s.ended {
		w.must(t, q.Resume(t.Context(), s.id, s.m))
	} else {
		w.must(t, q.End(t.Context(), s.id, s.m, "left"))
	}
	s.ended = !s.ended
}
