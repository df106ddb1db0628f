// Package journaltest says in tests what every journal engine promises. A new
// engine adds a constructor and nothing else. No program imports it.
package journaltest

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/journal"
)

// Open opens an engine over state that is kept under a name: the same name
// again, after the first was closed, is the same state.
type Open func(tb testing.TB, name string) (engine journal.Journal, closeEngine func())

// Run runs the suite.
func Run(t *testing.T, open Open) {
	t.Helper()
	for _, c := range []struct {
		name string
		test func(t *testing.T, open Open)
	}{
		{"AppendAndRead", appendAndRead},
		{"CompareAndAppend", compareAndAppend},
		{"RoomsAreApart", roomsAreApart},
		{"OneOfManyWins", oneOfManyWins},
		{"Watch", watch},
		{"WatchEnds", watchEnds},
		{"WatchMissesNothing", watchMissesNothing},
		{"Marks", marks},
		{"MarksAreAtomic", marksAreAtomic},
		{"Forget", forget},
		{"Reopen", reopen},
	} {
		t.Run(c.name, func(t *testing.T) { c.test(t, open) })
	}
}

func start(t *testing.T, open Open) journal.Journal { //nolint:ireturn // The suite is about whatever engine it is given.
	t.Helper()
	j, closeEngine := open(t, "state")
	t.Cleanup(closeEngine)
	return j
}

func entry(text string, marks ...journal.Mark) journal.Entry {
	return journal.Entry{Body: []byte(text), Marks: marks}
}

func mustAppend(t *testing.T, j journal.Journal, room string, expected int64, e journal.Entry) {
	t.Helper()
	if err := j.Append(t.Context(), room, expected, e); err != nil {
		t.Fatalf("append to %s after %d: %v", room, expected, err)
	}
}

func mustRead(t *testing.T, j journal.Journal, room string, from int64, limit int) []string {
	t.Helper()
	entries, err := j.Read(t.Context(), room, from, limit)
	if err != nil {
		t.Fatalf("read %s from %d: %v", room, from, err)
	}
	bodies := make([]string, len(entries))
	for i, e := range entries {
		if e.Position != from+int64(i)+1 {
			t.Errorf("entry %d of %s from %d has position %d", i, room, from, e.Position)
		}
		bodies[i] = string(e.Body)
	}
	return bodies
}

// What is appended is read back in order, from anywhere, in pages; an unknown
// room is empty.
func appendAndRead(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	if got := mustRead(t, j, "a", 0, 10); len(got) != 0 {
		t.Errorf("unknown room: %v", got)
	}
	want := []string{"one", "", "three\x00"}
	for i, text := range want {
		mustAppend(t, j, "a", int64(i), entry(text))
		if got := mustRead(t, j, "a", 0, 10); !slices.Equal(got, want[:i+1]) {
			t.Errorf("after %d: %q", i+1, got)
		}
	}
	if got := mustRead(t, j, "a", 1, 1); !slices.Equal(got, want[1:2]) {
		t.Errorf("page of one after 1: %q", got)
	}
	if got := mustRead(t, j, "a", 3, 10); len(got) != 0 {
		t.Errorf("past the end: %q", got)
	}
}

// An append names the position it follows, and any other is a conflict that
// changes nothing, be it too low or too high.
func compareAndAppend(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	mustAppend(t, j, "a", 0, entry("one"))
	for _, expected := range []int64{0, 2, 5} {
		if err := j.Append(t.Context(), "a", expected, entry("wrong", journal.Mark{Space: "s", Key: "k"})); !errors.Is(err, journal.ErrConflict) {
			t.Errorf("append after %d: %v, want a conflict", expected, err)
		}
	}
	if err := j.Append(t.Context(), "b", 1, entry("wrong")); !errors.Is(err, journal.ErrConflict) {
		t.Errorf("append after 1 in an empty room: %v, want a conflict", err)
	}
	if got := mustRead(t, j, "a", 0, 10); !slices.Equal(got, []string{"one"}) {
		t.Errorf("log %q", got)
	}
	if found, err := j.Find(t.Context(), "s", "k", 0); err != nil || len(found) != 0 {
		t.Errorf("a refused append left marks: %v %v", found, err)
	}
}

// Positions of one room say nothing about another.
func roomsAreApart(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	mustAppend(t, j, "a", 0, entry("a1"))
	mustAppend(t, j, "A", 0, entry("A1"))
	mustAppend(t, j, "a", 1, entry("a2"))
	if a, b := mustRead(t, j, "a", 0, 10), mustRead(t, j, "A", 0, 10); len(a) != 2 || len(b) != 1 {
		t.Errorf("logs %q and %q", a, b)
	}
}

// Of many writers at one position exactly one wins; those who read on and try
// again all get in.
func oneOfManyWins(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	const writers, each = 8, 10
	var wg sync.WaitGroup
	for w := range writers {
		wg.Go(func() {
			for i := range each {
				if err := insist(t.Context(), j, "a", entry(fmt.Sprintf("%d-%d", w, i))); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	got := mustRead(t, j, "a", 0, 1000)
	slices.Sort(got)
	if len(got) != writers*each || len(slices.Compact(got)) != writers*each {
		t.Errorf("%d entries, want %d different ones", len(got), writers*each)
	}
}

// insist appends e wherever the log ends.
func insist(ctx context.Context, j journal.Journal, room string, e journal.Entry) error {
	for at := int64(0); ; {
		err := j.Append(ctx, room, at, e)
		if !errors.Is(err, journal.ErrConflict) {
			return err
		}
		entries, err := j.Read(ctx, room, at, 1000)
		if err != nil {
			return err
		}
		at += int64(len(entries))
	}
}

// A watch returns at once when there is something, and otherwise when it
// comes; what comes to other rooms does not wake it.
func watch(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	mustAppend(t, j, "a", 0, entry("one"))
	if at, err := j.Watch(t.Context(), "a", 0); err != nil || at != 1 {
		t.Fatalf("watch from 0: %d %v, want 1", at, err)
	}
	type answer struct {
		at  int64
		err error
	}
	answers := make(chan answer, 3)
	for range cap(answers) {
		go func() {
			at, err := j.Watch(t.Context(), "a", 1)
			answers <- answer{at, err}
		}()
	}
	mustAppend(t, j, "b", 0, entry("other"))
	select {
	case got := <-answers:
		t.Fatalf("woken by another room: %+v", got)
	case <-time.After(50 * time.Millisecond):
	}
	mustAppend(t, j, "a", 1, entry("two"))
	for range cap(answers) {
		if got := <-answers; got.err != nil || got.at != 2 {
			t.Errorf("watch: %+v, want 2", got)
		}
	}
}

// A watch ends with its context, also on a room nobody has heard of.
func watchEnds(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() {
		_, err := j.Watch(ctx, "nothing", 0)
		done <- err
	}()
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("watch: %v, want canceled", err)
	}
}

// A reader that watches and reads by turns sees every entry once, however
// fast they come.
func watchMissesNothing(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	const entries = 200
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			if err := follow(t.Context(), j, "a", entries); err != nil {
				t.Error(err)
			}
		})
	}
	for i := range int64(entries) {
		mustAppend(t, j, "a", i, entry(fmt.Sprint(i+1)))
	}
	wg.Wait()
}

// follow reads numbered entries as they come, until it has seen that many.
func follow(ctx context.Context, j journal.Journal, room string, entries int64) error {
	seen := int64(0)
	for seen < entries {
		if _, err := j.Watch(ctx, room, seen); err != nil {
			return fmt.Errorf("watch: %w", err)
		}
		got, err := j.Read(ctx, room, seen, 7)
		if err != nil || len(got) == 0 {
			return fmt.Errorf("read after a watch: %d entries, %w", len(got), err)
		}
		for _, e := range got {
			if seen++; e.Position != seen || string(e.Body) != fmt.Sprint(seen) {
				return fmt.Errorf("entry %d: %q, want %d", e.Position, e.Body, seen)
			}
		}
	}
	return nil
}

func rooms(t *testing.T, j journal.Journal, space, key string, limit int) []string {
	t.Helper()
	found, err := j.Find(t.Context(), space, key, limit)
	if err != nil {
		t.Fatalf("find %s %s: %v", space, key, err)
	}
	names := make([]string, len(found))
	for i, m := range found {
		names[i] = m.Room + string(m.Body)
	}
	return names
}

// Marks are found newest first by exact space and key, add up, and are
// dropped by room.
func marks(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	mark := func(body string) journal.Mark { return journal.Mark{Space: "s", Key: "k", Body: []byte(body)} }
	mustAppend(t, j, "a", 0, entry("1", mark("1"), journal.Mark{Space: "s", Key: "K"}))
	mustAppend(t, j, "b", 0, entry("1", mark("2")))
	mustAppend(t, j, "a", 1, entry("2", mark("3")))
	if got := rooms(t, j, "s", "k", 0); !slices.Equal(got, []string{"a3", "b2", "a1"}) {
		t.Errorf("found %v", got)
	}
	if got := rooms(t, j, "s", "k", 2); !slices.Equal(got, []string{"a3", "b2"}) {
		t.Errorf("found %v with limit 2", got)
	}
	if got := rooms(t, j, "t", "k", 0); len(got) != 0 {
		t.Errorf("another space has %v", got)
	}
	drop := journal.Mark{Space: "s", Key: "k", Drop: true}
	mustAppend(t, j, "a", 2, entry("3", drop, mark("4")))
	if got := rooms(t, j, "s", "k", 0); !slices.Equal(got, []string{"a4", "b2"}) {
		t.Errorf("after a drop: %v", got)
	}
	if got := rooms(t, j, "s", "K", 0); !slices.Equal(got, []string{"a"}) {
		t.Errorf("another key: %v", got)
	}
}

// A mark is there when its append has returned.
func marksAreAtomic(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	for i := range int64(50) {
		key := fmt.Sprint(i)
		mustAppend(t, j, "a", i, entry("x", journal.Mark{Space: "s", Key: key}))
		if got := rooms(t, j, "s", key, 1); len(got) != 1 {
			t.Fatalf("mark %d is not there", i)
		}
	}
}

// A forgotten room is an empty log that can begin again; its marks are gone,
// save what is to be kept.
func forget(t *testing.T, open Open) {
	t.Helper()
	j := start(t, open)
	for _, room := range []string{"a", "b"} {
		mustAppend(t, j, room, 0, entry("1", journal.Mark{Space: "gone", Key: "k"}, journal.Mark{Space: "kept", Key: "k"}))
	}
	if err := j.Forget(t.Context(), "a", "kept", "other"); err != nil {
		t.Fatal(err)
	}
	if err := j.Forget(t.Context(), "never"); err != nil {
		t.Errorf("forget an unknown room: %v", err)
	}
	if got := mustRead(t, j, "a", 0, 10); len(got) != 0 {
		t.Errorf("log %q", got)
	}
	if got := rooms(t, j, "gone", "k", 0); !slices.Equal(got, []string{"b"}) {
		t.Errorf("gone marks: %v", got)
	}
	if got := rooms(t, j, "kept", "k", 0); len(got) != 2 {
		t.Errorf("kept marks: %v", got)
	}
	mustAppend(t, j, "a", 0, entry("again"))
}

// What was appended is there when the engine is opened again.
func reopen(t *testing.T, open Open) {
	t.Helper()
	j, closeEngine := open(t, "state")
	mustAppend(t, j, "a", 0, entry("1", journal.Mark{Space: "s", Key: "k"}))
	closeEngine()
	j = start(t, open)
	if got := mustRead(t, j, "a", 0, 10); !slices.Equal(got, []string{"1"}) {
		t.Errorf("log %q", got)
	}
	if got := rooms(t, j, "s", "k", 0); !slices.Equal(got, []string{"a"}) {
		t.Errorf("marks %v", got)
	}
	mustAppend(t, j, "a", 1, entry("2"))
}
