// Package sqlite keeps the hub's state in one SQLite file: the journal of all
// rooms, and shelves of small items that belong to no room (clients, tokens,
// presets, counters). Commits are durable before they are reported.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

// memory is the path of a database that is never written to disk.
const memory = ":memory:"

var (
	// ErrInUse reports that another hub serves the same data directory.
	ErrInUse = errors.New("sqlite: another hub is using it")
	// ErrClosed reports a call on a closed database.
	ErrClosed = errors.New("sqlite: closed")

	errForeign = errors.New("not a hub's database")
	errNewer   = errors.New("written by a newer version of the hub")
)

// Options says how to open a database.
type Options struct {
	// Path of the file; ":memory:" keeps everything in memory.
	Path string
	// Shared opens beside a serving hub, as the operator's commands do.
	Shared bool
	// Now is the clock that items expire by; time.Now when nil.
	Now func() time.Time
	Log *slog.Logger
}

// DB is an open database. Its methods may be called from many goroutines.
type DB struct {
	write, read *sql.DB
	now         func() time.Time
	log         *slog.Logger
	lock        *os.File

	pending chan *request
	stopped chan struct{} // closed when the writer has left
	heads   heads
	stop    context.CancelFunc
	done    sync.WaitGroup
	closed  sync.Once
}

// Open opens the database, creating it and its directory when there is none.
// Unless shared, it holds the directory's lock until Close and returns
// ErrInUse when another process has it. A database of another program or of a
// newer hub is refused and left as it is. Errors name the path.
func Open(ctx context.Context, o Options) (*DB, error) {
	d := &DB{now: o.Now, log: o.Log, pending: make(chan *request, batch), stopped: make(chan struct{}), heads: heads{rooms: map[string]*head{}}}
	if d.now == nil {
		d.now = time.Now
	}
	if o.Path != memory {
		dir := filepath.Dir(o.Path)
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, fmt.Errorf("make data directory: %w", err)
		}
		if !o.Shared {
			lock, err := lockFile(filepath.Join(dir, "hub.lock"))
			if err != nil {
				return nil, fmt.Errorf("lock data directory: %w", err)
			}
			d.lock = lock
		}
	}
	if err := d.open(ctx, o.Path); err != nil {
		return nil, errors.Join(fmt.Errorf("open database %s: %w", o.Path, err), d.release())
	}
	life, stop := context.WithCancel(context.WithoutCancel(ctx))
	d.stop = stop
	d.done.Go(func() { d.commitLoop(life) })
	d.done.Go(func() { d.followLoop(life) })
	return d, nil
}

// open opens the pools: one connection that writes, a few that read. A
// database in memory has the one connection for both.
func (d *DB) open(ctx context.Context, path string) error {
	if path != memory {
		// The file must be private from birth, whatever the umask.
		f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return err
		}
		if err := f.Close(); err != nil {
			return err
		}
	}
	write, err := sql.Open(driver, dataSource(path))
	if err != nil {
		return err
	}
	write.SetMaxOpenConns(1)
	write.SetMaxIdleConns(1)
	d.write, d.read = write, write
	if err := migrate(ctx, write); err != nil {
		return err
	}
	if path == memory {
		return nil
	}
	if d.read, err = sql.Open(driver, dataSource(path)); err != nil {
		return err
	}
	d.read.SetMaxOpenConns(8)
	d.read.SetMaxIdleConns(8)
	return nil
}

// Close waits for appends under way and closes the file. Later calls fail
// with ErrClosed. It is safe to call twice.
func (d *DB) Close() error {
	var err error
	d.closed.Do(func() {
		d.stop()
		d.done.Wait()
		err = d.release()
	})
	return err
}

func (d *DB) release() error {
	var errs []error
	if d.read != nil && d.read != d.write {
		errs = append(errs, d.read.Close())
	}
	if d.write != nil {
		errs = append(errs, d.write.Close())
	}
	if d.lock != nil {
		errs = append(errs, d.lock.Close())
	}
	return errors.Join(errs...)
}

// Check reads the whole database and reports the first damage it finds.
func (d *DB) Check(ctx context.Context) error {
	var verdict string
	if err := d.read.QueryRowContext(ctx, `PRAGMA integrity_check(1)`).Scan(&verdict); err != nil {
		return fmt.Errorf("check database: %w", err)
	}
	if verdict != "ok" {
		return fmt.Errorf("check database: %s", strings.Join(strings.Fields(verdict), " "))
	}
	var room string
	err := d.read.QueryRowContext(ctx,
		`SELECT room FROM entries GROUP BY room HAVING count(*) <> max(position) OR min(position) <> 1 LIMIT 1`).Scan(&room)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil
	case err != nil:
		return fmt.Errorf("check logs: %w", err)
	}
	return fmt.Errorf("check logs: the log of room %s has a gap", room)
}

// Backup writes a consistent copy to path, which must not exist, while the
// hub goes on.
func (d *DB) Backup(ctx context.Context, path string) error {
	if _, err := os.Lstat(path); err == nil {
		return fmt.Errorf("back up to %s: %w", path, os.ErrExist)
	}
	if _, err := d.read.ExecContext(ctx, `VACUUM INTO ?`, path); err != nil {
		return fmt.Errorf("back up to %s: %w", path, err)
	}
	if err := os.Chmod(path, 0o600); err != nil {
		return fmt.Errorf("back up to %s: %w", path, err)
	}
	return nil
}
