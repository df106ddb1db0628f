package queue

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// State is what becomes of a room's events at the moment.
type State string

// What a watch says of itself with Report.
const (
	StateConnecting State = "connecting"
	StateSocket     State = "socket"  // the room socket is open
	StatePolling    State = "polling" // there is no socket to be had
	StateWaiting    State = "waiting" // for a credential, the network or the service
	StatePaused     State = "paused"  // events are not taken: a bound is reached, or the file cannot be written
)

// What Inspect finds where no watch can say it.
const (
	StateUnwatched State = "unwatched" // no living bridge holds the lease
	StateIdle      State = "idle"      // no tool call for 72 hours
	StateEnded     State = "ended"     // no member is left in the room
)

// Report is what the watch that holds Lease says of itself. An empty Problem
// leaves the last one standing.
type Report struct {
	Lease     Lease
	State     State
	Since     time.Time
	Problem   string // in plain words, without a secret or anything a peer wrote
	ProblemAt time.Time
}

// reportChunk is how many reports are written in one transaction: a Put waits
// for one and not for a thousand.
const reportChunk = 100

// Report notes what watches say, for those who look with Inspect. A report
// under a lease that is lost changes nothing. Nobody is told of it: it is for
// people, and its caller bounds how often it is written.
func (q *Queue) Report(ctx context.Context, reports []Report) error {
	for some := range slices.Chunk(reports, reportChunk) {
		err := q.write(ctx, false, func(ctx context.Context, c *conn) error {
			for _, r := range some {
				_, err := c.exec(ctx, `update room set state = ?1, since = ?2, problem = iif(?3 = '', problem, ?3), problem_at = iif(?3 = '', problem_at, ?4)
					where id = ?5 and owner = ?6 and epoch = ?7`,
					string(r.State), r.Since.UnixMilli(), r.Problem, r.ProblemAt.UnixMilli(), r.Lease.room, r.Lease.owner, r.Lease.Epoch)
				if err != nil {
					return err
				}
			}
			return nil
		})
		if err != nil {
			return fmt.Errorf("report on watches: %w", err)
		}
	}
	return nil
}
