package tools_test

import (
	"strings"
	"testing"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// What a call costs through the bridge, beside the same call of the same
// client without it: the difference is what the bridge adds.
func BenchmarkCall(b *testing.B) {
	r, fixed, _ := answering(b)
	res := `{"content":[{"type":"text","text":"{\n  \"ok\": true\n}"}],"structuredContent":{"ok":true}}`
	fixed.Store(&res)
	raw := params("some_tool", args{"session_id": "qs_1", "member_id": "m_1"})
	call := tools.Call{Method: "tools/call", Tool: "some_tool", Params: raw}
	r.Handle(b.Context(), call) // the connection, and the list it brings
	r.waitNote("notifications/tools/list_changed")
	for _, way := range []struct {
		name string
		call func() error
	}{
		{"through", func() error {
			if a := r.Handle(b.Context(), call); a.Error != nil {
				return a.Error
			}
			return nil
		}},
		{"direct", func() error {
			_, err := r.remote.Call(b.Context(), "tools/call", raw)
			return err
		}},
	} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				if err := way.call(); err != nil {
					b.Fatal(err)
				}
			}
		})
		b.Run(way.name+"_32_at_once", func(b *testing.B) {
			b.SetParallelism(16)
			b.RunParallel(func(pb *testing.PB) {
				for pb.Next() {
					if err := way.call(); err != nil {
						b.Error(err)
					}
				}
			})
		})
	}
}

// From the storing of an event to the return of the bellman_wait it wakes.
func BenchmarkWake(b *testing.B) {
	r := offline(b)
	r.put(memberA, message(1, "first"))
	r.wait(0)
	lease, err := r.queue.Lease(b.Context(), jesse, memberA.Room)
	if err != nil {
		b.Fatal(err)
	}
	done := make(chan int)
	cursor := int64(1)
	for b.Loop() {
		cursor++
		go func() { done <- r.wait(25).Count }()
		if _, err := r.queue.Put(b.Context(), lease, memberA.ID, []queue.Event{message(cursor, "wake up")}, cursor); err != nil {
			b.Fatal(err)
		}
		if n := <-done; n != 1 {
			b.Fatalf("%d events", n)
		}
	}
}

// A batch of fifty events as an answer, read from the queue and acknowledged.
func BenchmarkWaitOf50(b *testing.B) {
	r := offline(b)
	lease := func() queue.Lease {
		r.put(memberA, message(1, "first"))
		r.wait(0)
		l, err := r.queue.Lease(b.Context(), jesse, memberA.Room)
		if err != nil {
			b.Fatal(err)
		}
		return l
	}()
	cursor := int64(1)
	for b.Loop() {
		b.StopTimer()
		var batch []queue.Event
		for range 50 {
			cursor++
			batch = append(batch, message(cursor, strings.Repeat("語 <b> ", 100)))
		}
		if _, err := r.queue.Put(b.Context(), lease, memberA.ID, batch, cursor); err != nil {
			b.Fatal(err)
		}
		b.StartTimer()
		if n := r.wait(0).Count; n != 50 {
			b.Fatalf("%d events", n)
		}
	}
}

func BenchmarkList(b *testing.B) {
	r := offline(b)
	for b.Loop() {
		if a := r.Handle(b.Context(), tools.Call{Method: "tools/list"}); a.Error != nil {
			b.Fatal(a.Error)
		}
	}
}
