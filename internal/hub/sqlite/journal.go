package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"bellman.sh/desktop/internal/hub/journal"
)

// batch is how many appends share one commit at most. A commit waits for the
// disk, so appends that arrive meanwhile go together in the next one.
const batch = 256

// request is one append on its way to the writer.
type request struct {
	room     string
	expected int64
	entry    journal.Entry
	answer   chan error
}

// Append implements journal.Log. It does not give up once the writer has the
// entry, so that its outcome is always known.
func (d *DB) Append(ctx context.Context, room string, expected int64, e journal.Entry) error {
	r := &request{room: room, expected: expected, entry: e, answer: make(chan error, 1)}
	select {
	case d.pending <- r:
	case <-ctx.Done():
		return ctx.Err()
	case <-d.stopped:
		return ErrClosed
	}
	select {
	case err := <-r.answer:
		return err
	case <-d.stopped:
	}
	// The writer may have answered this one last of all.
	select {
	case err := <-r.answer:
		return err
	default:
		return ErrClosed
	}
}

// commitLoop is the one writer of the journal. When it has left, stopped is
// closed and appends still waiting fail with ErrClosed.
func (d *DB) commitLoop(life context.Context) {
	defer close(d.stopped)
	for {
		select {
		case <-life.Done():
			return
		case first := <-d.pending:
			requests := []*request{first}
			for len(requests) < batch && len(d.pending) > 0 {
				requests = append(requests, <-d.pending)
			}
			d.commit(context.WithoutCancel(life), requests)
		}
	}
}

// commit stores the requests in one transaction. One that conflicts is
// answered alone; an error of the database is everybody's.
func (d *DB) commit(ctx context.Context, requests []*request) {
	stored := make([]*request, 0, len(requests))
	err := func() error {
		tx, err := d.write.BeginTx(ctx, nil)
		if err != nil {
			return err
		}
		defer func() { _ = tx.Rollback() }()
		for _, r := range requests {
			last, err := lastPosition(ctx, tx, r.room)
			if err != nil {
				return err
			}
			if last != r.expected {
				r.answer <- journal.ErrConflict
				continue
			}
			stored = append(stored, r)
			if err := store(ctx, tx, r); err != nil {
				return err
			}
		}
		return tx.Commit()
	}()
	if err != nil {
		err = fmt.Errorf("append to journal: %w", err)
		d.log.ErrorContext(ctx, "journal write", "error", err)
		// Those in conflict have their answer already.
		for _, r := range requests {
			select {
			case r.answer <- err:
			default:
			}
		}
		return
	}
	for _, r := range stored {
		d.heads.raise(r.room, r.expected+1)
		r.answer <- nil
	}
}

func lastPosition(ctx context.Context, tx *sql.Tx, room string) (int64, error) {
	var last int64
	err := tx.QueryRowContext(ctx, `SELECT coalesce(max(position), 0) FROM entries WHERE room = ?`, room).Scan(&last)
	return last, err
}

func store(ctx context.Context, tx *sql.Tx, r *request) error {
	if _, err := tx.ExecContext(ctx, `INSERT INTO entries (room, position, body) VALUES (?, ?, ?)`,
		r.room, r.expected+1, r.entry.Body); err != nil {
		return err
	}
	for _, m := range r.entry.Marks {
		var err error
		if m.Drop {
			_, err = tx.ExecContext(ctx, `DELETE FROM marks WHERE room = ? AND space = ? AND key = ?`, r.room, m.Space, m.Key)
		} else {
			_, err = tx.ExecContext(ctx, `INSERT INTO marks (space, key, room, body) VALUES (?, ?, ?, ?)`, m.Space, m.Key, r.room, m.Body)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Read implements journal.Log.
func (d *DB) Read(ctx context.Context, room string, from int64, limit int) ([]journal.Entry, error) {
	rows, err := d.read.QueryContext(ctx,
		`SELECT position, body FROM entries WHERE room = ? AND position > ? ORDER BY position LIMIT ?`, room, from, limit)
	if err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var entries []journal.Entry
	for rows.Next() {
		var e journal.Entry
		if err := rows.Scan(&e.Position, &e.Body); err != nil {
			return nil, fmt.Errorf("read journal: %w", err)
		}
		entries = append(entries, e)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("read journal: %w", err)
	}
	return entries, nil
}

// Find implements journal.Index.
func (d *DB) Find(ctx context.Context, space, key string, limit int) ([]journal.Mark, error) {
	if limit == 0 {
		limit = -1
	}
	rows, err := d.read.QueryContext(ctx,
		`SELECT room, body FROM marks WHERE space = ? AND key = ? ORDER BY id DESC LIMIT ?`, space, key, limit)
	if err != nil {
		return nil, fmt.Errorf("find rooms: %w", err)
	}
	defer func() { _ = rows.Close() }()
	var marks []journal.Mark
	for rows.Next() {
		m := journal.Mark{Space: space, Key: key}
		if err := rows.Scan(&m.Room, &m.Body); err != nil {
			return nil, fmt.Errorf("find rooms: %w", err)
		}
		marks = append(marks, m)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("find rooms: %w", err)
	}
	return marks, nil
}

// Forget implements journal.Log.
func (d *DB) Forget(ctx context.Context, room string, keep ...string) error {
	kept, err := json.Marshal(append([]string{}, keep...))
	if err != nil {
		return fmt.Errorf("forget room: %w", err)
	}
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("forget room: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	if _, err := tx.ExecContext(ctx, `DELETE FROM entries WHERE room = ?`, room); err != nil {
		return fmt.Errorf("forget room: %w", err)
	}
	const query = `DELETE FROM marks WHERE room = ?1 AND space NOT IN (SELECT value FROM json_each(?2))`
	if _, err := tx.ExecContext(ctx, query, room, string(kept)); err != nil {
		return fmt.Errorf("forget room: %w", err)
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("forget room: %w", err)
	}
	return nil
}

// Watch implements journal.Log.
func (d *DB) Watch(ctx context.Context, room string, from int64) (int64, error) {
	h := d.heads.hold(room)
	defer d.heads.drop(room)
	if !d.heads.isKnown(h) {
		// The log is read after the watch is in place, so that an append
		// between the two is seen by one of them.
		last, err := d.last(ctx, room)
		if err != nil {
			return 0, fmt.Errorf("watch journal: %w", err)
		}
		d.heads.know(room, last)
	}
	for {
		position, moved := d.heads.at(h)
		if position > from {
			return position, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// last is the last position of a room's log.
func (d *DB) last(ctx context.Context, room string) (int64, error) {
	var last int64
	err := d.read.QueryRowContext(ctx, `SELECT coalesce(max(position), 0) FROM entries WHERE room = ?`, room).Scan(&last)
	if ctx.Err() != nil {
		return 0, ctx.Err()
	}
	return last, err
}

// followLoop notices what another process wrote: the operator's commands, or
// a hub of a later engine beside this one.
func (d *DB) followLoop(life context.Context) {
	ticker := time.NewTicker(500 * time.Millisecond)
	defer ticker.Stop()
	var seen int64
	for {
		select {
		case <-life.Done():
			return
		case <-ticker.C:
		}
		version, err := d.foreignChange(life)
		if err != nil || version == seen {
			continue
		}
		seen = version
		for _, room := range d.heads.held() {
			last, err := d.last(life, room)
			if err != nil {
				if life.Err() == nil {
					d.log.WarnContext(life, "follow journal", "error", err)
				}
				seen = 0 // No version: the room is looked at again.
				continue
			}
			d.heads.raise(room, last)
		}
	}
}

// foreignChange returns a number that changes when another process commits.
func (d *DB) foreignChange(ctx context.Context) (int64, error) {
	var version int64
	err := d.write.QueryRowContext(ctx, `PRAGMA data_version`).Scan(&version)
	return version, err
}
