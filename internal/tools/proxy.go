package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/remote"
)

// proxy carries one call of a service tool out. The arguments and the result
// travel as they are, save what design and docs/SECURITY.md say of text blocks
// and size.
func (b *Bridge) proxy(ctx context.Context, c Call) Answer {
	if c.Tool == bellman.ToolSync {
		return b.sync(ctx, c)
	}
	params, key := c.Params, ""
	if c.Tool == bellman.ToolSend {
		params, key = withIdempotencyKey(params)
	}
	raw, again, answer := b.forward(ctx, c, params, key)
	if answer != nil {
		return *answer
	}
	r, err := parseReply(raw)
	if err != nil {
		return failure("the service answered %s with something that is no tool result. It may have acted; call bellman_sync to see.", c.Tool)
	}
	if again && r.isError {
		return failure("the first answer to this bellman_send was lost and its repeat was refused, so the event may have been stored; call bellman_sync to see. The refusal: %s", bellman.EscapeText(r.firstText()))
	}
	b.observe(ctx, c, r)
	r.escape()
	if !r.isError {
		b.notice(ctx, r)
	}
	return Answer{Result: r.fit()}
}

// forward sends the call, through a sign-in if one is needed, and repeats a
// bellman_send (key is set) whose answer was lost: the service stores a key
// once. No other call is sent twice after it may have been processed. A
// non-nil answer is what the agent gets instead of a result.
func (b *Bridge) forward(ctx context.Context, c Call, params json.RawMessage, key string) (raw json.RawMessage, again bool, answer *Answer) {
	raw, err := b.cfg.Remote.Call(ctx, c.Method, params)
	if errors.Is(err, remote.ErrSignInNeeded) {
		refused, ok := b.signIn(ctx, c)
		if !ok {
			return nil, false, &refused
		}
		params = lowerWait(ctx, params)
		raw, err = b.cfg.Remote.Call(ctx, c.Method, params)
	}
	if key != "" && mayHaveActed(err) && pause(ctx, 300*time.Millisecond) {
		again = true
		raw, err = b.cfg.Remote.Call(ctx, c.Method, params)
	}
	if err == nil {
		b.refreshCatalogue(ctx)
		return raw, again, nil
	}
	a := b.report(c, key, err, again)
	return nil, again, &a
}

func mayHaveActed(err error) bool {
	e, ok := errors.AsType[*remote.Error](err)
	return ok && e.Sent
}

func pause(ctx context.Context, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// report turns what ended a call into words for the agent.
func (b *Bridge) report(c Call, key string, err error, again bool) Answer {
	if rpc, ok := errors.AsType[*remote.RPCError](err); ok {
		return Answer{Error: &remote.RPCError{Code: rpc.Code, Message: bellman.EscapeText(rpc.Message), Data: rpc.Data}}
	}
	unknown := again || mayHaveActed(err) || errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled)
	switch {
	case errors.Is(err, remote.ErrSignInNeeded):
		return failure("the service refused the sign-in it just accepted. Nothing was sent. Call again, or ask the person to run bellman-bridge login.")
	case unknown && key != "":
		return failure("%s. Whether the event was stored is not known: call bellman_sync to see, or repeat this bellman_send with idempotency_key %q, which is stored at most once.", explain(err), key)
	case unknown && readOnly(c.Tool):
		return failure("%s. Nothing was changed; call again.", explain(err))
	case unknown:
		return failure("%s. %s may have been carried out: look before you call it again (bellman_rooms, bellman_sync).", explain(err), c.Tool)
	}
	return failure("%s. Nothing was sent. Try again in a moment.", explain(err))
}

func readOnly(tool string) bool {
	for _, t := range bellman.ServiceTools() {
		if t.Name == tool {
			return t.Annotations.ReadOnly
		}
	}
	return false
}

// explain puts an error into words without anything a peer or a server wrote
// standing unescaped in it.
func explain(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the service did not answer in time"
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	}
	if e, ok := errors.AsType[*remote.Error](err); ok {
		switch e.Status {
		case http.StatusTooManyRequests:
			return "the service asks for a pause (429)"
		case http.StatusNotFound, http.StatusMethodNotAllowed:
			return fmt.Sprintf("no Bellman service answers at the configured URL (%d); check BELLMAN_URL or the Server setting", e.Status)
		}
	}
	return bellman.EscapeText(err.Error())
}

// lowerWait fits wait_seconds into what a sign-in has left of the call's time.
func lowerWait(ctx context.Context, params json.RawMessage) json.RawMessage {
	deadline, ok := ctx.Deadline()
	p, args, err := arguments(params)
	if !ok || err != nil {
		return params
	}
	var wait float64
	if json.Unmarshal(args.get("wait_seconds"), &wait) != nil {
		return params
	}
	left := int((time.Until(deadline) - enoughLeft).Seconds())
	if left = max(left, 0); float64(left) < wait {
		args.set("wait_seconds", encode(left))
		p.set("arguments", args.raw())
		return p.raw()
	}
	return params
}

// arguments takes the params of a tools/call apart.
func arguments(params json.RawMessage) (p, args object, err error) {
	if p, err = parseObject(params); err != nil {
		return nil, nil, err
	}
	raw := p.get("arguments")
	if raw == nil || string(raw) == "null" {
		return p, nil, nil
	}
	args, err = parseObject(raw)
	return p, args, err
}
