package queue_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// Whatever a file holds, of our schema or not, opening and using it ends in
// results and errors: no panic, no hang, and never events twice in one claim.
func FuzzStoredFile(f *testing.F) {
	clean, err := os.ReadFile(filled(f, f.TempDir()))
	if err != nil {
		f.Fatal(err)
	}
	for _, at := range []uint32{0, 18, 28, 44, 60, 68, 100, 4096, 5000, 20_000, 40_000, uint32(len(clean) - 20)} {
		f.Add(at, []byte{0xff, 0x00, 0x7f})
	}
	f.Add(uint32(4096*8), []byte("\x0d\x00\x00\x00\x05\x0f\xff"))
	f.Fuzz(func(t *testing.T, at uint32, bytes []byte) {
		data := append([]byte(nil), clean...)
		copy(data[int(at)%len(data):], bytes)
		path := filepath.Join(t.TempDir(), "queue.db")
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		use(t, path)
	})
}

// Rows that our own schema admits and our own code never writes do no harm.
func FuzzStoredRows(f *testing.F) {
	clean, err := os.ReadFile(filled(f, f.TempDir()))
	if err != nil {
		f.Fatal(err)
	}
	columns := []string{
		"event.cursor", "event.sort_key", "event.size", "event.ambient", "event.redelivered", "event.claim",
		"member.fetched", "member.last_key", "member.touched", "member.ended_at", "member.events", "member.bytes", "member.urgent",
		"member.head", "member.first", "room.owner", "room.epoch", "room.paused_events", "total.events", "total.revision", "body.at",
	}
	for i := range columns {
		f.Add(uint8(i), int64(-1))
		f.Add(uint8(i), int64(1)<<62)
	}
	f.Fuzz(func(t *testing.T, column uint8, value int64) {
		path := filepath.Join(t.TempDir(), "queue.db")
		if err := os.WriteFile(path, clean, 0o600); err != nil {
			t.Fatal(err)
		}
		db := raw(t, path)
		name := columns[int(column)%len(columns)]
		table, field, _ := strings.Cut(name, ".")
		// One row only: a column of a key cannot hold one value twice.
		_, _ = db.Exec("update "+table+" set "+field+" = ? where "+field+" is (select max("+field+") from "+table+")", value)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		use(t, path)
	})
}

// use does everything once with the file at path.
func use(t *testing.T, path string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	q, err := queue.Open(ctx, path, slog.New(slog.DiscardHandler))
	if err != nil {
		return
	}
	_, _ = q.Touch(ctx, me, seat, 0)
	if l, err := q.Lease(ctx, me, seat.Room); err == nil {
		_, _ = q.Put(ctx, l, seat.ID, []queue.Event{event(6), event(7)}, 7)
	}
	if s, err := q.BeginSync(ctx, me, seat); err == nil {
		_ = s.Done(ctx, 6, 8)
	}
	_, _ = q.Memberships(ctx, me)
	_, _ = q.Pending(ctx, me, queue.Filter{})
	_, _ = q.Next(ctx, me, seat)
	for range 3 {
		b, err := q.Claim(ctx, me, queue.Filter{}, queue.Limit{Events: 50})
		if err != nil || b.Token == "" {
			break
		}
		seen := make(map[int64]bool)
		for _, d := range b.Deliveries {
			if d.Member == seat && seen[d.Event.Cursor] {
				t.Errorf("event %d twice in one claim", d.Event.Cursor)
			}
			seen[d.Event.Cursor] = true
		}
		_ = q.Ack(ctx, b.Token)
		_ = q.Recall(ctx, b.Token)
	}
	_ = q.Prune(ctx)
	if err := q.Close(); err != nil && errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("close hangs: %v", err)
	}
	if ctx.Err() != nil {
		t.Error("it hangs")
	}
}
