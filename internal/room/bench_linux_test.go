package room_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// meter is a service that accepts any room's socket and counts those open, or
// where it offers none, holds polls and counts the rooms polled.
type meter struct {
	polled  bool
	address string
	open    atomic.Int64
	asked   sync.Map // rooms that were polled
	server  *http.Server
	done    chan struct{}
}

func (m *meter) start(tb testing.TB) {
	tb.Helper()
	l := listenAgain(tb, m.address)
	m.address = l.Addr().String()
	life, end := context.WithCancel(context.WithoutCancel(tb.Context()))
	m.done = make(chan struct{})
	m.server = &http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		m.serve(w, r.WithContext(life))
	})}
	m.server.RegisterOnShutdown(end)
	server, done := m.server, m.done
	go func() {
		defer close(done)
		_ = server.Serve(l)
	}()
}

func (m *meter) serve(w http.ResponseWriter, r *http.Request) {
	id, poll := called(r)
	switch {
	case r.URL.Path == "/ws" && m.polled:
		w.WriteHeader(http.StatusUpgradeRequired)
	case r.URL.Path == "/ws":
		m.open.Add(1)
		defer m.open.Add(-1)
		recite(w, r, 0, "")
	case poll:
		if _, again := m.asked.LoadOrStore(polledRoom(r), true); !again {
			m.open.Add(1) // and stays: polls come and go
		}
		select {
		case <-time.After(25 * time.Second):
		case <-r.Context().Done():
		}
		replyTool(w, id, syncActive)
	default:
		greet(w, r)
	}
}

// polledRoom is the room a bellman_sync asks about.
func polledRoom(r *http.Request) string {
	var m struct {
		Params struct {
			Arguments struct {
				Room string `json:"session_id"`
			} `json:"arguments"`
		} `json:"params"`
	}
	_ = json.NewDecoder(r.Body).Decode(&m)
	return m.Params.Arguments.Room
}

// end ends every request, and with it every socket.
func (m *meter) end(tb testing.TB) {
	tb.Helper()
	_ = m.server.Shutdown(context.WithoutCancel(tb.Context()))
	<-m.done
}

// stop drops every socket.
func (m *meter) stop(tb testing.TB) {
	tb.Helper()
	m.end(tb)
	m.reach(tb, 0)
}

// reach waits until n sockets are open and returns how long that took.
func (m *meter) reach(tb testing.TB, n int64) time.Duration {
	tb.Helper()
	began := time.Now()
	for m.open.Load() != n {
		if time.Since(began) > time.Minute {
			tb.Fatalf("%d of %d sockets", m.open.Load(), n)
		}
		time.Sleep(10 * time.Millisecond)
	}
	return time.Since(began)
}

// A process that watches many rooms: what it costs at rest, how long until all
// are watched, and how long after the hub restarted.
func BenchmarkWatching(b *testing.B) {
	for _, row := range []struct {
		name   string
		rooms  int64
		polled bool
	}{{"10", 10, false}, {"1000", 1000, false}, {"1000ByPoll", 1000, true}} {
		b.Run(row.name, func(b *testing.B) {
			for b.Loop() {
				watchMany(b, row.rooms, row.polled)
			}
			b.ReportMetric(0, "ns/op")
		})
	}
}

func watchMany(b *testing.B, rooms int64, polled bool) {
	b.Helper()
	m := &meter{address: "127.0.0.1:0", polled: polled}
	m.start(b)
	server := "http://" + m.address + "/mcp"
	dir := b.TempDir()
	q, err := queue.Open(b.Context(), filepath.Join(dir, "queue.db"), slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	id := queue.Identity{Server: server, User: jesse}
	for i := range rooms {
		if _, err := q.Touch(b.Context(), id, queue.Member{Room: fmt.Sprint("qs_", i), ID: "m_ours"}, 0); err != nil {
			b.Fatal(err)
		}
	}
	if err := q.Close(); err != nil {
		b.Fatal(err)
	}
	p := spawn(b, server, dir)
	b.ReportMetric(m.reach(b, rooms).Seconds(), "start-s")
	time.Sleep(5 * time.Second) // let it come to rest
	before := p.cpu(b)
	time.Sleep(10 * time.Second)
	b.ReportMetric((p.cpu(b)-before).Seconds()/10*100, "idle-cpu-%")
	b.ReportMetric(p.resident(b), "MiB")
	b.ReportMetric(p.goroutines(b), "goroutines")
	if polled {
		_ = p.Kill()
		m.end(b)
		return
	}
	m.stop(b)
	m.start(b)
	b.ReportMetric(m.reach(b, rooms).Seconds(), "restart-s")
	_ = p.Kill()
	m.stop(b)
}

func (c *child) goroutines(tb testing.TB) float64 {
	tb.Helper()
	_, _ = c.in.Write([]byte("\n"))
	line, err := c.out.ReadString('\n')
	n, errNumber := strconv.ParseFloat(strings.TrimSpace(line), 64)
	if err != nil || errNumber != nil {
		tb.Fatalf("goroutines: %q, %v", line, err)
	}
	return n
}

// resident is the child's memory in MiB.
func (c *child) resident(tb testing.TB) float64 {
	tb.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", c.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(data), "VmRSS:")
	kib, err := strconv.ParseFloat(strings.Fields(rest)[0], 64)
	if err != nil {
		tb.Fatal(err)
	}
	return kib / 1024
}

// cpu is the time the child has used of processors, to 10 ms.
func (c *child) cpu(tb testing.TB) time.Duration {
	tb.Helper()
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", c.Pid))
	if err != nil {
		tb.Fatal(err)
	}
	fields := strings.Fields(string(data[strings.LastIndexByte(string(data), ')')+1:]))
	user, errUser := strconv.ParseInt(fields[11], 10, 64)
	system, errSystem := strconv.ParseInt(fields[12], 10, 64)
	if errUser != nil || errSystem != nil {
		tb.Fatalf("stat: %s", data)
	}
	return time.Duration(user+system) * 10 * time.Millisecond
}
