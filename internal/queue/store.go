package queue

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// busyTimeout is how long SQLite waits for another process's write.
const busyTimeout = 5 * time.Second

// Primary result codes of SQLite that are told apart.
const (
	codeBusy    = 5
	codeCorrupt = 11
	codeFull    = 13
	codeNotADB  = 26
)

// conn is one connection with its prepared statements. It belongs to one
// goroutine at a time.
type conn struct {
	c     *sql.Conn
	stmts map[string]*sql.Stmt
}

// store is the open file: one connection that writes, and readerCount that
// read. Each waits in its channel while nobody uses it.
type store struct {
	db      *sql.DB
	writer  chan *conn
	readers chan *conn
	eye     chan *conn // the one whose data_version is compared with its last
	wal     bool       // else a rollback journal, where every commit is FULL

	file    fs.FileInfo    // of the path when it was opened
	log     [2]fs.FileInfo // of its log and the log's index; nil where there is none
	damaged atomic.Bool    // SQLite has met damage
	retired atomic.Bool    // another store has taken its place, or will
	once    sync.Once
}

const readerCount = 2

// logSuffixes name the write-ahead log of a file and that log's index.
var logSuffixes = []string{"-wal", "-shm"}

// dataSource is the DSN of path for both drivers. Pragmas of a connection
// belong here, so that none is without its busy timeout.
func dataSource(path string) string {
	p := filepath.ToSlash(path)
	if !strings.HasPrefix(p, "/") {
		p = "/" + p // a Windows drive
	}
	u := url.URL{Scheme: "file", Path: p}
	return fmt.Sprintf("%s?_busy_timeout=%d&_foreign_keys=on&_txlock=immediate&_synchronous=NORMAL",
		u.String(), busyTimeout.Milliseconds())
}

// openConn opens one connection of its own to db.
func openConn(ctx context.Context, db *sql.DB) (*conn, error) {
	c, err := db.Conn(ctx)
	if err != nil {
		return nil, err
	}
	return &conn{c: c, stmts: make(map[string]*sql.Stmt)}, nil
}

func (c *conn) close() error {
	errs := make([]error, 0, len(c.stmts)+1)
	for _, s := range c.stmts {
		errs = append(errs, s.Close())
	}
	return errors.Join(append(errs, c.c.Close())...)
}

// prepared returns the statement for query, prepared once per connection.
func (c *conn) prepared(ctx context.Context, query string) (*sql.Stmt, error) {
	if s, ok := c.stmts[query]; ok {
		return s, nil
	}
	s, err := c.c.PrepareContext(ctx, query)
	if err != nil {
		return nil, err
	}
	c.stmts[query] = s
	return s, nil
}

// exec runs query and returns how many rows it changed.
func (c *conn) exec(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := c.prepared(ctx, query) //nolint:sqlclosecheck // It is closed with its connection.
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// insert runs query and returns the id of the row it added.
func (c *conn) insert(ctx context.Context, query string, args ...any) (int64, error) {
	s, err := c.prepared(ctx, query) //nolint:sqlclosecheck // It is closed with its connection.
	if err != nil {
		return 0, err
	}
	res, err := s.ExecContext(ctx, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

// get scans the first row of query into dest and reports whether there was one.
func (c *conn) get(ctx context.Context, query string, args []any, dest ...any) (bool, error) {
	s, err := c.prepared(ctx, query) //nolint:sqlclosecheck // It is closed with its connection.
	if err != nil {
		return false, err
	}
	err = s.QueryRowContext(ctx, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, err
}

// each calls row for every row of query.
func (c *conn) each(ctx context.Context, query string, args []any, row func(scan func(...any) error) error) (err error) {
	s, err := c.prepared(ctx, query) //nolint:sqlclosecheck // It is closed with its connection.
	if err != nil {
		return err
	}
	rows, err := s.QueryContext(ctx, args...)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, rows.Close()) }()
	for rows.Next() {
		if err := row(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// errRetired reports a store that another has replaced, or soon will.
var errRetired = errors.New("queue: its file was damaged or removed and is being opened again")

// take borrows a connection of a store that is still in use.
func (s *store) take(ctx context.Context, idle chan *conn) (*conn, error) {
	c, err := borrow(ctx, idle)
	switch {
	case s.retired.Load() && err == nil:
		idle <- c
		return nil, errRetired
	case s.retired.Load() && errors.Is(err, ErrClosed):
		return nil, errRetired
	}
	return c, err
}

// borrow takes a connection from idle, waiting for it as long as ctx lasts.
func borrow(ctx context.Context, idle chan *conn) (*conn, error) {
	select {
	case c, ok := <-idle:
		if !ok {
			return nil, ErrClosed
		}
		return c, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// write runs what in one IMMEDIATE transaction, with a synced commit when
// durable. Once it has begun it is not interrupted: it is short, its wait for
// other processes is bounded by the busy timeout, and a half-cancelled commit
// would leave its caller guessing.
func (s *store) write(ctx context.Context, durable bool, what func(context.Context, *conn) error) error {
	c, err := s.take(ctx, s.writer)
	if err != nil {
		return err
	}
	defer func() { s.writer <- c }()
	ctx = context.WithoutCancel(ctx)
	if durable && s.wal {
		if err := c.pragma(ctx, "synchronous=full"); err != nil {
			return err
		}
		defer func() { _ = c.pragma(ctx, "synchronous=normal") }() // it stays FULL at worst
	}
	return s.noted(c.transact(ctx, what))
}

// noted remembers that err speaks of a damaged file.
func (s *store) noted(err error) error {
	if errors.Is(damage(err), errCorrupt) {
		s.damaged.Store(true)
	}
	return err
}

// transact runs what in one IMMEDIATE transaction: one that begins as a reader
// and then writes is refused at once when another process has written, whatever
// the busy timeout. It says begin and commit itself, because a transaction of
// database/sql starts a goroutine, and that is a good part of what a Put costs.
func (c *conn) transact(ctx context.Context, what func(context.Context, *conn) error) error {
	if _, err := c.exec(ctx, "begin immediate"); err != nil {
		return err
	}
	err := what(ctx, c)
	if err == nil {
		_, err = c.exec(ctx, "commit")
	}
	if err != nil {
		_, _ = c.exec(ctx, "rollback") // on a full disk SQLite has rolled back by itself
	}
	return err
}

// read runs what on a reading connection, outside any transaction.
func (s *store) read(ctx context.Context, what func(context.Context, *conn) error) error {
	c, err := s.take(ctx, s.readers)
	if err != nil {
		return err
	}
	defer func() { s.readers <- c }()
	return s.noted(what(context.WithoutCancel(ctx), c))
}

// peek runs what on the connection that watches for changes.
func (s *store) peek(ctx context.Context, what func(context.Context, *conn) error) error {
	c, err := borrow(ctx, s.eye)
	if err != nil {
		return err
	}
	defer func() { s.eye <- c }()
	return what(context.WithoutCancel(ctx), c)
}

// pragma sets one pragma, which takes no parameters and cannot be prepared.
func (c *conn) pragma(ctx context.Context, text string) error {
	_, err := c.c.ExecContext(ctx, "pragma "+text)
	return err
}

// close waits for every connection to come back and closes the file. Only the
// first call does.
func (s *store) close() error {
	var errs []error
	s.once.Do(func() {
		for range cap(s.readers) {
			errs = append(errs, (<-s.readers).close())
		}
		close(s.readers)
		errs = append(errs, (<-s.eye).close())
		close(s.eye)
		errs = append(errs, (<-s.writer).close())
		close(s.writer)
		errs = append(errs, s.db.Close())
	})
	return errors.Join(errs...)
}
