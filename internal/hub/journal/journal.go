// Package journal says what the hub needs of a log engine. A room is a fold
// over an append-only log; nothing in the room logic knows which engine keeps
// it, so a replicated one can take the place of the one on local disk.
// See design.md 7.
package journal

import (
	"context"
	"errors"
)

// ErrConflict reports that the log has entries the caller has not read: read
// on, decide again, append again.
var ErrConflict = errors.New("journal: the log has moved on")

// Entry is one step of a room. Body is opaque to the engine. Position counts
// from 1 without gaps; it is set by Read and ignored by Append.
type Entry struct {
	Position int64
	Body     []byte
	Marks    []Mark // for Append alone
}

// Mark makes a room findable by something other than its name, from the
// moment its entry is stored. Marks add up, newest last. One with Drop set
// instead removes the room's earlier marks of the same space and key.
type Mark struct {
	Space, Key string
	Room       string // set by Find
	Body       []byte // free for the room logic; survives as long as the mark
	Drop       bool
}

// Log is an append-only log for each room. All methods may be called from
// many goroutines at once.
type Log interface {
	// Append stores e as the entry after position expected, durably and
	// together with its marks, or not at all. It returns ErrConflict when
	// expected is not the last position. A log begins at position 0 and comes
	// into being with its first entry. After any other error the caller must
	// read to learn whether the entry is there.
	Append(ctx context.Context, room string, expected int64, e Entry) error
	// Read returns at most limit entries after position from, oldest first.
	// It sees every Append that returned before it was called. An unknown room
	// is an empty log.
	Read(ctx context.Context, room string, from int64, limit int) ([]Entry, error)
	// Watch blocks until the log has an entry after position from, whoever
	// wrote it, and returns the last position known. It returns ctx's error
	// when that ends first.
	Watch(ctx context.Context, room string, from int64) (int64, error)
	// Forget removes a room's log and its marks, save those of the spaces to
	// keep. Watchers of the room stay blocked. It is no error when there is none.
	Forget(ctx context.Context, room string, keep ...string) error
}

// Index finds rooms by their marks.
type Index interface {
	// Find returns the marks of a space and key, newest first, at most limit;
	// all of them when limit is 0.
	Find(ctx context.Context, space, key string, limit int) ([]Mark, error)
}

// Journal is a whole engine.
type Journal interface {
	Log
	Index
}
