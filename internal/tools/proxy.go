package tools

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
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
	who, params, key := b.person(), c.Params, ""
	switch c.Tool {
	case bellman.ToolSend:
		params, key = withIdempotencyKey(params)
	case bellman.ToolStart:
		var err error
		if params, err = b.withRoomFile(params); err != nil {
			return failure("%v. Nothing was sent.", err)
		}
	}
	s := b.forward(ctx, c, params, key)
	if s.err != nil {
		return report(c, key, s)
	}
	r, err := parseReply(s.raw)
	if err != nil {
		return unsure(c, key, "the service answered with something that is no tool result")
	}
	if s.again && r.isError {
		return failure("the first answer to this bellman_send was lost and its repeat was refused, so the event may have been stored; call bellman_sync to see. The refusal: %s", r.firstText())
	}
	b.observe(ctx, who, c, r)
	r.escape()
	if !r.isError {
		b.notice(ctx, who, r)
	}
	return r.answer(c.Tool)
}

// sent is what became of a call.
type sent struct {
	raw     json.RawMessage
	again   bool    // it was sent a second time, its first answer being lost
	err     error   // nil when raw is the service's answer
	refusal *Answer // what to tell instead of err: the sign-in it needed came to nothing
}

// unknown reports whether the service may have acted without our knowing.
func (s sent) unknown() bool {
	return s.again || mayHaveActed(s.err) || errors.Is(s.err, context.DeadlineExceeded) || errors.Is(s.err, context.Canceled)
}

// forward sends the call, through a sign-in if one is needed, and repeats a
// bellman_send (key is set) whose answer was lost: the service stores a key
// once. No other call is sent twice after it may have been processed.
func (b *Bridge) forward(ctx context.Context, c Call, params json.RawMessage, key string) sent {
	var s sent
	s.raw, s.err = b.cfg.Remote.Call(ctx, c.Method, params)
	if errors.Is(s.err, remote.ErrSignInNeeded) {
		refusal, ok := b.signIn(ctx, c)
		if !ok {
			s.refusal = &refusal
			return s
		}
		params = lowerWait(ctx, params)
		s.raw, s.err = b.cfg.Remote.Call(ctx, c.Method, params)
	}
	if key != "" && mayHaveActed(s.err) && pause(ctx, 300*time.Millisecond) {
		s.again = true
		s.raw, s.err = b.cfg.Remote.Call(ctx, c.Method, params)
	}
	if s.err == nil {
		b.refreshCatalogue(ctx)
	}
	return s
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
func report(c Call, key string, s sent) Answer {
	if s.refusal != nil {
		return *s.refusal
	}
	rpc, refused := errors.AsType[*remote.RPCError](s.err)
	switch {
	case s.unknown():
		return unsure(c, key, explain(s.err))
	case refused:
		return Answer{Error: passOn(rpc)}
	case errors.Is(s.err, remote.ErrSignInNeeded):
		return failure("the service refused the sign-in it just accepted. Nothing was sent. Call again; if it is refused once more, tell the person that the service does not let this account in.")
	}
	e, ok := errors.AsType[*remote.Error](s.err)
	switch {
	case ok && (elsewhere(e.Status) || e.Status/100 == 3):
		return failure("%s. Nothing was sent.", explain(s.err)) // trying again cannot help
	case ok && lasting(e.Status):
		return failure("%s. Nothing was done, and the same call would be refused again; bellman_whoami tells who is signed in.", explain(s.err))
	}
	return failure("%s. Nothing was sent. Try again in a moment. If it stays, the person can run bellman-bridge doctor to see what is wrong.", explain(s.err))
}

// unsure is the answer when the service may have acted without our knowing:
// what happened, and how to find out or to go on.
func unsure(c Call, key, happened string) Answer {
	switch {
	case key != "":
		return failure("%s. Whether the event was stored is not known: call bellman_sync to see, or repeat this bellman_send with idempotency_key %s, which is stored at most once.", happened, encode(key))
	case readOnly(c.Tool):
		return failure("%s. Nothing was changed; call again.", happened)
	}
	return failure("%s. %s may have been carried out: look before you call it again (bellman_rooms, bellman_sync).", happened, plain(c.Tool))
}

// elsewhere reports whether a status means that no service is at this URL.
func elsewhere(status int) bool {
	return status == http.StatusNotFound || status == http.StatusMethodNotAllowed
}

// lasting reports whether a status refuses the call itself, and not only now.
func lasting(status int) bool {
	return status/100 == 4 && status != http.StatusRequestTimeout && status != http.StatusTooEarly && status != http.StatusTooManyRequests
}

// passOn is the service's error as it goes to the host: on one safe line, and
// no larger than a result may be.
func passOn(rpc *remote.RPCError) *remote.RPCError {
	e := &remote.RPCError{Code: rpc.Code, Message: oneLine(cut(rpc.Message, maxWords)), Data: rpc.Data}
	if len(encode(e.Data)) > maxReply/2 {
		e.Data = nil
	}
	return e
}

func readOnly(tool string) bool {
	for _, t := range bellman.ServiceTools() {
		if t.Name == tool {
			return t.Annotations.ReadOnly
		}
	}
	return false
}

// explain puts an error into words. What a server wrote may stand in them; the
// answer they go into escapes it.
func explain(err error) string {
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return "the service did not answer in time"
	case errors.Is(err, context.Canceled):
		return "the call was cancelled"
	}
	if e, ok := errors.AsType[*remote.Error](err); ok {
		switch {
		case e.Status == http.StatusTooManyRequests:
			return "the service asks for a pause (429)"
		case e.Status/100 == 3, e.Status/100 == 2 && !e.Sent:
			return fmt.Sprintf("something else answers in the service's place (%d): the sign-in page of a network, or a proxy; if the person finds neither, check BELLMAN_URL or the Server setting", e.Status)
		case elsewhere(e.Status):
			return fmt.Sprintf("no Bellman service answers at the configured URL (%d); check BELLMAN_URL or the Server setting", e.Status)
		}
	}
	return strings.TrimSuffix(err.Error(), ".")
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
