// Package queue keeps, on this machine, what peers have said until the agent
// has it: memberships, the cursors of their watches, undelivered events and
// who is handing them out. It is one SQLite file, shared by every bridge of a
// profile; there is no bus, socket or pid file beside it.
//
// # What is promised
//
// Every event that Put stored is handed out at least once, whatever dies and
// whenever. It is handed out exactly once unless a process dies, or a reply
// fails or is cancelled, between the moment the reply may have left
// (Sent) and the moment its acknowledgement is on disk (Ack); then the events
// of that one claim come again with Redelivered set. It cannot be more: the
// reply's last byte and the row that remembers it are written by two different
// systems, no order of the two survives a death in between, and an event lost
// is worse than one that says it may be a repeat.
//
// Events and the cursor of the watch are one transaction, so they cannot part:
// Put commits with synchronous=NORMAL, and what a power cut takes back it takes
// back together and the room's log gives again. Acknowledgements and hand-overs
// commit with FULL. A power cut in the instant between a reply and its
// acknowledgement may also undo the claim, and then the repeat is not flagged.
//
// # Order
//
// A member's events are handed out strictly by cursor, so a member with a claim
// or a sync in flight gives nothing to anybody else. Across members the order
// is by time, where an event's key is the later of its own time and the key of
// its member's event before it.
//
// A sync of the agent's own is a replay from a cursor the agent names, so what
// it repeats is no repeat of the queue's. Done takes what it handed over out of
// the queue; when the process dies before that, the queue hands it out as well.
//
// # Who is alive
//
// Each open Queue is an owner: a row with a heartbeat and a lock file that is
// locked while its process lives. An owner whose lock is free is dead at once;
// one that is silent for the lease time by the observer's own monotonic clock
// is taken for dead. Its leases, claims and syncs lapse. Should it wake, its
// leases are stale and its claims are no longer its to settle, and it goes on
// under a new identity. Clocks of two processes are never compared.
//
// # What may happen to the file
//
// A network file system is refused. On a local one whose processes cannot share
// memory the file has a rollback journal instead of a write-ahead log: slower,
// with every commit FULL.
//
// A file of another program or of a newer version is refused untouched. A
// damaged one is set aside beside it, at opening or while it is in use, with
// its memberships carried over; each goes on from before its first undelivered
// event, which the room's log gives again. One that is removed while it is open
// is written anew from the descriptors still held. On a full disk calls fail
// with the reason and change nothing; acknowledgements are tried again.
package queue
