package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
	"unicode"
)

// Shelf is a named collection of small items outside any room. Expired items
// read as absent at once and are removed by Sweep. The zero expiry is never.
type Shelf struct {
	db   *DB
	name string
}

// Item is one thing on a shelf.
type Item struct {
	Key   string
	Value []byte
}

// Shelf returns the shelf of that name; there is no need to create one.
func (d *DB) Shelf(name string) Shelf { return Shelf{db: d, name: name} }

const putSQL = `INSERT INTO items (shelf, key, value, expires) VALUES (?, ?, ?, ?)
	ON CONFLICT (shelf, key) DO UPDATE SET value = excluded.value, expires = excluded.expires`

// Put stores value under key in place of what is there.
func (s Shelf) Put(ctx context.Context, key string, value []byte, expires time.Time) error {
	if _, err := s.db.write.ExecContext(ctx, putSQL, s.name, key, value, millis(expires)); err != nil {
		return fmt.Errorf("put on shelf %s: %w", s.name, err)
	}
	return nil
}

// Get returns the item under key, and whether there is one.
func (s Shelf) Get(ctx context.Context, key string) ([]byte, bool, error) {
	var value []byte
	err := s.db.read.QueryRowContext(ctx,
		`SELECT value FROM items WHERE shelf = ? AND key = ? AND (expires = 0 OR expires > ?)`,
		s.name, key, s.db.now().UnixMilli()).Scan(&value)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("get from shelf %s: %w", s.name, err)
	}
	return value, true, nil
}

// Take removes the item under key and returns it. Of many takers one gets it.
func (s Shelf) Take(ctx context.Context, key string) ([]byte, bool, error) {
	var value []byte
	var expires int64
	err := s.db.write.QueryRowContext(ctx,
		`DELETE FROM items WHERE shelf = ? AND key = ? RETURNING value, expires`, s.name, key).Scan(&value, &expires)
	switch {
	case errors.Is(err, sql.ErrNoRows):
		return nil, false, nil
	case err != nil:
		return nil, false, fmt.Errorf("take from shelf %s: %w", s.name, err)
	}
	if expires != 0 && expires <= s.db.now().UnixMilli() {
		return nil, false, nil
	}
	return value, true, nil
}

// Drop removes the item under key, if any.
func (s Shelf) Drop(ctx context.Context, key string) error {
	if _, err := s.db.write.ExecContext(ctx, `DELETE FROM items WHERE shelf = ? AND key = ?`, s.name, key); err != nil {
		return fmt.Errorf("drop from shelf %s: %w", s.name, err)
	}
	return nil
}

// List returns the items whose key begins with prefix, by key.
func (s Shelf) List(ctx context.Context, prefix string) ([]Item, error) {
	// As a range the prefix is looked up; no text is above the last rune.
	rows, err := s.db.read.QueryContext(ctx,
		`SELECT key, value FROM items WHERE shelf = ? AND key >= ? AND key < ? AND (expires = 0 OR expires > ?) ORDER BY key`,
		s.name, prefix, prefix+string(unicode.MaxRune), s.db.now().UnixMilli())
	if err != nil {
		return nil, fmt.Errorf("list shelf %s: %w", s.name, err)
	}
	defer func() { _ = rows.Close() }()
	var items []Item
	for rows.Next() {
		var i Item
		if err := rows.Scan(&i.Key, &i.Value); err != nil {
			return nil, fmt.Errorf("list shelf %s: %w", s.name, err)
		}
		items = append(items, i)
	}
	if err := rows.Err(); err != nil {
		return nil, fmt.Errorf("list shelf %s: %w", s.name, err)
	}
	return items, nil
}

// Size returns how many items there are.
func (s Shelf) Size(ctx context.Context) (int, error) {
	var n int
	err := s.db.read.QueryRowContext(ctx, `SELECT count(*) FROM items WHERE shelf = ? AND (expires = 0 OR expires > ?)`,
		s.name, s.db.now().UnixMilli()).Scan(&n)
	if err != nil {
		return 0, fmt.Errorf("count shelf %s: %w", s.name, err)
	}
	return n, nil
}

// Count adds one to the counter under key unless it stands at limit, and
// reports whether it did. A counter that expired starts again; the expiry is
// set when it starts.
func (s Shelf) Count(ctx context.Context, key string, limit int, expires time.Time) (bool, error) {
	now := s.db.now().UnixMilli()
	result, err := s.db.write.ExecContext(ctx, `INSERT INTO items (shelf, key, value, expires) VALUES (?1, ?2, CAST('1' AS BLOB), ?3)
		ON CONFLICT (shelf, key) DO UPDATE SET
			value = CASE WHEN expires > 0 AND expires <= ?4 THEN CAST('1' AS BLOB) ELSE CAST(CAST(value AS TEXT) + 1 AS BLOB) END,
			expires = CASE WHEN expires > 0 AND expires <= ?4 THEN excluded.expires ELSE expires END
		WHERE CAST(CAST(value AS TEXT) AS INTEGER) < ?5 OR (expires > 0 AND expires <= ?4)`,
		s.name, key, millis(expires), now, limit)
	if err != nil {
		return false, fmt.Errorf("count on shelf %s: %w", s.name, err)
	}
	n, err := result.RowsAffected()
	if err != nil {
		return false, fmt.Errorf("count on shelf %s: %w", s.name, err)
	}
	return n > 0, nil
}

// Sweep removes what has expired on every shelf.
func (d *DB) Sweep(ctx context.Context) error {
	if _, err := d.write.ExecContext(ctx, `DELETE FROM items WHERE expires > 0 AND expires <= ?`, d.now().UnixMilli()); err != nil {
		return fmt.Errorf("sweep shelves: %w", err)
	}
	return nil
}

func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// Placement is one Put of PutAll.
type Placement struct {
	Shelf   Shelf
	Key     string
	Value   []byte
	Expires time.Time
}

// PutAll stores all of the placements or none.
func (d *DB) PutAll(ctx context.Context, placements ...Placement) error {
	tx, err := d.write.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("put on shelves: %w", err)
	}
	defer func() { _ = tx.Rollback() }()
	for _, p := range placements {
		if _, err := tx.ExecContext(ctx, putSQL, p.Shelf.name, p.Key, p.Value, millis(p.Expires)); err != nil {
			return fmt.Errorf("put on shelf %s: %w", p.Shelf.name, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return fmt.Errorf("put on shelves: %w", err)
	}
	return nil
}
