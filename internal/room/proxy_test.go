package room_test

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// fault is what a proxy does to the connections through it.
type fault struct {
	stall   bool          // nothing passes, nothing is closed
	deaf    bool          // what the service says is lost, as on a half-open connection
	refuse  bool          // new connections are closed at once
	delay   time.Duration // before each piece the service says
	limit   int           // connections are reset after so many bytes of the service
	dropped bool          // the service gets every request, and its answers cut the connection
	say     string        // new connections get this whatever they ask
}

// proxy stands between a bridge and a service and does what networks do.
type proxy struct {
	net.Listener
	target string

	mu      sync.Mutex
	fault   fault
	changed chan struct{}
	conns   map[net.Conn]bool
	closed  bool
	running sync.WaitGroup
}

func startProxy(tb testing.TB, address, target string) *proxy {
	tb.Helper()
	l, err := (&net.ListenConfig{}).Listen(tb.Context(), "tcp", address)
	if err != nil {
		tb.Fatal(err)
	}
	p := &proxy{Listener: l, target: target, changed: make(chan struct{}), conns: map[net.Conn]bool{}}
	p.running.Go(p.accept)
	tb.Cleanup(func() {
		_ = l.Close()
		p.mu.Lock()
		p.closed = true
		p.mu.Unlock()
		p.cut()
		p.running.Wait()
	})
	return p
}

// set changes the fault, also for connections that are open.
func (p *proxy) set(f fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = f
	close(p.changed)
	p.changed = make(chan struct{})
}

// cut resets every connection.
func (p *proxy) cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for c := range p.conns {
		reset(c)
	}
	close(p.changed) // those that are stalled see it
	p.changed = make(chan struct{})
}

// open counts the connections that are open now.
func (p *proxy) open() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.conns) / 2
}

func (p *proxy) state() (fault, chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.fault, p.changed
}

func reset(c net.Conn) {
	if tcp, ok := c.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	_ = c.Close()
}

func (p *proxy) accept() {
	for {
		c, err := p.Accept()
		if err != nil {
			return
		}
		p.running.Go(func() { p.serve(c) })
	}
}

func (p *proxy) serve(near net.Conn) {
	f, _ := p.state()
	if f.refuse {
		reset(near)
		return
	}
	if f.say != "" {
		_ = near.SetDeadline(time.Now().Add(5 * time.Second))
		_, _ = near.Read(make([]byte, 64<<10))
		_, _ = io.WriteString(near, f.say)
		_ = near.Close()
		return
	}
	far, err := net.Dial("tcp", p.target)
	if err != nil {
		reset(near)
		return
	}
	p.mu.Lock()
	p.conns[near], p.conns[far] = true, true
	if p.closed {
		reset(near)
		reset(far)
	}
	p.mu.Unlock()
	p.running.Go(func() { p.carry(far, near, false) })
	p.carry(near, far, true)
}

// carry moves bytes until either end is closed, and then closes both.
func (p *proxy) carry(dst, src net.Conn, answers bool) {
	defer func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.conns, dst)
		delete(p.conns, src)
		_ = dst.Close()
		_ = src.Close()
	}()
	buf := make([]byte, 16<<10)
	total := 0
	for {
		n, err := src.Read(buf)
		if err != nil {
			return
		}
		pass, ok := p.hold(src, answers)
		if !ok {
			return
		}
		total += n
		f, _ := p.state()
		switch {
		case !pass:
			continue
		case answers && f.dropped:
			reset(dst)
			return
		case answers && f.limit > 0 && total > f.limit:
			_, _ = dst.Write(buf[:n/2])
			reset(dst)
			return
		}
		if _, err := dst.Write(buf[:n]); err != nil {
			return
		}
	}
}

// hold waits while nothing passes. pass is false for what is lost, ok when the
// connection has been cut meanwhile.
func (p *proxy) hold(src net.Conn, answers bool) (pass, ok bool) {
	for {
		f, changed := p.state()
		if !p.alive(src) {
			return false, false
		}
		if answers && f.delay > 0 {
			time.Sleep(f.delay)
		}
		if !f.stall {
			return !answers || !f.deaf, true
		}
		<-changed
	}
}

// alive reports whether src has not been cut.
func (p *proxy) alive(src net.Conn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.closed && p.conns[src]
}
