package queue_test

import (
	"bytes"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// raw opens the file as any SQLite program would.
func raw(tb testing.TB, path string) *sql.DB {
	tb.Helper()
	db, err := sql.Open(queue.DriverName, path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}

func run(tb testing.TB, db *sql.DB, statements ...string) {
	tb.Helper()
	for _, s := range statements {
		if _, err := db.Exec(s); err != nil {
			tb.Fatalf("%s: %v", s, err)
		}
	}
}

// filled leaves a closed queue file in dir: three memberships, five events of
// the first, of which two were acknowledged.
func filled(tb testing.TB, dir string) string {
	tb.Helper()
	path := filepath.Join(dir, "queue.db")
	q, err := queue.Open(tb.Context(), path, slog.New(slog.DiscardHandler))
	if err != nil {
		tb.Fatal(err)
	}
	fill(tb, q)
	if err := q.Close(); err != nil {
		tb.Fatal(err)
	}
	return path
}

func fill(tb testing.TB, q *queue.Queue) {
	tb.Helper()
	ctx := tb.Context()
	for _, m := range []queue.Member{seat, {Room: "qs_2", ID: "m_2"}, {Room: "qs_3", ID: "m_3"}} {
		if _, err := q.Touch(ctx, me, m, 0); err != nil {
			tb.Fatal(err)
		}
	}
	if err := q.End(ctx, me, queue.Member{Room: "qs_3", ID: "m_3"}, "left"); err != nil {
		tb.Fatal(err)
	}
	l, err := q.Lease(ctx, me, seat.Room)
	if err != nil {
		tb.Fatal(err)
	}
	put(tb, q, l, 1, 2, 3, 4, 5)
	b, err := q.Claim(ctx, me, queue.Filter{}, queue.Limit{Events: 2})
	if err != nil {
		tb.Fatal(err)
	}
	if err := q.Ack(ctx, b.Token); err != nil {
		tb.Fatal(err)
	}
}

func refused(t *testing.T, path string, want error) {
	t.Helper()
	before, _ := os.ReadFile(path)
	q, err := queue.Open(t.Context(), path, slog.New(slog.DiscardHandler))
	if err == nil {
		_ = q.Close()
	}
	if !errors.Is(err, want) || !strings.Contains(err.Error(), path) {
		t.Errorf("open: %v; want %v with the path", err, want)
	}
	if after, _ := os.ReadFile(path); !bytes.Equal(before, after) {
		t.Error("the file was changed")
	}
}

func TestAFileOfAnotherProgramIsRefusedAndUntouched(t *testing.T) {
	for _, statements := range [][]string{
		{"create table notes (text)"},
		{"pragma application_id = 7"},
		{"pragma user_version = 3"},
	} {
		path := filepath.Join(t.TempDir(), "queue.db")
		db := raw(t, path)
		run(t, db, append(statements, "vacuum")...)
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		refused(t, path, queue.ErrForeign)
	}
	path := filepath.Join(t.TempDir(), "queue.db")
	if err := os.WriteFile(path, []byte(strings.Repeat("somebody's notes\n", 50)), 0o600); err != nil {
		t.Fatal(err)
	}
	refused(t, path, queue.ErrForeign)
}

func TestANewerFileIsRefusedAndUntouched(t *testing.T) {
	path := filled(t, t.TempDir())
	db := raw(t, path)
	run(t, db, "pragma user_version = 1000")
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	refused(t, path, queue.ErrForeign)
}

func TestTheFileIsThePersonsAlone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "state", "profile")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	q := open(t, dir)
	fill(t, q)
	info, err := os.Stat(dir)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("directory %v, %v; want 0700", info.Mode(), err)
	}
	list, err := os.ReadDir(dir)
	if err != nil || len(list) < 4 {
		t.Fatalf("%d files, %v; want the database, its log and the locks", len(list), err)
	}
	for _, e := range list {
		if info, err := e.Info(); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("%s: %v, %v; want 0600", e.Name(), info.Mode(), err)
		}
	}
}

func TestEveryConnectionHasItsPragmas(t *testing.T) {
	q := open(t, t.TempDir())
	for name, want := range map[string]string{
		"busy_timeout": "5000", "foreign_keys": "1", "synchronous": "1", "journal_mode": "wal",
	} {
		got, err := q.Pragmas(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if len(got) != 4 || slices.ContainsFunc(got, func(v string) bool { return v != want }) {
			t.Errorf("%s: %q on the connections, want %s", name, got, want)
		}
	}
	got, err := q.Pragmas(t.Context(), "wal_autocheckpoint")
	if err != nil || got[len(got)-1] != "0" {
		t.Errorf("wal_autocheckpoint %q, %v; want none on the writer", got, err)
	}
}

// setAside opens what cannot be used as it is, and checks that it was moved
// and that the memberships came over.
func setAside(t *testing.T, path string, memberships bool) {
	t.Helper()
	q := open(t, filepath.Dir(path))
	aside, err := filepath.Glob(path + ".corrupt-*")
	if err != nil || len(aside) == 0 {
		t.Fatalf("nothing was set aside: %v", err)
	}
	list, err := q.Memberships(t.Context(), me)
	if err != nil {
		t.Fatal(err)
	}
	if !memberships {
		return
	}
	if len(list) != 3 || list[2].Ended != "left" {
		t.Fatalf("memberships %+v; want three, the last ended", list)
	}
	for _, m := range list {
		if m.Member == seat && m.Fetched != 2 {
			t.Errorf("the watch goes on from %d, want 2: events 3 to 5 were not delivered", m.Fetched)
		}
	}
	if l, err := q.Lease(t.Context(), me, seat.Room); err != nil {
		t.Error(err)
	} else {
		put(t, q, l, 3, 4, 5)
	}
	wantCursors(t, claim(t, q), 3, 4, 5)
}

// damagePage overwrites the root page of a table.
func damagePage(tb testing.TB, path, table string) {
	tb.Helper()
	db := raw(tb, path)
	var page, size int64
	err := db.QueryRow("select rootpage from sqlite_schema where name = ?", table).Scan(&page)
	if err == nil {
		err = db.QueryRow("pragma page_size").Scan(&size)
	}
	if err = errors.Join(err, db.Close()); err != nil {
		tb.Fatal(err)
	}
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err == nil {
		_, err = f.WriteAt(bytes.Repeat([]byte{0xa5}, int(size)), (page-1)*size)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		tb.Fatal(err)
	}
}

func TestACorruptFileIsSetAsideAndItsMembershipsAreKept(t *testing.T) {
	for _, table := range []string{"event", "body", "handed"} {
		t.Run(table, func(t *testing.T) {
			path := filled(t, t.TempDir())
			damagePage(t, path, table)
			setAside(t, path, true)
		})
	}
	t.Run("member", func(t *testing.T) {
		path := filled(t, t.TempDir())
		damagePage(t, path, "member")
		setAside(t, path, false)
	})
	t.Run("zeros", func(t *testing.T) {
		path := filled(t, t.TempDir())
		if err := os.WriteFile(path, make([]byte, 8192), 0o600); err != nil {
			t.Fatal(err)
		}
		setAside(t, path, false)
	})
	t.Run("cut", func(t *testing.T) {
		path := filled(t, t.TempDir())
		if err := os.Truncate(path, 5000); err != nil {
			t.Fatal(err)
		}
		setAside(t, path, false)
	})
}

// eventually waits for what the background brings about.
func eventually(tb testing.TB, what string, ok func() bool) {
	tb.Helper()
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	tb.Fatalf("in 20 s there was no %s", what)
}

// A file that is damaged while it is open is set aside without a restart.
func TestDamageInARunningProcessIsMended(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "queue.db")
	q := open(t, dir)
	fill(t, q)
	run(t, raw(t, path), "pragma wal_checkpoint(truncate)")
	damagePage(t, path, "event")
	run(t, raw(t, path), "update total set revision = revision + 1") // no cached page hides it
	eventually(t, "new file", func() bool {
		_, _ = q.Claim(t.Context(), me, queue.Filter{}, all) // meets the damage, sooner or later
		aside, _ := filepath.Glob(path + ".corrupt-*")
		return len(aside) > 0
	})
	eventually(t, "membership", func() bool {
		list, err := q.Memberships(t.Context(), me)
		return err == nil && len(list) == 3
	})
	l, err := q.Lease(t.Context(), me, seat.Room)
	if err != nil {
		t.Fatal(err)
	}
	put(t, q, l, 3, 4, 5)
	wantCursors(t, claim(t, q), 3, 4, 5)
}

// Somebody removes the state directory under two running processes: nothing is
// lost, and they meet in the new file.
func TestARemovedFileIsWrittenAnew(t *testing.T) {
	t.Parallel()
	if os.PathSeparator == '\\' {
		t.Skip("Windows does not remove files that are open")
	}
	dir := filepath.Join(t.TempDir(), "state")
	q, other := open(t, dir), open(t, dir)
	fill(t, q)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	eventually(t, "new file", func() bool {
		_, err := os.Stat(filepath.Join(dir, "queue.db"))
		return err == nil
	})
	eventually(t, "meeting", func() bool {
		_, errTouch := other.Touch(t.Context(), me, queue.Member{Room: "qs_9", ID: "m_9"}, 0)
		list, err := q.Memberships(t.Context(), me)
		return errTouch == nil && err == nil && len(list) == 4
	})
	wantCursors(t, claim(t, q), 3, 4, 5)
	if err := q.Audit(t.Context()); err != nil {
		t.Error(err)
	}
}

// A file of every released schema, and of each driver, is read by this program.
func TestFilesOfReleasedSchemasAreRead(t *testing.T) {
	files, err := filepath.Glob("testdata/schema-*.db")
	if err != nil || len(files) < 2 {
		t.Fatalf("%d files, %v; want one a released schema and driver", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			data, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "queue.db"), data, 0o600); err != nil {
				t.Fatal(err)
			}
			q := open(t, dir)
			wantCursors(t, claim(t, q), 3, 4, 5)
			list, err := q.Memberships(t.Context(), me)
			if err != nil || len(list) != 3 {
				t.Errorf("memberships %+v, %v; want three", list, err)
			}
			if err := q.Audit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

// TestWriteSchemaFile makes the file of the schema and driver at hand, once a
// release: go test -run WriteSchemaFile with BELLMAN_WRITE_SCHEMA set.
func TestWriteSchemaFile(t *testing.T) {
	if os.Getenv("BELLMAN_WRITE_SCHEMA") == "" {
		t.Skip("released files are not written anew")
	}
	data, err := os.ReadFile(filled(t, t.TempDir()))
	if err != nil {
		t.Fatal(err)
	}
	name := fmt.Sprintf("testdata/schema-%d-%s.db", queue.SchemaVersion, queue.DriverName)
	if err := errors.Join(os.MkdirAll("testdata", 0o755), os.WriteFile(name, data, 0o644)); err != nil {
		t.Fatal(err)
	}
}
