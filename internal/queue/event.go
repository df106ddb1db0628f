package queue

import (
	"encoding/json"
	"errors"
	"time"
)

// Errors a caller branches on.
var (
	// ErrHeld reports that a living owner has the room's lease.
	ErrHeld = errors.New("queue: room is leased")
	// ErrStale reports that a lease has been lost: its owner was taken for
	// dead, or somebody leased the room since.
	ErrStale = errors.New("queue: lease is stale")
	// ErrFull reports that a bound is reached and nothing was stored. The room
	// is paused (Membership.Full) until enough has been taken.
	ErrFull = errors.New("queue: full")
	// ErrUnknown reports a member that Touch has never seen.
	ErrUnknown = errors.New("queue: unknown member")
	// ErrClosed reports a queue that is closed.
	ErrClosed = errors.New("queue: closed")
	// ErrForeign reports a file that is not a queue, or one of a newer version.
	ErrForeign = errors.New("queue: not a file of this program's version")
	// ErrNetwork reports a state directory on a network file system.
	ErrNetwork = errors.New("queue: network file system")
)

// idleAfter is how long a membership is watched without any tool call.
const idleAfter = 72 * time.Hour

// Identity is who the bridge acts for. Rows of one identity are invisible to
// every other.
type Identity struct {
	Server string // canonical server URL
	User   string // signed-in user id, or a hash of the static key
}

// Member is a handle in a room.
type Member struct {
	Room string
	ID   string
}

// Event is one entry of a room's log as its watch received it.
type Event struct {
	Cursor  int64
	Type    string
	At      time.Time // kept to the microsecond
	Ambient bool
	Body    json.RawMessage // the service's event, verbatim
}

// Delivery is an event handed out to a member. Redelivered says that a reply
// which held it may have left before.
type Delivery struct {
	Member      Member
	Event       Event
	Redelivered bool
}

// Membership is a member and what is known of its watch.
type Membership struct {
	Member
	Fetched int64     // the cursor up to which the watch has read
	Touched time.Time // the last tool call that named it
	Ended   string    // why it ended; empty while it has not
	Full    bool      // its room is paused at a bound
}

// Watchable reports whether the membership should be watched at now: it has
// not ended and a tool call has named it in the last 72 hours. Nothing signals
// the moment a membership falls idle; Changed signals when it is touched again.
func (m Membership) Watchable(now time.Time) bool {
	return m.Ended == "" && now.Sub(m.Touched) <= idleAfter
}

// Next is the since_cursor to pass to the member's next sync: the highest
// cursor below which nothing is still queued.
type Next struct {
	Member      Member
	SinceCursor int64
}

// Filter selects by room, by member, or by both; an empty field matches all.
type Filter struct {
	Room   string
	Member string
}

// Limit bounds a batch. One event is always given, however large; zero means
// no limit.
type Limit struct {
	Events int
	Bytes  int // of bodies
}

// Batch is what a claim hands out. Token is empty when there was nothing.
type Batch struct {
	Token      string
	Deliveries []Delivery
	Remaining  int    // events of the filter still to be handed out
	Next       []Next // once this batch has been taken; at most the 100 members touched last, and those in the batch
}

// Pending counts what waits to be handed out.
type Pending struct {
	Events       int
	Interrupting int // events that are not ambient
	Rooms        int // rooms with an interrupting event
}
