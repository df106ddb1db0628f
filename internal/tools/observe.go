package tools

import (
	"context"
	"fmt"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
)

// noteTime bounds what is noted of a result: it must not make the answer late.
const noteTime = time.Second

// observe reports what a result shows of this person's memberships to the
// queue, which is how a room comes to be watched. A result that is an error
// shows nothing. See bridge.md 2.1 for where each starts.
func (b *Bridge) observe(ctx context.Context, who person, c Call, r *reply) {
	if r.isError || r.structured == nil {
		return
	}
	_, args, err := arguments(c.Params)
	if err != nil {
		return
	}
	m := seat(args, r.structured)
	if m.Room == "" || m.ID == "" {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), noteTime)
	defer cancel()
	o, known := b.own(ctx, who)
	if !known {
		return
	}
	switch c.Tool {
	case bellman.ToolStart:
		b.touch(ctx, o, m, 0)
	case bellman.ToolConfirm:
		b.touch(ctx, o, m, cursor(r.structured))
	case bellman.ToolSend:
		b.touch(ctx, o, m, cursor(r.structured))
		if known, found, err := o.membership(ctx, m); err == nil && found {
			b.revive(ctx, o, known)
		}
	case bellman.ToolLeave:
		b.end(ctx, o, m, endLeft)
	}
}

// seat is the membership a call concerns: what the result names, else what the
// arguments do.
func seat(args, result object) queue.Member {
	m := queue.Member{Room: result.text("session_id"), ID: result.text("member_id")}
	if m.Room == "" {
		m.Room = room(args)
	}
	if m.ID == "" {
		m.ID = args.text("member_id")
	}
	return m
}

func room(args object) string {
	if id := args.text("session_id"); id != "" {
		return id
	}
	return args.text("room_id")
}

// cursor is the cursor a result names, 0 when it names none.
func cursor(result object) int64 {
	n, _ := result.integer("cursor")
	return max(n, 0)
}

// person is who was signed in at some moment, if anybody.
type person struct {
	id    queue.Identity
	known bool
}

func (b *Bridge) person() person {
	id, known := b.cfg.Identity()
	return person{id, known}
}

// own is the queue together with the identity whose part of it this bridge
// handles now.
type own struct {
	*queue.Queue

	id queue.Identity
}

// own returns it unless nobody is signed in, the queue cannot be used, or it is
// somebody else than who began the call: what that call showed is not theirs.
// A sign-in in the middle of a call begun by nobody is that call's own.
func (b *Bridge) own(ctx context.Context, who person) (own, bool) {
	now := b.person()
	if !now.known || (who.known && now.id != who.id) {
		return own{}, false
	}
	q, err := b.cfg.Queue(ctx)
	return own{q, now.id}, err == nil
}

// membership returns what the queue knows of m.
func (o own) membership(ctx context.Context, m queue.Member) (queue.Membership, bool, error) {
	all, err := o.Memberships(ctx, o.id)
	if err != nil {
		return queue.Membership{}, false, fmt.Errorf("look for membership of room %s: %w", m.Room, err)
	}
	for _, k := range all {
		if k.Member == m {
			return k, true, nil
		}
	}
	return queue.Membership{}, false, nil
}

// Why a membership is over, where no later answer of the service can show that
// it is not. Whoever comes back has another handle.
const (
	endLeft    = "left"
	endRemoved = "removed"
)

// revive resumes a membership that had only seemed to be over: the service has
// just answered for its seat.
func (b *Bridge) revive(ctx context.Context, o own, m queue.Membership) {
	if m.Ended == "" || m.Ended == endLeft || m.Ended == endRemoved {
		return
	}
	if err := o.Resume(ctx, o.id, m.Member); err != nil {
		b.cfg.Log.Warn("a room is not watched again", "room", m.Room, "error", err)
	}
}

func (b *Bridge) touch(ctx context.Context, o own, m queue.Member, from int64) {
	if _, err := o.Touch(ctx, o.id, m, from); err != nil {
		b.cfg.Log.Warn("a room was not noted and is not watched", "room", m.Room, "error", err)
	}
}

func (b *Bridge) end(ctx context.Context, o own, m queue.Member, why string) {
	if err := o.End(ctx, o.id, m, why); err != nil {
		b.cfg.Log.Warn("the end of a membership was not noted", "room", m.Room, "error", err)
	}
}
