package room

import (
	"encoding/json"
	"sync"

	"bellman.sh/desktop/internal/bellman"
)

// frame is an event and the bytes it came in.
type frame struct {
	event bellman.Event
	raw   json.RawMessage
}

// A batch is one transaction. These bound it, and so what is held in memory
// while the one before is being stored.
const (
	batchEvents = 500
	batchBytes  = 1 << 20
)

// intake stores frames in batches: those that arrive while one batch is being
// written make up the next. A frame that comes alone is stored at once, and an
// idle intake has no goroutine.
type intake struct {
	store func([]frame) error // called by one goroutine at a time
	abort func()              // ends the reading when store has failed

	mu      sync.Mutex
	space   *sync.Cond // signalled when the batch has been taken away
	pending []frame
	bytes   int
	busy    bool
	err     error
	writing sync.WaitGroup
}

func newIntake(store func([]frame) error, abort func()) *intake {
	in := &intake{store: store, abort: abort}
	in.space = sync.NewCond(&in.mu)
	return in
}

// add hands a frame over. It blocks while a whole batch waits, and returns
// what store has failed with.
func (in *intake) add(f frame) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.err == nil && (len(in.pending) >= batchEvents || in.bytes >= batchBytes) {
		in.space.Wait()
	}
	if in.err != nil {
		return in.err
	}
	in.pending = append(in.pending, f)
	in.bytes += len(f.raw)
	if !in.busy {
		in.busy = true
		in.writing.Go(in.write)
	}
	return nil
}

// finish waits until everything added is stored, and returns what store has
// failed with.
func (in *intake) finish() error {
	in.writing.Wait()
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.err
}

// write stores batches until there is none.
func (in *intake) write() {
	for batch := in.next(); batch != nil; batch = in.next() {
		if err := in.store(batch); err != nil {
			in.fail(err)
			return
		}
	}
}

func (in *intake) next() []frame {
	in.mu.Lock()
	defer in.mu.Unlock()
	batch := in.pending
	in.pending, in.bytes = nil, 0
	in.busy = len(batch) > 0
	in.space.Signal()
	return batch
}

func (in *intake) fail(err error) {
	in.mu.Lock()
	in.err = err
	in.space.Signal()
	in.mu.Unlock()
	in.abort()
}
