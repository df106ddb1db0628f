package room

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// watch is one room of one identity.
type watch struct {
	w      *Watcher
	id     queue.Identity
	room   string
	want   []string // the members it was started for, sorted
	log    *slog.Logger
	cancel context.CancelFunc
	ended  chan struct{}

	lease queue.Lease

	mu      sync.Mutex
	fetched map[string]int64 // members still watched, and how far each has read
	socket  *remote.Socket   // while one is open
}

func newWatch(w *Watcher, id queue.Identity, room string, members []queue.Membership) *watch {
	k := &watch{w: w, id: id, room: room, log: w.cfg.Log.With("room", room), ended: make(chan struct{}), fetched: map[string]int64{}}
	for _, m := range members {
		k.fetched[m.ID] = m.Fetched
	}
	k.want = names(members)
	return k
}

func names(members []queue.Membership) []string {
	var ids []string
	for _, m := range members {
		ids = append(ids, m.ID)
	}
	slices.Sort(ids)
	return ids
}

func (k *watch) done() bool {
	select {
	case <-k.ended:
		return true
	default:
		return false
	}
}

// serves reports whether the watch is the one these members need. One that
// lost a member of its own goes on; one that lacks a member does not.
func (k *watch) serves(members []queue.Membership) bool {
	if len(members) == 0 || k.id != k.w.id {
		return false
	}
	for _, id := range names(members) {
		if !slices.Contains(k.want, id) {
			return false
		}
	}
	return true
}

// Reasons for a watch to stop by itself, none of which is an error to show.
var (
	errAllEnded = errors.New("no member left to watch")
	errPaused   = errors.New("paused at the queue's bound")
)

// run watches under the room's lease until ctx ends, the lease is lost, the
// queue's bound is reached or no member is left.
func (k *watch) run(ctx context.Context) {
	lease, err := k.w.cfg.Queue.Lease(ctx, k.id, k.room)
	switch {
	case errors.Is(err, queue.ErrHeld), ctx.Err() != nil:
		return // another bridge of this profile watches the room
	case err != nil:
		k.log.Warn("the room could not be leased", "error", err)
		return
	}
	k.lease = lease
	defer k.giveBack(ctx)
	switch err := k.follow(ctx); {
	case ctx.Err() != nil:
	case errors.Is(err, errAllEnded):
		k.log.Info("the room is no longer watched: no member is left in it")
	case errors.Is(err, errPaused):
		k.log.Warn("the room is paused: its events are not being taken")
	case errors.Is(err, queue.ErrStale):
		k.log.Info("another bridge has taken the room over")
	case err != nil:
		k.log.Warn("the watch ended", "error", err)
	}
}

func (k *watch) giveBack(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	if err := k.w.cfg.Queue.Unlease(ctx, k.lease); err != nil && !errors.Is(err, queue.ErrStale) {
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
	var ids []string
	for id := range k.fetched {
		ids = append(ids, id)
	}
	return ids
}

func (k *watch) cursor(member string) int64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.fetched[member]
}

// take stores an event of the room socket for each member but its sender.
func (k *watch) take(ctx context.Context, e bellman.Event, raw json.RawMessage) error {
	for _, member := range k.members() {
		if e.Cursor <= k.cursor(member) {
			continue
		}
		var events []queue.Event
		if e.From.MemberID != member {
			events = []queue.Event{asQueued(e, raw)}
		}
		if err := k.put(ctx, member, events, e.Cursor); err != nil {
			return err
		}
		if e.Removes(member) {
			// The event first, then the end, so that the person learns why.
			if err := k.endMember(ctx, member, "removed"); err != nil {
				return err
			}
		}
	}
	return nil
}

func asQueued(e bellman.Event, raw json.RawMessage) queue.Event {
	return queue.Event{Cursor: e.Cursor, Type: e.Type, At: e.Time(), Ambient: e.Ambient, Body: raw}
}

func (k *watch) put(ctx context.Context, member string, events []queue.Event, cursor int64) error {
	_, err := k.w.cfg.Queue.Put(ctx, k.lease, member, events, cursor)
	if errors.Is(err, queue.ErrFull) {
		return errPaused
	}
	if err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.fetched[member] = max(k.fetched[member], cursor)
	return nil
}

// endMember notes that a membership is over, unless the person has changed in
// the meantime: then what was seen says nothing of theirs.
func (k *watch) endMember(ctx context.Context, member, why string) error {
	if now, ok := k.w.cfg.Identity(); !ok || now != k.id {
		return errAllEnded
	}
	if err := k.w.cfg.Queue.End(ctx, k.id, queue.Member{Room: k.room, ID: member}, why); err != nil {
		return err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.fetched, member)
	if len(k.fetched) == 0 {
		return errAllEnded
	}
	return nil
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
