package queue_test

import (
	"errors"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/queue"
)

// inspect looks at the file in dir from outside.
func inspect(tb testing.TB, dir string) queue.Overview {
	tb.Helper()
	o, err := queue.Inspect(tb.Context(), filepath.Join(dir, "queue.db"), me)
	if err != nil {
		tb.Fatal(err)
	}
	return o
}

// roomIn returns one room of an overview.
func roomIn(tb testing.TB, o queue.Overview, name string) queue.RoomView {
	tb.Helper()
	for _, r := range o.Rooms {
		if r.Room == name {
			return r
		}
	}
	tb.Fatalf("no room %s among %+v", name, o.Rooms)
	return queue.RoomView{}
}

func report(tb testing.TB, q *queue.Queue, l queue.Lease, state queue.State, problem string) {
	tb.Helper()
	now := time.UnixMilli(time.Now().UnixMilli())
	if err := q.Report(tb.Context(), []queue.Report{{Lease: l, State: state, Since: now, Problem: problem, ProblemAt: now}}); err != nil {
		tb.Fatal(err)
	}
}

// What a watch says is seen from outside with who says it; the last problem
// stands until there is another, and a dead holder's word counts no more.
func TestALookFromOutsideShowsWhatTheHolderSaysWhileItLives(t *testing.T) {
	dir := t.TempDir()
	q, l := leased(t, dir)
	if r := roomIn(t, inspect(t, dir), seat.Room); r.State != queue.StateConnecting || r.Holder != os.Getpid() || r.Problem != "" {
		t.Errorf("before a report: %+v", r)
	}
	report(t, q, l, queue.StatePolling, "the service answered 426")
	report(t, q, l, queue.StateSocket, "")
	put(t, q, l, 1, 2)
	o := inspect(t, dir)
	r := roomIn(t, o, seat.Room)
	if r.State != queue.StateSocket || time.Since(r.Since) > time.Minute || r.Problem != "the service answered 426" || time.Since(r.ProblemAt) > time.Minute {
		t.Errorf("after two reports: %+v", r)
	}
	if !r.LastEvent.Equal(time.Unix(2, 0)) || time.Until(time.Unix(2, 0).Add(r.Lag)).Abs() > time.Minute {
		t.Errorf("last event %v with lag %v; want it of %v, here since now", r.LastEvent, r.Lag, time.Unix(2, 0))
	}
	if len(r.Members) != 1 || r.Members[0].Member != seat || r.Members[0].Fetched != 2 || r.Members[0].Waiting != 2 || o.Waiting.Events != 2 {
		t.Errorf("members %+v, waiting %+v", r.Members, o.Waiting)
	}
	if len(o.Bridges) != 1 || o.Bridges[0].PID != os.Getpid() || o.Bridges[0].Rooms != 1 || time.Since(o.Bridges[0].Since) > time.Minute {
		t.Errorf("bridges %+v", o.Bridges)
	}

	heir := open(t, dir)
	if err := q.Crash(); err != nil {
		t.Fatal(err)
	}
	o = inspect(t, dir)
	if r := roomIn(t, o, seat.Room); r.State != queue.StateUnwatched || r.Holder != 0 || r.Problem == "" || !r.Since.IsZero() {
		t.Errorf("of a dead holder: %+v", r)
	}
	if len(o.Bridges) != 1 {
		t.Errorf("bridges %+v; want the living one", o.Bridges)
	}
	if err := heir.Reap(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := heir.Lease(t.Context(), me, seat.Room); err != nil {
		t.Fatal(err)
	}
	report(t, heir, l, queue.StatePolling, "from the grave")
	if r := roomIn(t, inspect(t, dir), seat.Room); r.State != queue.StateConnecting || r.Problem != "the service answered 426" {
		t.Errorf("after a report under a lease that is lost: %+v", r)
	}
}

// What no watch has to say is found in the file: ended, paused, idle.
func TestALookFromOutsideFindsWhatNoWatchSays(t *testing.T) {
	dir := t.TempDir()
	var ago atomic.Int64
	ago.Store(int64(73 * time.Hour))
	q, err := queue.OpenWith(t.Context(), filepath.Join(dir, "queue.db"), slog.New(slog.DiscardHandler), queue.Settings{RoomEvents: 2, Now: func() time.Time { return time.Now().Add(-time.Duration(ago.Load())) }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	ctx := t.Context()
	idle, left, over := queue.Member{Room: "idle", ID: "m"}, queue.Member{Room: "half", ID: "left"}, queue.Member{Room: "over", ID: "m"}
	for _, m := range []queue.Member{idle, left, over} {
		if _, err := q.Touch(ctx, me, m, 7); err != nil {
			t.Fatal(err)
		}
	}
	ago.Store(0)
	full, stays := queue.Member{Room: "full", ID: "m"}, queue.Member{Room: "half", ID: "stays"}
	for _, m := range []queue.Member{full, stays} {
		if _, err := q.Touch(ctx, me, m, 0); err != nil {
			t.Fatal(err)
		}
	}
	for _, m := range []queue.Member{left, over} {
		if err := q.End(ctx, me, m, "left"); err != nil {
			t.Fatal(err)
		}
	}
	l, err := q.Lease(ctx, me, "full")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(ctx, l, "m", []queue.Event{event(1)}, 1); err != nil {
		t.Fatal(err)
	}
	if _, err := q.Put(ctx, l, "m", []queue.Event{event(2), event(3)}, 3); !errors.Is(err, queue.ErrFull) {
		t.Fatal(err)
	}
	got := map[string]queue.State{}
	o := inspect(t, dir)
	for _, r := range o.Rooms {
		got[r.Room] = r.State
	}
	want := map[string]queue.State{"idle": queue.StateIdle, "half": queue.StateUnwatched, "over": queue.StateEnded, "full": queue.StatePaused}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if r := roomIn(t, o, "half"); len(r.Members) != 2 || r.Members[0].ID != "stays" || r.Members[1].Ended != "left" {
		t.Errorf("members %+v", r.Members)
	}
	if r := roomIn(t, o, "over"); r.Members[0].Ended != "left" || !r.LastEvent.IsZero() {
		t.Errorf("the room that is over: %+v", r)
	}
	other, err := queue.Inspect(ctx, q.Path(), queue.Identity{Server: me.Server, User: "u_other"})
	if err != nil || len(other.Rooms) != 0 || other.Waiting.Events != 0 || len(other.Bridges) != 1 {
		t.Errorf("somebody else sees %+v (%v)", other, err)
	}
}

// A look from outside takes no part: it registers no owner, writes nothing,
// and is not held up by a process that is stuck in a write.
func TestALookFromOutsideTakesNoPart(t *testing.T) {
	dir := t.TempDir()
	q, l := leased(t, dir)
	put(t, q, l, 1)
	db := raw(t, q.Path())
	tx, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec("update total set revision = revision"); err != nil { // and does not go on
		t.Fatal(err)
	}
	if o := inspect(t, dir); len(o.Bridges) != 1 || roomIn(t, o, seat.Room).Members[0].Waiting != 1 {
		t.Errorf("overview %+v", o)
	}
	if err := tx.Rollback(); err != nil {
		t.Fatal(err)
	}
	if err := q.Close(); err != nil {
		t.Fatal(err)
	}
	before := contents(t, dir)
	if o := inspect(t, dir); len(o.Bridges) != 0 || roomIn(t, o, seat.Room).State != queue.StateUnwatched {
		t.Errorf("after the close: %+v", o)
	}
	if diff := cmp.Diff(before, contents(t, dir)); diff != "" {
		t.Error(diff)
	}
}

// contents are the files of dir that say something, and what they hold.
func contents(tb testing.TB, dir string) map[string]string {
	tb.Helper()
	list, err := os.ReadDir(dir)
	if err != nil {
		tb.Fatal(err)
	}
	files := map[string]string{}
	for _, e := range list {
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err != nil {
			tb.Fatal(err)
		}
		if len(data) > 0 && filepath.Ext(e.Name()) != ".db-shm" { // an index of the log, made by whoever looks first
			files[e.Name()] = string(data)
		}
	}
	return files
}

// What is no queue of this program's is refused with the reasons of Open, and
// nothing is made where there is nothing.
func TestALookFromOutsideRefusesWhatOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	if _, err := queue.Inspect(t.Context(), path, me); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	if len(contents(t, dir)) != 0 {
		t.Error("a file was made")
	}
	db := raw(t, path)
	run(t, db, "create table notes (text)", "vacuum")
	if _, err := queue.Inspect(t.Context(), path, me); !errors.Is(err, queue.ErrForeign) {
		t.Errorf("somebody's file: %v", err)
	}
	newer := filled(t, t.TempDir())
	run(t, raw(t, newer), "pragma user_version = 1000")
	if _, err := queue.Inspect(t.Context(), newer, me); !errors.Is(err, queue.ErrForeign) {
		t.Errorf("a newer file: %v", err)
	}
	damaged := filled(t, t.TempDir())
	damagePage(t, damaged, "member")
	if _, err := queue.Inspect(t.Context(), damaged, me); err == nil {
		t.Error("a damaged file is shown")
	}
}

// A file of the first version is brought up to date and shown.
func TestALookFromOutsideShowsAnOlderFile(t *testing.T) {
	data, err := os.ReadFile("testdata/schema-1-sqlite3.db")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "queue.db"), data, 0o600); err != nil {
		t.Fatal(err)
	}
	o := inspect(t, dir)
	if r := roomIn(t, o, seat.Room); len(o.Rooms) != 3 || len(o.Bridges) != 0 || r.Members[0].Waiting != 3 || r.LastEvent.IsZero() {
		t.Errorf("overview %+v", o)
	}
	wantCursors(t, claim(t, open(t, dir)), 3, 4, 5)
}
