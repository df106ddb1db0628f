package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
)

// reading is one bellman_sync on its way: whose, which seat's, from where, and
// the queue's note of it. The note is nil when the queue has no part in it.
type reading struct {
	who   person
	m     queue.Member
	since int64
	plain bool // seat and cursor are readable, so that the queue can have a part
	note  *queue.Sync
}

// drop ends the note; nothing was handed over.
func (y reading) drop() {
	if y.note != nil {
		y.note.Cancel()
	}
}

// sync carries out a bellman_sync: while it is in flight no wait takes that
// seat's events, and once its reply is written the queue knows that the agent
// has been handed everything from the cursor it asked for to the one it got.
func (b *Bridge) sync(ctx context.Context, c Call) Answer {
	y := b.beginReading(ctx, c)
	s := b.forward(ctx, c, c.Params, "")
	if s.err != nil {
		b.drop(y)
		return b.outage(ctx, y, report(c, "", s))
	}
	r, err := parseReply(s.raw)
	if err != nil {
		b.drop(y)
		return failure("the service answered bellman_sync with something that is no tool result. Nothing was read or lost; call again.")
	}
	r.escape()
	if r.isError || r.structured == nil {
		b.drop(y)
		return r.answer(c.Tool)
	}
	return b.handOver(ctx, y, r)
}

func (b *Bridge) beginReading(ctx context.Context, c Call) reading {
	y := reading{who: b.person()}
	_, args, err := arguments(c.Params)
	if err != nil {
		return y
	}
	y.m = queue.Member{Room: room(args), ID: args.text("member_id")}
	y.plain = y.m.Room != "" && y.m.ID != ""
	if args.get("since_cursor") != nil {
		since, ok := args.integer("since_cursor")
		y.since, y.plain = since, y.plain && ok && since >= 0
	}
	if o, known := b.own(ctx, y.who); known && y.plain {
		y.note = b.beginSync(ctx, o, y.m)
	}
	return y
}

func (b *Bridge) beginSync(ctx context.Context, o own, m queue.Member) *queue.Sync {
	ctx, cancel := context.WithTimeout(ctx, noteTime)
	defer cancel()
	s, err := o.BeginSync(ctx, o.id, m)
	if err != nil {
		b.cfg.Log.Warn("a wait may take what this sync reads", "room", m.Room, "error", err)
	}
	return s // even then it can hand over
}

// drop ends y's note without making the answer late: a queue that another
// process holds up is left to itself after a moment.
func (b *Bridge) drop(y reading) {
	if y.note == nil {
		return
	}
	done := make(chan struct{})
	b.behind(func() {
		defer close(done)
		y.drop()
	})
	t := time.NewTimer(noteTime)
	defer t.Stop()
	select {
	case <-done:
	case <-t.C:
	case <-b.closing: // the queue lets go of it when it closes
	}
}

// page is what a sync's reply says of the room.
type page struct {
	cursor int64
	events int
	end    string // why the membership is over, if it is
}

// readPage reads it, field by field: one that does not fit says nothing.
func readPage(m queue.Member, result object) page {
	p := page{cursor: cursor(result)}
	var events []bellman.Envelope[bellman.Event]
	_ = json.Unmarshal(result.get("events"), &events) // what can be read of them is
	p.events = len(events)
	removed := string(result.get("removed")) == "true"
	for _, e := range events {
		removed = removed || e.Data.Removes(m.ID)
	}
	switch {
	case result.text("session_status") == bellman.StatusClosed:
		p.end = bellman.StatusClosed
	case removed:
		p.end = endRemoved
	}
	return p
}

// handOver makes the reply fit, and ties what it hands over to its receipt.
func (b *Bridge) handOver(ctx context.Context, y reading, r *reply) Answer {
	p := readPage(y.m, r.structured)
	alive := p.end == ""
	answer := Answer{Result: r.fit()}
	if len(answer.Result) > maxReply {
		if last, cut := r.cutEvents(); cut {
			// What the whole reply says of the room's end holds with its last page.
			p.cursor, p.end = last, ""
		}
		answer.Result = r.o.raw()
	}
	if size := len(answer.Result); size > maxReply {
		b.drop(y)
		return failure("the answer to this bellman_sync, %d bytes, is more than this host takes and cannot be cut. Nothing was handed over or lost. %s", size, r.wayOn())
	}
	noteCtx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	o, known := b.own(noteCtx, y.who)
	if !known || !y.plain {
		b.drop(y)
		return answer
	}
	have, found, err := o.membership(noteCtx, y.m)
	if err == nil && !found {
		answer.Receipt = b.firstReading(ctx, o, y, p)
		return answer
	}
	b.touch(noteCtx, o, y.m, y.since)
	if alive {
		b.revive(noteCtx, o, have)
	}
	if y.note == nil {
		y.note = b.beginSync(noteCtx, o, y.m) // the sign-in came in the middle of this call
	}
	answer.Receipt = b.noting.over(Receipt{
		Written: func(ctx context.Context) error {
			var err error
			if y.note != nil {
				err = y.note.Done(ctx, y.since, p.cursor)
			}
			if p.end != "" {
				err = errors.Join(err, o.End(ctx, o.id, y.m, p.end))
			}
			return err
		},
		Lost: func(context.Context, bool) error { y.drop(); return nil },
	})
	return answer
}

// firstReading is the receipt of a sync that shows a membership for the first
// time. Its watch starts behind what the reply hands over, or, when the reply
// is lost, where the agent asked from; so nothing is lost or comes twice. One
// that is over is not watched.
func (b *Bridge) firstReading(ctx context.Context, o own, y reading, p page) Receipt {
	from, to, ok := y.since, p.cursor, p.end == ""
	if ok && from > 0 && to == from && p.events == 0 {
		from, ok = b.inLog(ctx, y.m, from)
		to = from
	}
	return b.noting.over(Receipt{
		Written: func(ctx context.Context) error {
			if !ok {
				y.drop()
				return nil
			}
			added, err := o.Touch(ctx, o.id, y.m, to)
			if err == nil && !added && y.note != nil { // another call was first
				return y.note.Done(ctx, y.since, p.cursor)
			}
			y.drop()
			return err
		},
		Lost: func(ctx context.Context, _ bool) error {
			y.drop()
			if !ok {
				return nil
			}
			_, err := o.Touch(ctx, o.id, y.m, from)
			return err
		},
	})
}

// inLog returns since if the room's log reaches it. The service only echoes a
// cursor beyond it (one of another room, say); then a watch starts at 0. A look
// one below tells. ok is false when there was no telling.
func (b *Bridge) inLog(ctx context.Context, m queue.Member, since int64) (from int64, ok bool) {
	params := encode(map[string]any{"name": bellman.ToolSync, "arguments": map[string]any{
		"session_id": m.Room, "member_id": m.ID, "since_cursor": since - 1,
	}})
	raw, err := b.cfg.Remote.Call(ctx, "tools/call", params)
	if err != nil {
		return 0, false
	}
	r, err := parseReply(raw)
	if err != nil || r.isError || r.structured == nil {
		return 0, false
	}
	if cursor(r.structured) < since {
		return 0, true
	}
	return since, true
}

// outage adds to a failed sync what is already here: it hands out nothing
// itself, so that nothing comes twice.
func (b *Bridge) outage(ctx context.Context, y reading, a Answer) Answer {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	o, known := b.own(ctx, y.who)
	if a.Error != nil || !known || y.m.Room == "" {
		return a
	}
	b.noting.wait(ctx)
	p, err := o.Pending(ctx, o.id, queue.Filter{Room: y.m.Room})
	if err != nil {
		return a
	}
	r, err := parseReply(a.Result)
	if err != nil {
		return a
	}
	if p.Events == 0 {
		r.addText("Nothing was read or lost. No event of this room waits on this machine.")
	} else {
		r.addText(fmt.Sprintf("Nothing was read or lost. Events of this room already on this machine: %d. Take them with bellman_wait and wait_seconds 0.", p.Events))
	}
	a.Result = r.o.raw()
	return a
}

// notice appends to a result how many interrupting events wait, so that an
// agent that forgot to look learns of them.
func (b *Bridge) notice(ctx context.Context, who person, r *reply) {
	if !b.cfg.Notice {
		return
	}
	o, known := b.own(ctx, who)
	if !known {
		return
	}
	b.noting.wait(ctx)
	p, err := o.Pending(ctx, o.id, queue.Filter{})
	if err != nil || p.Interrupting == 0 {
		return
	}
	r.addText(fmt.Sprintf("Bellman: %s waiting in %s. Call bellman_sync for each room you are in.",
		count(p.Interrupting, "peer event is", "peer events are"), count(p.Rooms, "room", "rooms")))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}
