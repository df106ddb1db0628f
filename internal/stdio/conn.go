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
	"unicode/utf8"
)

const (
	maxInFlight = 1024 // calls at once; a host that asks for more is told so

	// crossing is how long a written reply can still be recalled by a
	// cancellation that was on its way while we wrote.
	crossing = 2 * time.Minute
	// unread is how close to the end of input a reply must have been written
	// to be taken as not read: the host died with it in the pipe.
	unread = 5 * time.Second

	// maxRefusals is how many refusals may wait for a host that does not read,
	// and patience how long it is then waited for until more are left out: its
	// end of input must be seen.
	maxRefusals = 64
	patience    = 500 * time.Millisecond

	// grace is what calls in flight get at the end of input before they are
	// cancelled; drain is what they get after that, and last what they get to
	// settle once no write is waited for any more.
	grace = 800 * time.Millisecond
	drain = 500 * time.Millisecond
	last  = 200 * time.Millisecond
)

// errEnded is why a line was not written, or not waited for.
var errEnded = errors.New("the connection has ended")

// Handler answers one request or takes one notification, whose Reply is
// ignored and which must not block: nothing is read meanwhile. It is called
// from many goroutines at once; ctx ends when the host cancels the request or
// the connection ends.
type Handler func(ctx context.Context, r *Request) Reply

// Conn is one connection to a host. Make it with New; Notify and Ask may be
// called from any goroutine, before, during and after Run.
type Conn struct {
	in  io.Reader
	log *slog.Logger

	out      io.Writer
	turn     chan struct{} // held by the one line that is being written
	gone     chan struct{} // closed when no write is waited for any more
	over     chan struct{} // closed at the end of the input
	refusals chan struct{} // one for each refusal under way
	deaf     bool          // to refusals; known to whoever reads

	running sync.WaitGroup // calls, recalls, refusals and requests; joined only under mu while !ended

	mu      sync.Mutex
	ended   bool
	calls   map[string]*call
	settled []*call // written and recallable, oldest first
	asked   uint64  // requests of ours so far
	awaited map[string]chan answer
}

// New returns a connection that reads from in and writes to out.
func New(in io.Reader, out io.Writer, log *slog.Logger) *Conn {
	return &Conn{
		in: in, out: out, log: log, calls: map[string]*call{}, awaited: map[string]chan answer{},
		turn: make(chan struct{}, 1), gone: make(chan struct{}), over: make(chan struct{}), refusals: make(chan struct{}, maxRefusals),
	}
}

// Notify writes a notification to the host; params is encoded as JSON. It
// blocks while the host does not read, until Run returns; from then on it only
// returns an error.
func (c *Conn) Notify(method string, params any) error {
	line, err := encode(wireNotification{"2.0", method, params})
	if err != nil {
		return fmt.Errorf("encode %s: %w", method, err)
	}
	_, err = c.write(line, func() bool { return true })
	return err
}

// write writes one line in one piece, unless begin, asked when its turn has
// come, says that it is not wanted any more. begun tells whether any of it may
// have left. A write that the operating system holds cannot be interrupted: at
// the end of the connection it is left behind, and reported as failed.
func (c *Conn) write(line []byte, begin func() bool) (begun bool, err error) {
	select {
	case <-c.gone:
		return false, fmt.Errorf("write to host: %w", errEnded)
	default:
	}
	select {
	case c.turn <- struct{}{}:
	case <-c.gone:
		return false, fmt.Errorf("write to host: %w", errEnded)
	}
	if !begin() {
		<-c.turn
		return false, nil
	}
	done := make(chan error, 1)
	go func() {
		n, err := c.out.Write(line)
		if err == nil && n < len(line) {
			err = io.ErrShortWrite
		}
		<-c.turn
		done <- err
	}()
	select {
	case err = <-done:
	case <-c.gone:
		err = errEnded
	}
	if err != nil {
		return true, fmt.Errorf("write to host: %w", err)
	}
	return true, nil
}

// Run reads and answers until the input ends, ctx ends or a read fails, and
// returns nil in the first two cases. It is called once. At the end of input
// calls in flight have a moment to answer; then they are cancelled, and Run
// returns within 1.5 s. Replies that the host has not taken by then are settled
// as failed; a handler that ignores its ctx is left behind.
func (c *Conn) Run(ctx context.Context, h Handler) error {
	callCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	abandon := sync.OnceFunc(func() { close(c.gone) })
	defer abandon()
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
	if !wait(done, drain) {
		abandon()
		wait(done, last)
	}
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
		if !utf8.Valid(line) { // what is passed on must be JSON for its reader too
			line = bytes.ToValidUTF8(line, []byte(string(utf8.RuneError)))
		}
		if len(bytes.TrimSpace(line)) > 0 {
			c.take(ctx, h, line)
		}
	}
}

// take handles one line. What must keep its order is done here, the rest in a
// goroutine of its own.
func (c *Conn) take(ctx context.Context, h Handler, line []byte) {
	req, reply, fault := decode(line)
	switch {
	case fault != nil:
		var id json.RawMessage
		if req != nil {
			id = req.ID
		}
		c.refuse(id, fault)
	case reply != nil:
		c.answered(req.ID, *reply)
	case req.ID == nil && req.Method == "notifications/cancelled":
		c.cancel(req.Params)
	case req.ID == nil:
		h(ctx, req)
	default:
		c.start(ctx, h, req)
	}
}

// refuse answers with an error, without holding up the reading: a host that
// writes and does not read must still be seen to end its input. It is called
// by whoever reads.
func (c *Conn) refuse(id json.RawMessage, fault *Error) {
	if id == nil {
		id = json.RawMessage("null")
	}
	if !c.admitRefusal() {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.ended {
		return
	}
	c.running.Go(func() {
		defer func() { <-c.refusals }()
		line, err := encode(wireReply{JSONRPC: "2.0", ID: id, Error: fault})
		if err == nil {
			_, err = c.write(line, func() bool { return true })
		}
		if err != nil {
			c.log.Warn("a refusal could not be written", "error", err)
		}
	})
}

// admitRefusal makes room for a refusal, waiting for a host that reads slowly,
// once for all that it leaves unread.
func (c *Conn) admitRefusal() bool {
	select {
	case c.refusals <- struct{}{}:
		c.deaf = false
		return true
	default:
	}
	if c.deaf {
		return false
	}
	t := time.NewTimer(patience)
	defer t.Stop()
	select {
	case c.refusals <- struct{}{}:
		return true
	case <-c.gone:
	case <-t.C:
		c.deaf = true
		c.log.Warn("the host does not read; refusals are left out")
	}
	return false
}
