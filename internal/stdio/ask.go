package stdio

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
)

// answer is the host's reply to a request of ours.
type answer struct {
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// Ask sends a request of ours to the host and returns the result of its reply,
// unchecked, or the *Error it replied with. It blocks until then, until ctx
// ends, which the host is told, or until the input ends: from then on no reply
// can come. It may be called from any goroutine, but not by the Handler of a
// notification or of initialize, behind which nothing is read.
func (c *Conn) Ask(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id, reply, ok := c.expect()
	if !ok {
		return nil, fmt.Errorf("ask the host for %s: %w", method, errEnded)
	}
	defer c.unexpect(id)
	line, err := encode(wireRequest{"2.0", id, method, params})
	if err != nil {
		return nil, fmt.Errorf("encode %s: %w", method, err)
	}
	sent := make(chan error, 1)
	c.post(func() {
		_, err := c.write(line, func() bool { return ctx.Err() == nil })
		sent <- err
	})
	for {
		select {
		case a := <-reply:
			return a.read(method)
		case err := <-sent:
			if err != nil {
				return nil, fmt.Errorf("ask the host for %s: %w", method, err)
			}
			sent = nil // Now it is the host's turn.
		case <-c.over:
			return nil, fmt.Errorf("ask the host for %s: %w", method, errEnded)
		case <-ctx.Done():
			c.withdraw(id)
			return nil, fmt.Errorf("ask the host for %s: %w", method, ctx.Err())
		}
	}
}

// withdraw tells the host that nobody waits for the reply any more. A host
// that does not read must not hold up whoever gave up waiting for it.
func (c *Conn) withdraw(id string) {
	c.post(func() {
		if err := c.Notify("notifications/cancelled", map[string]string{"requestId": id}); err != nil {
			c.log.Debug("the host was not told that a request is withdrawn", "error", err)
		}
	})
}

// post runs f, which writes, behind the caller, unless the input has ended.
func (c *Conn) post(f func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.ended {
		c.running.Go(f)
	}
}

// expect makes an id for a request and the channel its reply comes on. ok is
// false when there can be none.
func (c *Conn) expect() (id string, reply <-chan answer, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return "", nil, false
	}
	c.asked++
	id = "bellman-" + strconv.FormatUint(c.asked, 10)
	ch := make(chan answer, 1) // The reading never waits for whoever asked.
	c.awaited[id] = ch
	return id, ch, true
}

func (c *Conn) unexpect(id string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.awaited, id)
}

// answered hands a reply of the host to whoever asked. One that nobody waits
// for, a second one among them, is ignored.
func (c *Conn) answered(id json.RawMessage, a answer) {
	var name string
	if json.Unmarshal(id, &name) != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if reply, ok := c.awaited[name]; ok {
		delete(c.awaited, name)
		reply <- a
	}
}

// read returns the result, or the error in its place.
func (a answer) read(method string) (json.RawMessage, error) {
	if a.Error == nil || string(a.Error) == "null" && a.Result != nil {
		return a.Result, nil
	}
	e := &Error{}
	if json.Unmarshal(a.Error, e) != nil {
		return nil, errors.New("the host answered " + method + " with an error that is none")
	}
	return nil, fmt.Errorf("ask the host for %s: %w", method, e)
}
