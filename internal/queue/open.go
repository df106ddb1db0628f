package queue

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"github.com/gofrs/flock"
)

// checkedSize is the largest file that is checked whole when it is opened.
const checkedSize = 16 << 20

// errCorrupt reports a file that is ours and damaged.
var errCorrupt = errors.New("queue: file is corrupt")

// opening is one attempt to open the file at path.
type opening struct {
	path  string
	log   *slog.Logger
	now   func() time.Time
	check bool // look through the whole file and its indexes, however large
	// rescue, when set, is called first, while no other process opens the file.
	rescue func(context.Context) error
}

// gateTimeout is how long another process may take to open the file.
const gateTimeout = 2 * busyTimeout

// open opens the file, made as needed for this person alone. One process at a
// time opens it: two that find it corrupt must not both set a file aside, the
// second one the first one's new file.
func (o opening) open(ctx context.Context) (*store, error) {
	dir := filepath.Dir(o.path)
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	if err := os.Chmod(dir, 0o700); err != nil { //nolint:gosec // A directory needs its execute bit.
		return nil, err
	}
	if kind := networkFileSystem(dir); kind != "" {
		return nil, fmt.Errorf("%w (%s): set BELLMAN_STATE_DIR to a folder on a local disk", ErrNetwork, kind)
	}
	gate := flock.New(filepath.Join(dir, "open.lock"), flock.SetFlag(os.O_CREATE|os.O_RDWR), flock.SetPermissions(0o600))
	turn, cancel := context.WithTimeout(ctx, gateTimeout)
	defer cancel()
	if _, err := gate.TryLockContext(turn, 20*time.Millisecond); err != nil {
		return nil, fmt.Errorf("wait for another process to open it (%s): %w", gate.Path(), err)
	}
	defer func() { _ = gate.Unlock() }()
	if o.rescue != nil {
		switch err := o.rescue(ctx); {
		case errors.Is(damage(err), errCorrupt):
			o.log.Warn("queue file was removed and what was in it is lost; the rooms' logs still have it", "error", err)
		case err != nil:
			return nil, err
		}
	}
	st, err := o.try(ctx)
	if !errors.Is(err, errCorrupt) {
		return st, err
	}
	aside := fmt.Sprintf("%s.corrupt-%s", o.path, o.now().UTC().Format("20060102T150405.000"))
	if err := setAside(o.path, aside); err != nil {
		return nil, fmt.Errorf("set corrupt file aside: %w", err)
	}
	if st, err = o.try(ctx); err != nil {
		return nil, err
	}
	n, err := salvage(ctx, aside, st)
	o.log.Warn("queue file is corrupt and was set aside; the rooms' logs still have its events",
		"file", aside, "memberships_kept", n, "error", err)
	return st, nil
}

// setAside moves the file away together with its log; the index of the log is
// rebuilt from it.
func setAside(path, aside string) error {
	if err := os.Rename(path, aside); err != nil {
		return err
	}
	for _, log := range []string{"-wal", "-journal"} {
		if err := os.Rename(path+log, aside+log); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	if err := os.Remove(path + "-shm"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (o opening) try(ctx context.Context) (*store, error) {
	info, err := checkFile(o.path)
	if err != nil {
		return nil, err
	}
	db, err := sql.Open(driverName, dataSource(o.path))
	if err != nil {
		return nil, err
	}
	st := &store{db: db, file: info, writer: make(chan *conn, 1), readers: make(chan *conn, readerCount), eye: make(chan *conn, 1)}
	if err := o.fill(ctx, st); err != nil {
		return nil, errors.Join(damage(err), db.Close())
	}
	return st, nil
}

// damage tells a damaged file from other trouble.
func damage(err error) error {
	if code := resultCode(err); code == codeCorrupt || code == codeNotADB {
		return fmt.Errorf("%w: %w", errCorrupt, err)
	}
	return err
}

// checkFile makes the file with the mode it must have, and refuses what is not
// a database at all. A file of ours that lost its head is corrupt, and so is
// one of zeros, which is what a power cut can leave.
func checkFile(path string) (fs.FileInfo, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if err := f.Chmod(0o600); err != nil {
		return nil, err
	}
	head := make([]byte, 100)
	n, err := io.ReadFull(f, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, err
	}
	head = head[:n]
	switch {
	case n == 0, n == 100 && bytes.HasPrefix(head, []byte("SQLite format 3\x00")):
		return f.Stat()
	case len(bytes.Trim(head, "\x00")) == 0, bytes.HasPrefix(head, []byte("SQLite format 3\x00")),
		n >= 72 && bytes.Equal(head[68:72], []byte("BELQ")):
		return nil, errCorrupt
	}
	return nil, fmt.Errorf("%w: it is not a database", ErrForeign)
}

// fill opens the connections of s, after the file has been found to be ours.
func (o opening) fill(ctx context.Context, s *store) error {
	w, err := openConn(ctx, s.db)
	if err != nil {
		return err
	}
	if err := o.prepare(ctx, s, w); err != nil {
		return errors.Join(err, w.close())
	}
	s.writer <- w
	for range readerCount + 1 {
		c, err := openConn(ctx, s.db)
		if err == nil {
			err = c.pragma(ctx, "query_only=on")
		}
		if err != nil {
			return err
		}
		if len(s.readers) < readerCount {
			s.readers <- c
		} else {
			s.eye <- c
		}
	}
	if !s.wal || runtime.GOOS == "windows" { // which lets nobody remove a file that is open
		return nil
	}
	for i, suffix := range logSuffixes { // which are there, now that the file is in use
		if s.log[i], err = os.Stat(o.path + suffix); err != nil {
			return err
		}
	}
	return nil
}

// prepare makes the file ready through its writing connection.
func (o opening) prepare(ctx context.Context, s *store, w *conn) error {
	found, err := readStamp(ctx, w)
	if err != nil {
		return err
	}
	if err := found.check(); err != nil {
		return err
	}
	switch {
	case o.check:
		err = checkWhole(ctx, w, "integrity_check(1)")
	case s.file.Size() <= checkedSize:
		err = checkWhole(ctx, w, "quick_check(1)")
	}
	if err != nil {
		return err
	}
	if s.wal, err = o.journal(ctx, w); err != nil {
		return err
	}
	return migrate(ctx, w)
}

// checkWhole looks through the file with one of SQLite's checks.
func checkWhole(ctx context.Context, c *conn, pragma string) error {
	var verdict string
	if err := c.c.QueryRowContext(ctx, "pragma "+pragma).Scan(&verdict); err != nil {
		return err
	}
	if verdict != "ok" {
		return fmt.Errorf("%w: %s", errCorrupt, verdict)
	}
	return nil
}

// saved is a membership read from a corrupt file.
type saved struct {
	id                        Identity
	m                         Member
	fetched, touched, endedAt int64
	ended                     string
}

// salvage copies the memberships that can still be read from a corrupt file
// and returns how many there were. The error says what could not be read.
func salvage(ctx context.Context, from string, to *store) (int, error) {
	list, broken := readSaved(ctx, from)
	err := to.write(ctx, true, func(ctx context.Context, c *conn) error {
		for _, s := range list {
			if _, err := touch(ctx, c, s.id, s.m, s.fetched, s.touched); err != nil {
				return err
			}
			_, err := c.exec(ctx, "update member set ended = ?, ended_at = ? where id = (select m.id "+findMember+")",
				s.ended, s.endedAt, s.id.Server, s.id.User, s.m.Room, s.m.ID)
			if err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return len(list), broken
}

// readSaved reads memberships up to the first that cannot be read. One with
// events queued goes back to before the first of them: the room's log gives
// them again.
func readSaved(ctx context.Context, path string) (list []saved, err error) {
	db, err := sql.Open(driverName, dataSource(path))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	c, err := openConn(ctx, db)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	err = c.each(ctx, `select i.server, i.user, r.name, m.name, m.touched, m.ended, m.ended_at,
		max(0, case when m.events > 0 then m.first - 1 else m.fetched end)
		from member m join room r on r.id = m.room join identity i on i.id = m.identity`, nil,
		func(scan func(...any) error) error {
			var s saved
			err := scan(&s.id.Server, &s.id.User, &s.m.Room, &s.m.ID, &s.touched, &s.ended, &s.endedAt, &s.fetched)
			if err == nil {
				list = append(list, s)
			}
			return err
		})
	return list, err
}
