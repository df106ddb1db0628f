package room

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"bellman.sh/desktop/internal/hub/journal"
)

// Rooms stay folded in memory while nobody uses them, up to so many and to so
// many bytes of events.
const (
	keepFolded = 1024
	keepBytes  = 256 << 20
)

// House is all rooms of a hub. Its methods may be called from many goroutines
// at once. A method that returns an *Error changed nothing, save that the
// caller may have been noted as present.
type House struct {
	log     journal.Journal
	now     func() time.Time
	discard func(blob string) error
	closing chan struct{}
	once    sync.Once

	mu    sync.Mutex
	rooms map[string]*room
	bytes int64            // of the rooms' events, as last weighed
	due   map[string]int64 // when Beat need look at a room again; never changed, only replaced
}

// NewHouse returns the rooms kept in log. The clock is for everything a room
// dates and expires; discard removes a blob that no room has any more.
func NewHouse(log journal.Journal, now func() time.Time, discard func(blob string) error) *House {
	return &House{
		log: log, now: now, discard: discard, closing: make(chan struct{}), rooms: map[string]*room{},
	}
}

// Close ends every long poll as if its time had passed. Nothing is lost by
// it, and calls that do not wait go on working.
func (h *House) Close() { h.once.Do(func() { close(h.closing) }) }

// room is one room at work: its fold, and who is connected to it.
type room struct {
	id    string
	house *House
	turn  chan struct{} // holds one token; its taker may append
	news  chan struct{} // holds one token; its taker reads what others wait for
	uses  int           // under house.mu, as are the next two
	used  time.Time
	bytes int64

	mu      sync.RWMutex
	state   *state         // read and folded under mu, never during I/O
	sockets map[string]int // open sockets by user id
	gone    chan struct{}  // closed when the record was deleted
}

// enter returns the room caught up with its log. The caller must call leave
// when it is done. A room nobody ever opened is refused as not found.
func (h *House) enter(ctx context.Context, id string) (r *room, leave func(), err error) {
	r = h.hold(id)
	leave = func() { h.release(r) }
	if err := r.reach(ctx); err != nil {
		leave()
		return nil, nil, err
	}
	if r.position() == 0 || r.purged() {
		leave()
		return nil, nil, errNotFound()
	}
	return r, leave, nil
}

// purged reports whether the room's record was deleted under its users.
func (r *room) purged() bool {
	select {
	case <-r.gone:
		return true
	default:
		return false
	}
}

func (h *House) hold(id string) *room {
	h.mu.Lock()
	defer h.mu.Unlock()
	r := h.rooms[id]
	if r == nil {
		r = &room{id: id, house: h, turn: make(chan struct{}, 1), news: make(chan struct{}, 1), state: newState(), sockets: map[string]int{}, gone: make(chan struct{})}
		h.rooms[id] = r
	}
	r.uses++
	return r
}

// release lets go of r. Unused rooms beyond what is kept are dropped, the
// longest unused first, and folded again when somebody comes.
func (h *House) release(r *room) {
	h.mu.Lock()
	defer h.mu.Unlock()
	r.uses--
	r.used = h.now()
	if r.uses > 0 || h.rooms[r.id] != r {
		return
	}
	if r.position() == 0 {
		h.dropLocked(r)
		return
	}
	weight := r.weight()
	h.bytes += weight - r.bytes
	r.bytes = weight
	for len(h.rooms) > keepFolded || h.bytes > keepBytes {
		var oldest *room
		for _, other := range h.rooms {
			if other.uses == 0 && (oldest == nil || other.used.Before(oldest.used)) {
				oldest = other
			}
		}
		if oldest == nil {
			return
		}
		h.dropLocked(oldest)
	}
}

// dropLocked forgets a folded room. The caller holds h.mu.
func (h *House) dropLocked(r *room) {
	h.bytes -= r.bytes
	delete(h.rooms, r.id)
}

// weight is about how much memory the room's events take.
func (r *room) weight() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state.bytes
}

// position is how far the room is folded.
func (r *room) position() int64 {
	r.mu.RLock()
	defer r.mu.RUnlock()
	return r.state.position
}

// look runs f on the folded state. F must not block, and must not keep
// anything that a later record changes.
func (r *room) look(f func(s *state, now int64)) {
	now := r.house.now().UnixMilli()
	r.mu.RLock()
	defer r.mu.RUnlock()
	f(r.state, now)
}

// reach folds in whatever the log has that the room does not.
func (r *room) reach(ctx context.Context) error {
	const page = 512
	for {
		entries, err := r.house.log.Read(ctx, r.id, r.position(), page)
		if err != nil {
			return fmt.Errorf("read room %s: %w", r.id, err)
		}
		if err := r.fold(entries); err != nil {
			return fmt.Errorf("read room %s: %w", r.id, err)
		}
		if len(entries) < page {
			return nil
		}
	}
}

// reachTo folds in the log up to a position it is known to have. Of many who
// were woken by the same entry, one reads it.
func (r *room) reachTo(ctx context.Context, position int64) error {
	if r.position() >= position {
		return nil
	}
	select {
	case r.news <- struct{}{}:
		defer func() { <-r.news }()
	case <-ctx.Done():
		return ctx.Err()
	}
	if r.position() >= position {
		return nil
	}
	return r.reach(ctx)
}

// fold applies entries that follow the state; another goroutine may have
// applied some already.
func (r *room) fold(entries []journal.Entry) error {
	if len(entries) == 0 {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, e := range entries {
		if e.Position != r.state.position+1 {
			continue
		}
		if err := r.state.applyEntry(e.Position, e.Body); err != nil {
			return err
		}
	}
	return nil
}

// decision looks at a state and says what is to be recorded at time now. It
// may return both a record and a refusal: the record is stored all the same.
// It must not keep or change the state and may run more than once.
type decision func(s *state, now int64) (*record, error)

// change decides and appends, one caller at a time. When somebody else
// appended in between, as another hub on the same log may, it decides again.
func (r *room) change(ctx context.Context, decide decision) error {
	select {
	case r.turn <- struct{}{}:
		defer func() { <-r.turn }()
	case <-ctx.Done():
		return ctx.Err()
	}
	for {
		var rec *record
		var verdict error
		var position int64
		r.look(func(s *state, now int64) {
			now = max(now, s.lastAt)
			position = s.position
			if rec, verdict = decide(s, now); rec != nil {
				rec.At = now
			}
		})
		if rec == nil || rec.empty() {
			return verdict
		}
		err := r.append(ctx, position, rec)
		if errors.Is(err, journal.ErrConflict) {
			if err := r.reach(ctx); err != nil {
				return err
			}
			if r.position() == position {
				return errNotFound() // The log is gone from under the fold.
			}
			continue
		}
		if err != nil {
			return err
		}
		return verdict
	}
}

// append stores rec after position and folds it in.
func (r *room) append(ctx context.Context, position int64, rec *record) error {
	body, err := encode(rec)
	if err != nil {
		return err
	}
	marks, err := r.marks(rec)
	if err != nil {
		return err
	}
	if err := r.house.log.Append(ctx, r.id, position, journal.Entry{Body: body, Marks: marks}); err != nil {
		if errors.Is(err, journal.ErrConflict) {
			return err
		}
		return fmt.Errorf("store in room %s: %w", r.id, err)
	}
	return r.fold([]journal.Entry{{Position: position + 1, Body: body}})
}
