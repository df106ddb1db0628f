package room

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// watch is one room of one identity.
type watch struct {
	w       *Watcher
	id      queue.Identity
	room    string
	log     *slog.Logger
	changes int // of the queue, seen when the room was tried
	cancel  context.CancelFunc
	outcome error         // what run returned; once ended is closed
	ended   chan struct{} // closed when run has returned

	lease queue.Lease // set before anything is read

	mu      sync.Mutex
	holds   bool             // lease is set
	said    queue.Report     // the last thing it said of itself
	fetched map[string]int64 // members still watched, and how far each has read
	socket  *remote.Socket   // while one is open
}

func newWatch(w *Watcher, id queue.Identity, room string, members []queue.Membership) *watch {
	k := &watch{w: w, id: id, room: room, log: w.cfg.Log.With("room", room), ended: make(chan struct{}), fetched: map[string]int64{}}
	for _, m := range members {
		k.fetched[m.ID] = m.Fetched
	}
	return k
}

func (k *watch) done() bool {
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}

// serves reports whether the watch is the one these members need, and drops
// members that are no longer among them. One that lacks a member has to be
// started anew, from that member's cursor.
func (k *watch) serves(members []queue.Membership) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	ids := make(map[string]bool, len(members))
	for _, m := range members {
		if _, ok := k.fetched[m.ID]; !ok {
			return false
		}
		ids[m.ID] = true
	}
	maps.DeleteFunc(k.fetched, func(id string, _ int64) bool { return !ids[id] })
	return len(ids) > 0
}

// Reasons for a watch to stop by itself, none of which is an error to show.
var (
	errAllEnded = errors.New("no member left to watch")
	errPaused   = errors.New("paused at the queue's bound")
	errNotOurs  = errors.New("somebody else is signed in")
)

// run watches under the room's lease until ctx ends, the lease is lost, the
// queue's bound is reached or no member is left. It returns why there was no
// lease, ctx's error when it was called off, else nil.
func (k *watch) run(ctx context.Context) error {
	lease, err := k.w.cfg.Queue.Lease(ctx, k.id, k.room)
	switch {
	case errors.Is(err, queue.ErrHeld), ctx.Err() != nil:
		return err // another bridge of this profile watches the room
	case err != nil:
		k.log.Warn("the room could not be leased", "error", err)
		return err
	}
	k.mu.Lock()
	k.lease, k.holds = lease, true
	k.mu.Unlock()
	defer k.giveBack(ctx)
	switch err := k.follow(ctx); {
	case ctx.Err() != nil:
	case errors.Is(err, errAllEnded):
		k.log.Info("the room is no longer watched: no member is left in it")
	case errors.Is(err, errNotOurs):
		k.log.Info("the room is no longer watched: somebody else is signed in")
	case errors.Is(err, errPaused):
		k.log.Warn("the room is paused: its events are not being taken")
	case errors.Is(err, queue.ErrStale):
		k.log.Info("another bridge has taken the room over")
	case err != nil:
		k.log.Warn("the watch ended", "error", err)
	}
	return ctx.Err()
}

// leased reports whether the watch has got as far as its lease.
func (k *watch) leased() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.holds
}

func (k *watch) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := k.w.cfg.Queue.Unlease(ctx, k.lease); err != nil && !errors.Is(err, queue.ErrClosed) {
		k.log.Warn("the lease could not be given back", "error", err)
	}
}

// start is the cursor the socket resumes from: the lowest any member needs.
func (k *watch) start() (cursor int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for _, c := range k.fetched {
		if !ok || c < cursor {
			cursor, ok = c, true
		}
	}
	return cursor, ok
}

func (k *watch) members() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return slices.Sorted(maps.Keys(k.fetched))
}

// cursor is how far member has read; ok is false when it is watched no more.
func (k *watch) cursor(member string) (cursor int64, ok bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	cursor, ok = k.fetched[member]
	return cursor, ok
}

// take stores what the room socket brought, for each member but an event's
// sender, and ends the members it removes.
func (k *watch) take(ctx context.Context, batch []frame) error {
	over := false
	for _, member := range k.members() {
		since, ok := k.cursor(member)
		if !ok {
			continue
		}
		p := sift(batch, member, since)
		over = over || p.over
		if p.cursor > since {
			if err := k.put(ctx, member, p.events, p.cursor); err != nil {
				return err
			}
		}
		if p.why != "" {
			// The event first, then the end, so that the person learns why.
			if err := k.endMember(ctx, member, p.why); err != nil {
				return err
			}
		}
	}
	if over {
		return errRoomOver
	}
	return nil
}

// storageError is a queue that did not take events: the disk is full, say.
type storageError struct{ error }

func (e storageError) Unwrap() error { return e.error }

// put stores events of a member, which may be none, and moves its cursor.
func (k *watch) put(ctx context.Context, member string, events []queue.Event, cursor int64) error {
	_, err := k.w.cfg.Queue.Put(ctx, k.lease, member, events, cursor)
	k.mu.Lock()
	defer k.mu.Unlock()
	switch {
	case err == nil:
		if at, ok := k.fetched[member]; ok {
			k.fetched[member] = max(at, cursor)
		}
		return nil
	case errors.Is(err, queue.ErrFull):
		return errPaused
	case errors.Is(err, queue.ErrUnknown): // forgotten meanwhile
		delete(k.fetched, member)
		if len(k.fetched) == 0 {
			return errAllEnded
		}
		return nil
	case ctx.Err() != nil, errors.Is(err, queue.ErrStale), errors.Is(err, queue.ErrClosed):
		return err
	}
	return storageError{err}
}

// verify ends a watch whose lease was lost while this process was stopped. An
// empty Put changes nothing and asks.
func (k *watch) verify(ctx context.Context) error {
	for _, member := range k.members() {
		if at, ok := k.cursor(member); ok {
			return k.put(ctx, member, nil, at)
		}
	}
	return nil
}

// endMember notes that a membership is over, unless the person has changed in
// the meantime: then what was seen says nothing of theirs.
func (k *watch) endMember(ctx context.Context, member, why string) error {
	if !k.ours() {
		return errNotOurs
	}
	if err := k.w.cfg.Queue.End(ctx, k.id, queue.Member{Room: k.room, ID: member}, why); err != nil {
		if ctx.Err() != nil || errors.Is(err, queue.ErrClosed) {
			return err
		}
		return storageError{err}
	}
	k.log.Info("a membership has ended", "why", why)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.fetched, member)
	if len(k.fetched) == 0 {
		return errAllEnded
	}
	return nil
}

// ours reports whether the credential is that of the watch's identity.
func (k *watch) ours() bool {
	now, ok := k.w.cfg.Identity()
	return ok && now == k.id
}

func (k *watch) setSocket(s *remote.Socket) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.socket = s
}

func (k *watch) proveSocket() {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.socket != nil {
		k.socket.Prove()
	}
}
