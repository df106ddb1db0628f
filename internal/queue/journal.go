package queue

import (
	"context"
	"database/sql"
	"errors"
	"io/fs"
	"os"
	"strconv"
)

// journal gives the file behind w a write-ahead log and reports whether it has
// one. On a local file system where processes cannot share the log's index the
// file keeps a rollback journal, and every commit is FULL.
func (o opening) journal(ctx context.Context, w *conn) (wal bool, err error) {
	var mode string
	if err := w.c.QueryRowContext(ctx, "pragma journal_mode").Scan(&mode); err != nil {
		return false, err
	}
	// SQLite notes the log in the file's head before it finds that it cannot
	// have one, and then cannot take it back; so another file is tried first.
	var reason error
	if mode != "wal" {
		reason = probe(ctx, o.path+".probe")
		if resultCode(reason) == codeFull { // says nothing about the log
			return false, reason
		}
	}
	if reason == nil {
		if err := w.c.QueryRowContext(ctx, "pragma journal_mode=wal").Scan(&mode); err != nil {
			return false, err
		}
	}
	if mode != "wal" {
		o.log.Warn("queue file system cannot share a write-ahead log; the queue is slower",
			"file", o.path, "journal_mode", mode, "error", reason)
		return false, w.pragma(ctx, "synchronous=full")
	}
	for _, p := range []string{"wal_autocheckpoint=0", "journal_size_limit=" + strconv.Itoa(walQuiet)} {
		if err := w.pragma(ctx, p); err != nil {
			return false, err
		}
	}
	return true, nil
}

// probe writes a file with a write-ahead log at path, and removes it. The error
// says why there cannot be one.
func probe(ctx context.Context, path string) (err error) {
	clear := func() error {
		var errs []error
		for _, suffix := range []string{"", "-wal", "-shm", "-journal"} {
			if err := os.Remove(path + suffix); err != nil && !errors.Is(err, fs.ErrNotExist) {
				errs = append(errs, err)
			}
		}
		return errors.Join(errs...)
	}
	if err := clear(); err != nil { // of a process that died here
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil {
		return err
	}
	db, err := sql.Open(driverName, dataSource(path))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, db.Close(), clear()) }()
	c, err := openConn(ctx, db)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	for _, p := range []string{"synchronous=off", "journal_mode=wal", "user_version=1"} {
		if err := c.pragma(ctx, p); err != nil {
			return err
		}
	}
	return nil
}
