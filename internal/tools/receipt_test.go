package tools_test

import (
	"testing"
	"time"
)

// A host that answers a reply at once is not told that what it has just read
// still waits, though the queue has yet to note it; nor is it kept waiting for a
// note that does not come.
func TestWhatAHostHasJustReadDoesNotWait(t *testing.T) {
	r, fixed, _ := answering(t)
	page := `{"content":[{"type":"text","text":"{}"}],"structuredContent":{"events":[],"cursor":1,"session_status":"active"}}`
	fixed.Store(&page)
	r.put(memberA, message(1, "x"))
	sync := args{"session_id": memberA.Room, "member_id": memberA.ID, "since_cursor": 0}
	a := r.begin(t.Context(), "bellman_sync", sync)
	a.Receipt.Leaving()
	looked, noticed := make(chan waited, 1), make(chan result, 1)
	go func() { looked <- r.wait(0) }()
	go func() { noticed <- r.call("some_tool", nil) }()
	time.Sleep(50 * time.Millisecond) // the queue is slow
	if err := a.Receipt.Written(t.Context()); err != nil {
		t.Fatal(err)
	}
	if w := <-looked; w.Count != 0 || w.Remaining != 0 {
		t.Errorf("the next wait says %+v", w)
	}
	if got := <-noticed; len(got.texts) != 1 {
		t.Errorf("the next call says %q", got.texts)
	}

	r.put(memberA, message(2, "y"))
	sync["since_cursor"] = 1
	stuck := r.begin(t.Context(), "bellman_sync", sync)
	stuck.Receipt.Leaving()
	if w := r.wait(0); w.Count != 0 || w.Remaining != 1 {
		t.Errorf("while a reply cannot be noted: %+v", w)
	}
	if err := stuck.Receipt.Lost(t.Context(), true); err != nil {
		t.Fatal(err)
	}
	if w := r.wait(0); w.Count != 1 || w.Remaining != 0 {
		t.Errorf("once it is lost: %+v", w)
	}
}
