package stdio

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"time"
)

const (
	maxInFlight = 1024 // calls at once; a host that asks for more is told so

	// crossing is how long a written reply can still be recalled by a
	// cancellation that was on its way while we wrote.
	crossing = 2 * time.Minute
	// unread is how close to the end of input a reply must have been written
	// to be taken as not read: the host died with it in the pipe.
	unread = 5 * time.Second

	// grace is what calls in flight get at the end of input before they are
	// cancelled; drain is what they get after that.
	grace = 800 * time.Millisecond
	drain = 700 * time.Millisecond
)

// Handler answers one request or takes one notification, whose Reply is
// ignored. It is called from many goroutines at once; ctx ends when the host
// cancels the request or the connection ends.
type Handler func(ctx context.Context, r *Request) Reply

// Conn is one connection to a host. Make it with New; Notify may be called from
// any goroutine, before, during and after Run.
type Conn struct {
	in  io.Reader
	log *slog.Logger

	wmu sync.Mutex // one line at a time on out
	out io.Writer

	running sync.WaitGroup // calls and recalls; joined only under mu while !ended

	mu      sync.Mutex
	ended   bool
	calls   map[string]*call
	settled []*call // written and recallable, oldest first
}

// New returns a connection that reads from in and writes to out.
func New(in io.Reader, out io.Writer, log *slog.Logger) *Conn {
	return &Conn{in: in, out: out, log: log, calls: map[string]*call{}}
}

// Notify writes a notification to the host; params is encoded as JSON. It
// blocks while the host does not read.
func (c *Conn) Notify(method string, params any) error {
	line, err := encode(wireNotification{"2.0", method, params})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	return c.write(line)
}

func (c *Conn) write(line []byte) error {
	c.wmu.Lock()
	defer c.wmu.Unlock()
	n, err := c.out.Write(line)
	if err == nil && n < len(line) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return fmt.Errorf("write to host: %w", err)
	}
	return nil
}

// Run reads and answers until the input ends, ctx ends or a read fails, and
// returns nil in the first two cases. At the end of input calls in flight have
// a moment to answer; then they are cancelled, and Run returns within 1.5 s.
// A write that the operating system holds (the host does not read) cannot be
// interrupted and is left to the end of the process: its reply is not settled.
func (c *Conn) Run(ctx context.Context, h Handler) error {
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	read := make(chan error, 1)
	go func() { read <- c.readAll(callCtx, h) }()

	var err error
	select {
	case err = <-read:
	case <-ctx.Done(): // a signal; the blocked read is left to the end of the process
	}
	c.end()
	done := make(chan struct{})
	go func() { c.running.Wait(); close(done) }()
	if ctx.Err() == nil && wait(done, grace) {
		return err
	}
	cancel()
	wait(done, drain)
	return err
}

func wait(done <-chan struct{}, d time.Duration) bool {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-done:
		return true
	case <-t.C:
		return false
	}
}

func (c *Conn) readAll(ctx context.Context, h Handler) error {
	r := bufio.NewReaderSize(c.in, 64<<10)
	for {
		line, err := readLine(r)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case errors.Is(err, errLongLine):
			c.refuse(nil, &Error{Code: CodeInvalidRequest, Message: fmt.Sprintf("invalid request: a line may hold %d bytes", maxLine)})
			continue
		case err != nil:
			return fmt.Errorf("read from host: %w", err)
		}
		if len(bytes.TrimSpace(line)) > 0 {
			c.take(ctx, h, line)
		}
	}
}

// take handles one line. What must keep its order is done here, the rest in a
// goroutine of its own.
func (c *Conn) take(ctx context.Context, h Handler, line []byte) {
	req, isResponse, fault := decode(line)
	switch {
	case fault != nil:
		var id json.RawMessage
		if req != nil {
			id = req.ID
		}
		c.refuse(id, fault)
	case isResponse:
		// We ask the host nothing yet, so no answer is awaited.
	case req.ID == nil && req.Method == "notifications/cancelled":
		c.cancel(req.Params)
	case req.ID == nil:
		h(ctx, req)
	default:
		c.start(ctx, h, req)
	}
}

func (c *Conn) refuse(id json.RawMessage, fault *Error) {
	if id == nil {
		id = json.RawMessage("null")
	}
	line, err := encode(wireReply{JSONRPC: "2.0", ID: id, Error: fault})
	if err == nil {
		err = c.write(line)
	}
	if err != nil {
		c.log.Warn("a refusal could not be written", "error", err)
	}
}
