package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
)

// sync carries out a bellman_sync: while it is in flight no wait takes that
// seat's events, and once its reply is written the queue knows that the agent
// has been handed everything from the cursor it asked for to the one it got.
func (b *Bridge) sync(ctx context.Context, c Call) Answer {
	var m queue.Member
	var since int64
	if _, args, err := arguments(c.Params); err == nil {
		m = queue.Member{Room: room(args), ID: args.text("member_id")}
		since = number(args.get("since_cursor"))
	}
	hold := b.hold(ctx, m)
	raw, _, answer := b.forward(ctx, c, c.Params, "")
	if answer != nil {
		hold.Cancel()
		return b.outage(ctx, m, *answer)
	}
	r, err := parseReply(raw)
	if err != nil {
		hold.Cancel()
		return failure("the service answered bellman_sync with something that is no tool result. Nothing was read or lost; call again.")
	}
	r.escape()
	if r.isError || r.structured == nil {
		hold.Cancel()
		return Answer{Result: r.fit()}
	}
	return b.handOver(ctx, m, since, r, hold)
}

// hold is a sync in flight, or nothing when the queue has no part in it.
type hold struct{ sync *queue.Sync }

func (b *Bridge) hold(ctx context.Context, m queue.Member) hold {
	o, known := b.own(ctx)
	if !known || m.Room == "" || m.ID == "" {
		return hold{}
	}
	s, err := o.BeginSync(ctx, o.id, m)
	if err != nil {
		b.cfg.Log.Warn("a sync is not known to the queue; events may come twice", "room", m.Room, "error", err)
	}
	return hold{s}
}

// Cancel ends the hold; nothing was handed over.
func (h hold) Cancel() {
	if h.sync != nil {
		h.sync.Cancel()
	}
}

// handOver makes the reply fit, and ties what it hands over to its receipt.
func (b *Bridge) handOver(ctx context.Context, m queue.Member, since int64, r *reply, h hold) Answer {
	var s bellman.SyncResult
	_ = json.Unmarshal(r.structured.raw(), &s) // fields that do not fit stay zero and hand nothing over
	end := b.ending(m, s)
	result := r.fit()
	if len(result) > maxReply {
		if cursor, ok := r.cutEvents(); ok {
			// What the whole reply says of the room's end holds with its last page.
			s.Cursor, end = cursor, ""
			result = r.o.raw()
		}
	}
	o, known := b.own(ctx)
	if !known || m.Room == "" || m.ID == "" {
		h.Cancel()
		return Answer{Result: result}
	}
	b.touch(ctx, o, m, b.firstCursor(ctx, o, m, since, s))
	if h.sync == nil {
		h = b.hold(ctx, m) // the sign-in came in the middle of this call
	}
	return Answer{Result: result, Receipt: Receipt{
		Written: func(ctx context.Context) error {
			var err error
			if h.sync != nil {
				err = h.sync.Done(ctx, since, s.Cursor)
			}
			if end != "" {
				err = errors.Join(err, o.End(ctx, o.id, m, end))
			}
			return err
		},
		Lost: func(context.Context, bool) error { h.Cancel(); return nil },
	}}
}

// ending tells whether a sync shows that the membership is over, and why.
func (b *Bridge) ending(m queue.Member, s bellman.SyncResult) string {
	if s.SessionStatus == bellman.StatusClosed {
		return "closed"
	}
	for _, e := range s.Events {
		if e.Data.Removes(m.ID) {
			return "removed"
		}
	}
	if s.Removed {
		return "removed"
	}
	return ""
}

// firstCursor is where the watch of a membership starts that is first seen in
// a sync: where the agent asked from, so that a reply it never gets loses
// nothing. A cursor that the service only echoed may lie beyond the room's log
// (it belongs to another room): then a look one below it tells. A membership
// that is known already is not moved by this.
func (b *Bridge) firstCursor(ctx context.Context, o own, m queue.Member, since int64, s bellman.SyncResult) int64 {
	if since == 0 || s.Cursor != since || len(s.Events) > 0 || o.knows(ctx, m) {
		return since
	}
	params := encode(map[string]any{"name": bellman.ToolSync, "arguments": map[string]any{
		"session_id": m.Room, "member_id": m.ID, "since_cursor": since - 1,
	}})
	raw, err := b.cfg.Remote.Call(ctx, "tools/call", params)
	if err != nil {
		return 0
	}
	r, err := parseReply(raw)
	if err != nil || r.isError || r.structured == nil || number(r.structured.get("cursor")) < since {
		return 0
	}
	return since
}

func (o own) knows(ctx context.Context, m queue.Member) bool {
	all, err := o.Memberships(ctx, o.id)
	if err != nil {
		return false
	}
	for _, k := range all {
		if k.Member == m {
			return true
		}
	}
	return false
}

// outage adds to a failed sync what is already here: it hands out nothing
// itself, so that nothing comes twice.
func (b *Bridge) outage(ctx context.Context, m queue.Member, a Answer) Answer {
	o, known := b.own(ctx)
	if a.Error != nil || !known || m.Room == "" {
		return a
	}
	p, err := o.Pending(ctx, o.id, queue.Filter{Room: m.Room})
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
func (b *Bridge) notice(ctx context.Context, r *reply) {
	o, known := b.own(ctx)
	if !b.cfg.Notice || !known {
		return
	}
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
