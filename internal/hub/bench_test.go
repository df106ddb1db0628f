package hub_test

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// onDisk keeps a hub's state where a real one would.
func onDisk(b *testing.B) func(*hub.Config) {
	b.Helper()
	dir := b.TempDir()
	return func(c *hub.Config) { c.Data = dir }
}

func benchPair(b *testing.B, s *hubtest.Server) *hubtest.Seat {
	b.Helper()
	a := s.As(hubtest.Jesse).Open(b, nil)
	s.As(hubtest.Peer).Join(b, a.Code)
	return a
}

// BenchmarkSendOneRoom sends into one room, one after the other, each durable
// before it is confirmed.
func BenchmarkSendOneRoom(b *testing.B) {
	s := hubtest.Start(b, onDisk(b))
	a := benchPair(b, s)
	b.ResetTimer()
	for b.Loop() {
		a.Send(b, "message", args{"text": "ring"})
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}

// BenchmarkSendHundredRooms sends into a hundred rooms at once.
func BenchmarkSendHundredRooms(b *testing.B) {
	s := hubtest.Start(b, onDisk(b))
	seats := make([]*hubtest.Seat, 100)
	for i := range seats {
		seats[i] = benchPair(b, s)
	}
	var next atomic.Int64
	b.SetParallelism(50)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		seat := seats[next.Add(1)%int64(len(seats))]
		for pb.Next() {
			seat.Send(b, "message", args{"text": "ring"})
		}
	})
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "sends/s")
}

// BenchmarkSyncTenThousand reads a room of ten thousand events from the
// start.
func BenchmarkSyncTenThousand(b *testing.B) {
	s := hubtest.Start(b)
	a := s.As(hubtest.Jesse).Open(b, nil)
	p := s.As(hubtest.Peer).Join(b, a.Code)
	for range 10000 {
		a.Send(b, "message", args{"text": "ring"})
	}
	b.ResetTimer()
	for b.Loop() {
		if got := p.Sync(b, p.Cursor); len(got.Events) != 10000 {
			b.Fatalf("%d events", len(got.Events))
		}
	}
}

// BenchmarkIdleSockets reports the memory of a thousand sockets on which
// nothing happens.
func BenchmarkIdleSockets(b *testing.B) {
	s := hubtest.Start(b)
	a := benchPair(b, s)
	before := heap()
	const sockets = 1000
	for b.Loop() {
		var wg sync.WaitGroup
		conns := make([]*websocket.Conn, sockets)
		for i := range conns {
			wg.Go(func() {
				conn, err := dialBench(b, s, a)
				if err != nil {
					b.Error(err)
				}
				conns[i] = conn
			})
			if i%50 == 0 {
				wg.Wait()
			}
		}
		wg.Wait()
		// Both ends live in this process, so this is above the hub's share.
		b.ReportMetric(float64(heap()-before)/(1<<20), "MiB")
		for _, conn := range conns {
			if conn != nil {
				_ = conn.CloseNow()
			}
		}
	}
}

func dialBench(b *testing.B, s *hubtest.Server, a *hubtest.Seat) (*websocket.Conn, error) {
	b.Helper()
	ctx, cancel := context.WithTimeout(b.Context(), 30*time.Second)
	defer cancel()
	conn, _, err := websocket.Dial(ctx, "ws"+s.URL[len("http"):]+"/ws?cursor=1&session="+a.Room, //nolint:bodyclose // The library owns it.
		&websocket.DialOptions{HTTPHeader: map[string][]string{"Authorization": {"Bearer " + a.Token}}})
	return conn, err
}

func heap() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

// BenchmarkColdStart opens a hub with ten thousand rooms on disk and answers
// the first call.
func BenchmarkColdStart(b *testing.B) {
	dir := b.TempDir()
	change := func(c *hub.Config) {
		c.Data, c.Keys = dir, map[string]hub.Identity{}
		for i := range 10 { // A plan allows five thousand rooms a month for each person.
			c.Keys[fmt.Sprint("key-", i)] = hub.Identity{UserID: fmt.Sprint("u_", i), Plan: "team", Role: "member", Label: "bench"}
		}
	}
	s := hubtest.Start(b, change)
	var wg sync.WaitGroup
	gate := make(chan struct{}, 64)
	for i := range 10000 {
		gate <- struct{}{}
		wg.Go(func() {
			defer func() { <-gate }()
			call := args{"manifest": args{"room": fmt.Sprint(i), "preset": "pair"}, "brief": hubtest.Brief("x")}
			if r, err := s.As(fmt.Sprint("key-", i%10)).Call(b.Context(), bellman.ToolStart, call); err != nil || r.IsError {
				b.Errorf("start: %v %s", err, r.Text)
			}
		})
	}
	wg.Wait()
	s.Stop(b)
	b.ResetTimer()
	for b.Loop() {
		s := hubtest.Start(b, change)
		s.As("key-0").Open(b, nil)
		s.Stop(b)
	}
}
