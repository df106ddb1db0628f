package room

import (
	"context"
	"errors"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// reading is what both clocks say: the wall's, which goes on while the machine
// sleeps and can be set, and how long the program has run.
type reading struct {
	wall    time.Time
	running time.Duration
}

var started = time.Now()

func readClocks() reading {
	now := time.Now()
	return reading{wall: now.Round(0), running: now.Sub(started)}
}

// slept reports whether the machine slept between two readings. A clock that
// is set back is no sleep; one that is set forward looks like one, which costs
// a ping for each room.
func slept(last, now reading) bool {
	return now.wall.Sub(last.wall)-(now.running-last.running) > asleep
}

// mind looks at what happened between two rounds: a sleep makes every socket
// prove itself, and after that or a stop of the process the leases may be
// somebody else's.
func (w *Watcher) mind(ctx context.Context, last, now reading) {
	asleep := slept(last, now)
	if !asleep && now.running-last.running < stopped {
		return
	}
	if asleep {
		w.cfg.Log.Info("the machine slept; every room is checked")
		w.cfg.Remote.CloseIdle()
		for _, k := range w.watches {
			k.proveSocket()
		}
		w.Kick()
	}
	for _, k := range w.watches {
		if !k.leased() {
			continue
		}
		switch err := k.verify(ctx); {
		case errors.Is(err, queue.ErrStale):
			k.cancel()
		case err != nil:
			return // the queue is in trouble; the next Put will tell
		}
	}
}
