package tools

import (
	"context"
	"encoding/json"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
)

// observe reports what a result shows of this person's memberships to the
// queue, which is how a room comes to be watched. A result that is an error
// shows nothing. See bridge.md 2.1 for where each starts.
func (b *Bridge) observe(ctx context.Context, c Call, r *reply) {
	own, known := b.own(ctx)
	if r.isError || !known || r.structured == nil {
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
	switch c.Tool {
	case bellman.ToolStart:
		b.touch(ctx, own, m, 0)
	case bellman.ToolConfirm, bellman.ToolSend:
		b.touch(ctx, own, m, number(r.structured.get("cursor")))
	case bellman.ToolLeave:
		b.end(ctx, own, m, "left")
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

func number(raw json.RawMessage) int64 {
	var n int64
	if json.Unmarshal(raw, &n) != nil || n < 0 {
		return 0
	}
	return n
}

// own is the queue together with the identity whose part of it this bridge
// handles now.
type own struct {
	*queue.Queue

	id queue.Identity
}

// own returns it unless nobody is signed in or the queue cannot be used.
func (b *Bridge) own(ctx context.Context) (own, bool) {
	id, known := b.cfg.Identity()
	if !known {
		return own{}, false
	}
	q, err := b.cfg.Queue(ctx)
	return own{q, id}, err == nil
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
