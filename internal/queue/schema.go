package queue

import (
	"context"
	"embed"
	"fmt"
	"strconv"
)

//go:embed schema/*.sql
var schemas embed.FS

const (
	// applicationID marks our files ("BELQ"), so that no other program's
	// database is ever migrated or set aside.
	applicationID = 0x42454c51
	// schemaVersion is the number of the newest file in schema/.
	schemaVersion = 2
)

// stamp is what a file says of itself.
type stamp struct {
	application int64
	version     int64
	tables      int64
}

// readStamp reads the stamp of the file behind c.
func readStamp(ctx context.Context, c *conn) (stamp, error) {
	var s stamp
	for query, dest := range map[string]*int64{
		"pragma application_id":              &s.application,
		"pragma user_version":                &s.version,
		"select count(*) from sqlite_schema": &s.tables,
	} {
		if err := c.c.QueryRowContext(ctx, query).Scan(dest); err != nil {
			return stamp{}, err
		}
	}
	return s, nil
}

// check refuses a file that is somebody else's or newer than this program. An
// empty file passes.
func (s stamp) check() error {
	switch {
	case s.application == 0 && s.version == 0 && s.tables == 0:
		return nil
	case s.application != applicationID:
		return fmt.Errorf("%w: it belongs to another program", ErrForeign)
	case s.version > schemaVersion:
		return fmt.Errorf("%w: it is of version %d and this program knows %d", ErrForeign, s.version, schemaVersion)
	}
	return nil
}

// migrate brings the file to schemaVersion, one immediate transaction a step.
// Each reads the version again first: another process may have been faster.
func migrate(ctx context.Context, c *conn) error {
	for step := int64(1); step <= schemaVersion; step++ {
		err := c.transact(ctx, func(ctx context.Context, c *conn) error {
			s, err := readStamp(ctx, c)
			if err != nil || s.version >= step {
				return err
			}
			if err := s.check(); err != nil {
				return err
			}
			text, err := schemas.ReadFile(fmt.Sprintf("schema/%04d.sql", step))
			if err != nil {
				return err
			}
			if _, err := c.c.ExecContext(ctx, string(text)); err != nil {
				return err
			}
			if err := c.pragma(ctx, "application_id="+strconv.Itoa(applicationID)); err != nil {
				return err
			}
			return c.pragma(ctx, "user_version="+strconv.FormatInt(step, 10))
		})
		if err != nil {
			return fmt.Errorf("migrate to version %d: %w", step, err)
		}
	}
	return nil
}
