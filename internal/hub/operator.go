package hub

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"bellman.sh/desktop/internal/hub/blob"
	"bellman.sh/desktop/internal/hub/room"
	"bellman.sh/desktop/internal/hub/sqlite"
)

// Operator works on a data directory from outside, beside a hub that serves
// it or without one.
type Operator struct {
	db    *sqlite.DB
	blobs *blob.Store
	house *room.House
	keys  keyring
}

// OpenOperator opens a data directory that a hub has made. Errors name the
// path.
func OpenOperator(ctx context.Context, data string, log *slog.Logger) (*Operator, error) {
	path := filepath.Join(data, "hub.db")
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("open data directory: %w", err)
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path, Shared: true, Log: log})
	if err != nil {
		return nil, err
	}
	blobs, err := blob.Open(filepath.Join(data, "blobs"))
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	return &Operator{
		db: db, blobs: blobs, house: room.NewHouse(db, time.Now, blobs.Remove), keys: newKeyring(Config{}, db),
	}, nil
}

// Close lets go of the data directory.
func (o *Operator) Close() error { return errors.Join(o.blobs.Close(), o.db.Close()) }

// Freeze refuses every write to a room until Thaw.
func (o *Operator) Freeze(ctx context.Context, id string) error { return o.house.Freeze(ctx, id) }

// Thaw undoes Freeze.
func (o *Operator) Thaw(ctx context.Context, id string) error { return o.house.Thaw(ctx, id) }

// Check reads everything: the database, every room's log and every file a
// room knows. It returns how many rooms there are, and the first damage.
func (o *Operator) Check(ctx context.Context) (rooms int, err error) {
	if err := o.db.Check(ctx); err != nil {
		return 0, err
	}
	return o.house.Verify(ctx, func(b room.Blob) error {
		f, err := o.blobs.Open(b.ID)
		if err != nil {
			return err
		}
		defer func() { _ = f.Close() }()
		info, err := f.Stat()
		if err != nil {
			return fmt.Errorf("check blob %s: %w", b.ID, err)
		}
		if info.Size() != b.Bytes {
			return fmt.Errorf("check blob %s: %d bytes, want %d", b.ID, info.Size(), b.Bytes)
		}
		return nil
	})
}

// Backup writes a consistent copy of everything to a new directory, while a
// hub may go on serving. Files are copied before the database and again after
// it, so that none it names is missing.
func (o *Operator) Backup(ctx context.Context, to string) error {
	if err := os.Mkdir(to, 0o700); err != nil {
		return fmt.Errorf("back up: %w", err)
	}
	copies, err := blob.Open(filepath.Join(to, "blobs"))
	if err != nil {
		return err
	}
	defer func() { _ = copies.Close() }()
	if err := o.blobs.CopyTo(ctx, copies); err != nil {
		return err
	}
	if err := o.db.Backup(ctx, filepath.Join(to, "hub.db")); err != nil {
		return err
	}
	return o.blobs.CopyTo(ctx, copies)
}

// ErrKeyExists reports a key name that is taken.
var ErrKeyExists = errors.New("a key of this name exists")

var keyNameForm = regexp.MustCompile(`^[a-zA-Z0-9][a-zA-Z0-9._-]{0,63}$`)

// AddKey makes a static key for an identity and returns it. It is shown this
// once: only its digest is kept. A serving hub accepts it at once.
func (o *Operator) AddKey(ctx context.Context, name string, id Identity) (string, error) {
	if !keyNameForm.MatchString(name) {
		return "", fmt.Errorf("add key: the name %q must be letters, digits, dots, dashes and underscores", name)
	}
	if err := id.Check(); err != nil {
		return "", fmt.Errorf("add key: %w", err)
	}
	keys, err := o.Keys(ctx)
	if err != nil {
		return "", err
	}
	for _, k := range keys {
		if k.Name == name {
			return "", fmt.Errorf("add key %s: %w", name, ErrKeyExists)
		}
	}
	value, err := json.Marshal(storedKey{Name: name, Identity: id})
	if err != nil {
		return "", fmt.Errorf("add key: %w", err)
	}
	key := "qk_" + rand.Text() + rand.Text()
	return key, o.keys.added.Put(ctx, digest(key), value, time.Time{})
}

// Key is a static key that was added, without the key.
type Key struct {
	Name     string
	Identity Identity
	digest   string
}

// Keys lists the keys that were added.
func (o *Operator) Keys(ctx context.Context) ([]Key, error) {
	items, err := o.keys.added.List(ctx, "")
	if err != nil {
		return nil, err
	}
	keys := make([]Key, len(items))
	for i, item := range items {
		var stored storedKey
		if err := json.Unmarshal(item.Value, &stored); err != nil {
			return nil, fmt.Errorf("read stored key: %w", err)
		}
		keys[i] = Key{Name: stored.Name, Identity: stored.Identity, digest: item.Key}
	}
	return keys, nil
}

// RevokeKey forgets a key. A serving hub refuses it from its next request on.
func (o *Operator) RevokeKey(ctx context.Context, name string) error {
	keys, err := o.Keys(ctx)
	if err != nil {
		return err
	}
	for _, k := range keys {
		if k.Name == name {
			return o.keys.added.Drop(ctx, k.digest)
		}
	}
	return fmt.Errorf("revoke key %s: %w", name, fs.ErrNotExist)
}
