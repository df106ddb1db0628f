package queue_test

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// benched is a queue without bounds, its room leased.
func benched(b *testing.B, dir string) (*queue.Queue, queue.Lease) {
	b.Helper()
	settings := childSettings
	settings.Lease, settings.Beat, settings.Keep = 0, 0, 0
	q, err := queue.OpenWith(b.Context(), filepath.Join(dir, "queue.db"), slog.New(slog.DiscardHandler), settings)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		if err := q.Close(); err != nil {
			b.Error(err)
		}
	})
	if _, err := q.Touch(b.Context(), me, seat, 0); err != nil {
		b.Fatal(err)
	}
	l, err := q.Lease(b.Context(), me, seat.Room)
	if err != nil {
		b.Fatal(err)
	}
	return q, l
}

// body is as long as a message usually is.
var body = json.RawMessage(`{"text":"` + strings.Repeat("x", 580) + `"}`)

// batch is n events from cursor on.
func batch(cursor int64, n int) []queue.Event {
	events := make([]queue.Event, n)
	for i := range events {
		events[i] = queue.Event{Cursor: cursor + int64(i), Type: "message", At: time.UnixMicro(cursor + int64(i)), Body: body}
	}
	return events
}

// putBatch puts n events from cursor on and returns the cursor after them.
func putBatch(b *testing.B, q *queue.Queue, l queue.Lease, cursor int64, n int) int64 {
	b.Helper()
	if _, err := q.Put(b.Context(), l, seat.ID, batch(cursor, n), cursor+int64(n)-1); err != nil {
		b.Fatal(err)
	}
	return cursor + int64(n)
}

// spread reports the median and the 99th percentile of what was measured.
func spread(b *testing.B, took []time.Duration) {
	b.Helper()
	slices.Sort(took)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(took[(len(took)-1)*p/100].Nanoseconds())/1000, "p"+strconv.Itoa(p)+"-µs")
	}
}

// One event, committed: 150 µs.
func BenchmarkPut1(b *testing.B) {
	q, l := benched(b, b.TempDir())
	cursor := int64(1)
	var took []time.Duration
	for b.Loop() {
		start := time.Now()
		cursor = putBatch(b, q, l, cursor, 1)
		took = append(took, time.Since(start))
	}
	spread(b, took)
}

// Events in batches of 500: 50,000 a second.
func BenchmarkPut500(b *testing.B) {
	q, l := benched(b, b.TempDir())
	cursor := int64(1)
	for b.Loop() {
		cursor = putBatch(b, q, l, cursor, 500)
	}
	b.ReportMetric(float64(cursor-1)/b.Elapsed().Seconds(), "events/s")
}

// A batch that is there already.
func BenchmarkPutRepeat(b *testing.B) {
	q, l := benched(b, b.TempDir())
	putBatch(b, q, l, 1, 500)
	for b.Loop() {
		putBatch(b, q, l, 1, 500)
	}
}

// Fifty of so many: 3 ms, and flat. The last also measures memory and disk.
func BenchmarkClaim50(b *testing.B) {
	for _, queued := range []int{1_000, 100_000, 1_000_000} {
		b.Run(fmt.Sprint("of=", queued), func(b *testing.B) {
			dir := b.TempDir()
			q, l := benched(b, dir)
			cursor := int64(1)
			for cursor <= int64(queued) {
				cursor = putBatch(b, q, l, cursor, 500)
			}
			var claims, acks []time.Duration
			for b.Loop() {
				start := time.Now()
				got, err := q.Claim(b.Context(), me, queue.Filter{}, queue.Limit{Events: 50})
				claims = append(claims, time.Since(start))
				if err != nil || len(got.Deliveries) != 50 || got.Remaining != queued-50 {
					b.Fatalf("%d of %d: %v", len(got.Deliveries), got.Remaining, err)
				}
				b.StopTimer()
				start = time.Now()
				if err := q.Ack(b.Context(), got.Token); err != nil {
					b.Fatal(err)
				}
				acks = append(acks, time.Since(start))
				cursor = putBatch(b, q, l, cursor, 50)
				b.StartTimer()
			}
			spread(b, claims)
			slices.Sort(acks)
			b.ReportMetric(float64(acks[len(acks)/2].Microseconds()), "ack-p50-µs")
			b.ReportMetric(diskUse(b, dir)/float64(queued), "disk-B/event")
			b.ReportMetric(resident(b)/(1<<20), "rss-MiB")
		})
	}
}

func diskUse(b *testing.B, dir string) float64 {
	b.Helper()
	var sum int64
	for _, name := range []string{"queue.db", "queue.db-wal"} {
		if info, err := os.Stat(filepath.Join(dir, name)); err == nil {
			sum += info.Size()
		}
	}
	return float64(sum)
}

// resident is the memory of this process, SQLite's included, where the system
// tells.
func resident(b *testing.B) float64 {
	b.Helper()
	runtime.GC()
	text, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		return 0
	}
	pages, err := strconv.ParseFloat(strings.Fields(string(text))[1], 64)
	if err != nil {
		b.Fatal(err)
	}
	return pages * float64(os.Getpagesize())
}

// From the start of a Put to the return of a waiter in the same process: 1 ms.
func BenchmarkWake(b *testing.B) {
	q, l := benched(b, b.TempDir())
	woken := make(chan time.Time)
	waiting := make(chan struct{})
	ctx, cancel := context.WithCancel(b.Context())
	go func() {
		defer close(woken)
		for {
			select {
			case waiting <- struct{}{}:
			case <-ctx.Done():
				return
			}
			got, err := q.Await(ctx, me, queue.Filter{}, queue.Limit{Events: 50})
			if err != nil {
				return
			}
			woken <- time.Now()
			_ = q.Ack(ctx, got.Token)
		}
	}()
	var took []time.Duration
	for cursor := int64(1); b.Loop(); {
		b.StopTimer()
		<-waiting
		time.Sleep(time.Millisecond) // it waits by now
		b.StartTimer()
		start := time.Now()
		cursor = putBatch(b, q, l, cursor, 1)
		took = append(took, (<-woken).Sub(start))
	}
	cancel()
	for range woken { // It ends when the waiter has left.
	}
	spread(b, took)
}

// From a Put in another process to the return of a waiter: 120 ms.
func BenchmarkWakeAcross(b *testing.B) {
	dir := b.TempDir()
	q, l := benched(b, dir)
	if err := q.Unlease(b.Context(), l); err != nil {
		b.Fatal(err)
	}
	other := spawn(b, dir, "put")
	other.line(b)
	var took []time.Duration
	for b.Loop() {
		go func() {
			time.Sleep(30 * time.Millisecond) // the waiter waits by now
			_, _ = other.stdin.Write([]byte("put\n"))
		}()
		got, err := q.Await(b.Context(), me, queue.Filter{}, queue.Limit{Events: 50})
		now := time.Now()
		if err != nil {
			b.Fatal(err)
		}
		ns, err := strconv.ParseInt(other.line(b), 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		took = append(took, now.Sub(time.Unix(0, ns)))
		if err := q.Ack(b.Context(), got.Token); err != nil {
			b.Fatal(err)
		}
	}
	_ = other.stdin.Close()
	spread(b, took)
}

// Opening a file of so many memberships and listing them.
func BenchmarkOpen(b *testing.B) {
	for _, memberships := range []int{0, 1000} {
		b.Run(fmt.Sprint("memberships=", memberships), func(b *testing.B) {
			path := filepath.Join(b.TempDir(), "queue.db")
			q, err := queue.Open(b.Context(), path, slog.New(slog.DiscardHandler))
			if err != nil {
				b.Fatal(err)
			}
			for i := range memberships {
				m := queue.Member{Room: fmt.Sprint("qs_", i), ID: fmt.Sprint("m_", i)}
				if _, err := q.Touch(b.Context(), me, m, 0); err != nil {
					b.Fatal(err)
				}
			}
			for b.Loop() {
				b.StopTimer()
				if err := q.Close(); err != nil {
					b.Fatal(err)
				}
				b.StartTimer()
				if q, err = queue.Open(b.Context(), path, slog.New(slog.DiscardHandler)); err != nil {
					b.Fatal(err)
				}
				if list, err := q.Memberships(b.Context(), me); err != nil || len(list) != memberships {
					b.Fatalf("%d memberships: %v", len(list), err)
				}
			}
			if err := q.Close(); err != nil {
				b.Fatal(err)
			}
		})
	}
}
