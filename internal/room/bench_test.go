package room_test

import (
	"context"
	"net/http"
	"slices"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
)

// From the moment a peer sends to the moment a waiting Await returns, the
// peer's request to the hub included.
func BenchmarkAppendToWake(b *testing.B) {
	for _, way := range []string{"Socket", "Polling"} {
		b.Run(way, func(b *testing.B) {
			s := startService(b)
			if way == "Polling" {
				s.noSocket(http.StatusUpgradeRequired)
			}
			ours, peer := s.pair(b)
			w := s.watching(b, ours)
			w.take(b, 1)
			var took []time.Duration
			for b.Loop() {
				began := time.Now()
				woken := make(chan time.Time, 1)
				go func() {
					batch, err := w.queue.Await(b.Context(), w.id, queue.Filter{}, queue.Limit{})
					woken <- time.Now()
					if err == nil {
						err = w.queue.Ack(context.WithoutCancel(b.Context()), batch.Token)
					}
					if err != nil {
						b.Error(err)
					}
				}()
				peer.Say(b, "hello")
				took = append(took, (<-woken).Sub(began))
			}
			slices.Sort(took)
			b.ReportMetric(0, "ns/op") // the percentiles say it
			b.ReportMetric(float64(took[len(took)/2])/1e6, "p50-ms")
			b.ReportMetric(float64(took[len(took)*99/100])/1e6, "p99-ms")
		})
	}
}

// From the opening of a socket that replays 9,000 events to the last of them
// in the queue.
func BenchmarkReplay(b *testing.B) {
	const n = 9000
	s := startService(b)
	s.answer(func(w http.ResponseWriter, r *http.Request) bool {
		recite(w, r, n, "")
		return true
	})
	events := 0
	for b.Loop() {
		w := s.watching(b, &hubtest.Seat{Room: "qs_recited", Member: "m_ours"})
		for w.membership(b, &hubtest.Seat{Room: "qs_recited", Member: "m_ours"}).Fetched < n {
			time.Sleep(time.Millisecond)
		}
		events += n
		b.StopTimer()
		w.stop()
		b.StartTimer()
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
}
