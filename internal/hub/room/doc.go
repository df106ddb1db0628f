// Package room is what a Bellman room does: who sits in it, what they may do,
// what happened, and what anyone is told about it. A room is a fold over its
// log; every change is decided on the folded state and appended on condition
// that nothing else was appended meanwhile. Nothing here knows which engine
// keeps the log. See protocol.md 0 to 5.
package room
