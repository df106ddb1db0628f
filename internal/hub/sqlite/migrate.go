package sqlite

import (
	"context"
	"database/sql"
	"fmt"
)

// applicationID marks a file as a hub's ("BHUB").
const applicationID = 0x42485542

// migrations take the schema from one version to the next and are never
// edited once released.
var migrations = []string{
	`
CREATE TABLE entries (
  seq      INTEGER PRIMARY KEY AUTOINCREMENT,
  room     TEXT NOT NULL,
  position INTEGER NOT NULL CHECK (position > 0),
  body     BLOB NOT NULL,
  UNIQUE (room, position)
) STRICT;
CREATE TABLE marks (
  id    INTEGER PRIMARY KEY AUTOINCREMENT,
  space TEXT NOT NULL,
  key   TEXT NOT NULL,
  room  TEXT NOT NULL,
  body  BLOB
) STRICT;
CREATE INDEX marks_by_key ON marks (space, key, id);
CREATE INDEX marks_by_room ON marks (room, space, key);
CREATE TABLE items (
  shelf   TEXT NOT NULL,
  key     TEXT NOT NULL,
  value   BLOB NOT NULL,
  expires INTEGER NOT NULL, -- Unix milliseconds; 0 is never
  PRIMARY KEY (shelf, key)
) STRICT, WITHOUT ROWID;
CREATE INDEX items_by_expiry ON items (expires) WHERE expires > 0;
`,
}

// migrate brings the schema up to date in one transaction that reads the
// version again, because another process may have migrated first.
func migrate(ctx context.Context, db *sql.DB) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }()
	var id, version, tables int
	if err := tx.QueryRowContext(ctx, `PRAGMA application_id`).Scan(&id); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `PRAGMA user_version`).Scan(&version); err != nil {
		return err
	}
	if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM sqlite_schema`).Scan(&tables); err != nil {
		return err
	}
	fresh := id == 0 && version == 0 && tables == 0
	switch {
	case !fresh && id != applicationID:
		return errForeign
	case version > len(migrations):
		return errNewer
	case version == len(migrations):
		return nil
	}
	for _, statements := range migrations[version:] {
		if _, err := tx.ExecContext(ctx, statements); err != nil {
			return fmt.Errorf("migrate from version %d: %w", version, err)
		}
	}
	// A pragma takes no parameters; both numbers are ours.
	mark := fmt.Sprintf(`PRAGMA application_id = %d; PRAGMA user_version = %d`, applicationID, len(migrations))
	if _, err := tx.ExecContext(ctx, mark); err != nil {
		return err
	}
	return tx.Commit()
}
