// Package room keeps the queue filled: one watch for each room this person's
// agents have joined, from the start of the bridge to its end, through
// restarts, sleep, outages and sign-ins.
//
// A Watcher compares what should be watched (the queue's memberships of the
// current identity, touched in the last 72 hours, not at a bound) with what is,
// and starts and stops watches. A watch holds the room's lease, so that of all
// bridges on a profile one is connected to a room. It reads the room socket,
// and polls for each member while the socket cannot be had. It never opens a
// browser: without a credential it waits for one.
package room
