package hub_test

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// Two hundred long polls and two hundred sockets on one room with twenty
// writers: every reader sees the same events in the same order and misses
// none.
func TestManyReadersOneOrder(t *testing.T) {
	const readers, writers, each = 200, 20, 2
	s := hubtest.Start(t)
	lead := s.As(hubtest.Jesse).Open(t, swarm)
	reader := s.As(hubtest.Outsider).Join(t, lead.Invite(t, "observer"))
	seats := make([]*hubtest.Seat, writers)
	for i := range seats {
		seats[i] = s.As(hubtest.Peer).Join(t, lead.Code)
	}
	from := seats[writers-1].Cursor
	const events = writers * each
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Second)
	defer cancel()

	orders := make([]string, 2*readers)
	var wg sync.WaitGroup
	for i := range readers {
		wg.Go(func() {
			order, err := pollAll(ctx, reader, from, events)
			if err != nil {
				t.Errorf("poll %d: %v", i, err)
			}
			orders[i] = order
		})
		conn, _, err := dial(t, s, hubtest.Outsider, reader.Room, itoa(from))
		if err != nil {
			t.Fatal(err)
		}
		wg.Go(func() {
			order, err := readAll(ctx, conn, from, events)
			if err != nil {
				t.Errorf("socket %d: %v", i, err)
			}
			orders[readers+i] = order
		})
	}
	for w, seat := range seats {
		wg.Go(func() {
			for n := range each {
				r, err := seat.Call(ctx, bellman.ToolSend, sending(seat, "message", args{"text": fmt.Sprintf("%d-%d", w, n)}))
				if err != nil || r.IsError {
					t.Errorf("writer %d: %v %s", w, err, r.Text)
				}
			}
		})
	}
	wg.Wait()
	for i, order := range orders {
		if order != orders[0] {
			t.Fatalf("reader %d saw %.200s, reader 0 saw %.200s", i, order, orders[0])
		}
	}
}

// note adds an event to what a reader has seen.
func note(order *string, cursor *int64, e bellman.Event) error {
	if e.Cursor != *cursor+1 {
		return fmt.Errorf("cursor %d after %d", e.Cursor, *cursor)
	}
	*cursor = e.Cursor
	*order += string(e.Payload) + "\n"
	return nil
}

func pollAll(ctx context.Context, seat *hubtest.Seat, cursor int64, events int64) (order string, err error) {
	end := cursor + events
	for cursor < end {
		r, err := seat.Call(ctx, bellman.ToolSync, seat.Ref().With(args{"since_cursor": cursor, "wait_seconds": 25}))
		if err != nil {
			return "", err
		}
		var got bellman.SyncResult
		if err := json.Unmarshal(r.Structured, &got); err != nil {
			return "", fmt.Errorf("%s: %w", r.Text, err)
		}
		for _, e := range got.Events {
			if err := note(&order, &cursor, e.Data); err != nil {
				return "", err
			}
		}
	}
	return order, nil
}

func readAll(ctx context.Context, conn *websocket.Conn, cursor int64, events int64) (order string, err error) {
	end := cursor + events
	for cursor < end {
		_, frame, err := conn.Read(ctx)
		if err != nil {
			return "", err
		}
		var e bellman.Event
		if err := json.Unmarshal(frame, &e); err != nil {
			return "", err
		}
		if err := note(&order, &cursor, e); err != nil {
			return "", err
		}
	}
	return order, nil
}
