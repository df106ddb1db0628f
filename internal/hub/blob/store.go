// Package blob keeps the files of rooms: written beside their place and
// renamed into it, so that a file is whole or not there. Who may have which
// file, and what it counts against, is the rooms' business.
package blob

import (
	"bufio"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"time"
)

// ErrLength reports a body that was not as long as it was said to be. Nothing
// was kept of it.
var ErrLength = errors.New("blob: the body is not as long as announced")

var idForm = regexp.MustCompile(`^[0-9a-f]{32}$`)

// unfinished is how old a file must be to be a leftover.
const unfinished = 24 * time.Hour

// Store is a directory of blobs. Its methods may be called from many
// goroutines, and by several processes.
type Store struct {
	root    *os.Root
	dir     string
	discard bool // remove everything on Close
}

// Open opens the blobs under dir, making the directory when there is none. An
// empty dir is a temporary one that Close removes.
func Open(dir string) (*Store, error) {
	s := &Store{dir: dir}
	if dir == "" {
		temp, err := os.MkdirTemp("", "bellman-hub-blobs-*")
		if err != nil {
			return nil, fmt.Errorf("make blob directory: %w", err)
		}
		s.dir, s.discard = temp, true
	} else if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("make blob directory: %w", err)
	}
	root, err := os.OpenRoot(s.dir)
	if err != nil {
		return nil, fmt.Errorf("open blob directory: %w", err)
	}
	s.root = root
	return s, nil
}

// Close lets go of the directory.
func (s *Store) Close() error {
	err := s.root.Close()
	if s.discard {
		err = errors.Join(err, os.RemoveAll(s.dir))
	}
	return err
}

// ID reports whether text has the form of a blob id.
func ID(text string) bool { return idForm.MatchString(text) }

// place is where a blob lies: spread over directories by the head of its id.
func place(id string) string { return filepath.Join(id[:2], id) }

// Stored is a blob that has been put.
type Stored struct {
	ID    string
	Bytes int64
	Head  []byte // the first bytes, to tell images by
}

// Put stores a body that must be exactly length bytes long, durably. Its
// memory does not grow with the length.
func (s *Store) Put(ctx context.Context, body io.Reader, length int64) (Stored, error) {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // It never fails.
	id := hex.EncodeToString(raw[:])
	head, err := s.putAs(ctx, id, body, length)
	if err != nil {
		return Stored{}, fmt.Errorf("put blob: %w", err)
	}
	return Stored{ID: id, Bytes: length, Head: head}, nil
}

// putAs stores a body under an id.
func (s *Store) putAs(ctx context.Context, id string, body io.Reader, length int64) (head []byte, err error) {
	if err := s.root.Mkdir(id[:2], 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, err
	}
	beside := place(id) + ".part"
	head, err = s.write(ctx, beside, body, length)
	if err == nil {
		err = s.root.Rename(beside, place(id))
	}
	if err != nil {
		return nil, errors.Join(err, ignoreMissing(s.root.Remove(beside)))
	}
	return head, s.syncDir(id[:2])
}

func (s *Store) write(ctx context.Context, name string, body io.Reader, length int64) (head []byte, err error) {
	f, err := s.root.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, err
	}
	defer func() {
		if e := f.Close(); err == nil && e != nil {
			err = e
		}
	}()
	// One byte more than announced tells a body that is too long.
	in := bufio.NewReaderSize(&io.LimitedReader{R: &ctxReader{ctx: ctx, r: body}, N: length + 1}, 64<<10)
	first, err := in.Peek(16)
	if errors.Is(err, io.ErrUnexpectedEOF) { // Peeking uses the error up.
		return nil, ErrLength
	}
	head = append(head, first...)
	n, err := io.Copy(f, in)
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF), err == nil && n != length:
		return nil, ErrLength
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil:
		return nil, err
	}
	if err := f.Sync(); err != nil {
		return nil, err
	}
	return head, nil
}

// ctxReader stops reading when its context ends.
type ctxReader struct {
	ctx context.Context //nolint:containedctx // Lives for one copy.
	r   io.Reader
}

func (c *ctxReader) Read(p []byte) (int, error) {
	if err := c.ctx.Err(); err != nil {
		return 0, err
	}
	return c.r.Read(p)
}

// syncDir makes a rename in a directory durable.
func (s *Store) syncDir(name string) error {
	if runtime.GOOS == "windows" { // It has no such thing, and says so badly.
		return nil
	}
	d, err := s.root.Open(name)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	return d.Sync()
}

// Open opens a blob for reading. The error is fs.ErrNotExist when there is
// none.
func (s *Store) Open(id string) (*os.File, error) {
	if !ID(id) {
		return nil, fmt.Errorf("open blob: %w", fs.ErrNotExist)
	}
	f, err := s.root.Open(place(id))
	if err != nil {
		return nil, fmt.Errorf("open blob: %w", err)
	}
	return f, nil
}

// Remove removes a blob; it is no error when there is none.
func (s *Store) Remove(id string) error {
	if !ID(id) {
		return nil
	}
	if err := ignoreMissing(s.root.Remove(place(id))); err != nil {
		return fmt.Errorf("remove blob: %w", err)
	}
	return nil
}

// Sweep removes what interrupted uploads left: parts, and whole blobs that
// nobody knows. Younger files are left alone, for they may be on their way.
func (s *Store) Sweep(now time.Time, known func(id string) (bool, error)) error {
	return fs.WalkDir(s.root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return ignoreMissing(err)
		}
		info, err := d.Info()
		if err != nil || now.Sub(info.ModTime()) < unfinished {
			return ignoreMissing(err)
		}
		if ID(d.Name()) {
			if kept, err := known(d.Name()); err != nil || kept {
				return err
			}
		} else if !strings.HasSuffix(path, ".part") {
			return nil
		}
		return ignoreMissing(s.root.Remove(filepath.FromSlash(path)))
	})
}

func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// CopyTo copies every whole blob that to lacks.
func (s *Store) CopyTo(ctx context.Context, to *Store) error {
	return fs.WalkDir(s.root.FS(), ".", func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !ID(d.Name()) {
			return ignoreMissing(err)
		}
		if err := s.copyOne(ctx, to, d.Name()); err != nil {
			return fmt.Errorf("copy blob %s: %w", d.Name(), err)
		}
		return nil
	})
}

func (s *Store) copyOne(ctx context.Context, to *Store, id string) error {
	if _, err := to.root.Stat(place(id)); err == nil {
		return nil
	}
	from, err := s.root.Open(place(id))
	if err != nil {
		return ignoreMissing(err) // Swept since it was listed.
	}
	defer func() { _ = from.Close() }()
	info, err := from.Stat()
	if err != nil {
		return err
	}
	_, err = to.putAs(ctx, id, from, info.Size())
	return err
}
