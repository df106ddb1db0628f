package stdio

import (
	"context"
	"encoding/json"
	"slices"
	"sync"
	"time"
)

// call is one request on its way to its reply.
type call struct {
	id     json.RawMessage
	cancel context.CancelFunc

	mu        sync.Mutex
	cancelled bool // by the host

	settle  func(Fate)
	settled chan struct{} // closed when settle(Written) has returned
	written time.Time
	recall  sync.Once
}

func (c *Conn) start(ctx context.Context, h Handler, req *Request) {
	ctx, cancel := context.WithCancel(ctx)
	k := &call{id: req.ID, cancel: cancel, settled: make(chan struct{})}
	if fault := c.admit(k); fault != nil {
		cancel()
		c.refuse(req.ID, fault)
		return
	}
	run := func() {
		defer c.running.Done()
		defer cancel()
		c.finish(k, h(ctx, req))
	}
	if req.Method != "initialize" {
		go run()
		return
	}
	// It is answered before anything else is read: later requests may rely on
	// it. Only a host that does not read is not waited for.
	done := make(chan struct{})
	go func() { run(); close(done) }()
	wait(done, patience)
}

func (c *Conn) admit(k *call) *Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return &Error{Code: CodeInternal, Message: "the bridge is leaving"}
	}
	if _, twice := c.calls[string(k.id)]; twice {
		return &Error{Code: CodeInvalidRequest, Message: "invalid request: this id is in use"}
	}
	if len(c.calls) >= maxInFlight {
		return &Error{Code: CodeInternal, Message: "too many calls at once; wait for some to end"}
	}
	c.calls[string(k.id)] = k
	c.running.Add(1)
	return nil
}

// finish writes the reply, unless the host has given up, and settles it.
func (c *Conn) finish(k *call, r Reply) {
	settle := r.Settle
	if settle == nil {
		settle = func(Fate) {}
	}
	line, err := encode(r.wire(k.id))
	if err != nil {
		c.log.Error("a reply is no JSON", "error", err)
		settle(Cancelled) // nothing of it leaves
		r = Reply{Error: &Error{Code: CodeInternal, Message: "the bridge made an answer that is no JSON"}}
		settle = func(Fate) {}
		if line, err = encode(r.wire(k.id)); err != nil {
			c.forget(k)
			return
		}
	}
	begun, err := c.write(line, func() bool { return k.begin(r.Leaving) })
	if !begun {
		c.forget(k)
		settle(Cancelled)
		return
	}
	if err != nil {
		c.forget(k)
		c.log.Warn("a reply could not be written", "error", err)
		settle(Failed)
		return
	}
	recallNow := c.remember(k, r.Settle)
	settle(Written)
	close(k.settled)
	if recallNow {
		k.recallOnce()
	}
}

// begin decides, with the way out free, whether the reply is still wanted.
func (k *call) begin(leaving func()) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if !k.cancelled && leaving != nil {
		leaving()
	}
	return !k.cancelled
}

func (c *Conn) forget(k *call) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.calls, string(k.id))
}

// remember keeps a written reply that somebody wants to hear of for as long as
// it can be recalled, and reports whether it must be recalled at once: the
// cancellation came while it was written, or the input has already ended.
func (c *Conn) remember(k *call, settle func(Fate)) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	k.mu.Lock()
	crossed := k.cancelled
	k.mu.Unlock()
	delete(c.calls, string(k.id))
	if settle == nil {
		return false
	}
	k.settle, k.written = settle, time.Now()
	keep := c.settled[:0]
	for _, old := range c.settled {
		if k.written.Sub(old.written) < crossing {
			keep = append(keep, old)
		}
	}
	clear(c.settled[len(keep):])
	c.settled = append(keep, k)
	return crossed || c.ended
}

// cancel acts on the host's notifications/cancelled. A request in flight ends;
// one that was answered with something recallable is recalled. Anything else
// is ignored, as MCP asks.
func (c *Conn) cancel(params json.RawMessage) {
	var p struct {
		RequestID json.RawMessage `json:"requestId"`
	}
	if json.Unmarshal(params, &p) != nil || p.RequestID == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if k, inFlight := c.calls[string(p.RequestID)]; inFlight {
		k.mu.Lock()
		k.cancelled = true
		k.mu.Unlock()
		k.cancel()
		return
	}
	if k := c.recallable(p.RequestID); k != nil && !c.ended {
		c.running.Go(k.recallOnce)
	}
}

// recallable returns the newest written reply with this id that is not too old.
func (c *Conn) recallable(id json.RawMessage) *call {
	for _, k := range slices.Backward(c.settled) {
		if string(k.id) == string(id) && time.Since(k.written) < crossing {
			return k
		}
	}
	return nil
}

// end refuses further calls and recalls what was written just now: it was
// probably not read.
func (c *Conn) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, k := range c.settled {
		if time.Since(k.written) < unread {
			c.running.Go(k.recallOnce)
		}
	}
	c.ended = true
	close(c.over)
}

// recallOnce waits until the reply is settled as written and then recalls it.
func (k *call) recallOnce() {
	k.recall.Do(func() {
		<-k.settled
		k.settle(Recalled)
	})
}
