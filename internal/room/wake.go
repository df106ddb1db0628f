package room

import (
	"context"
	"errors"
	"net"
	"slices"
	"strings"
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

// localAddresses are this machine's addresses that lead anywhere, in one text;
// empty when they cannot be had. It is another text once the machine has joined
// or left a network.
func localAddresses() string {
	all, err := net.InterfaceAddrs()
	if err != nil {
		return ""
	}
	var list []string
	for _, a := range all {
		if n, ok := a.(*net.IPNet); ok && n.IP.IsGlobalUnicast() {
			list = append(list, n.String())
		}
	}
	slices.Sort(list)
	return strings.Join(list, " ")
}

// mindNetwork makes every socket prove itself when this machine has joined or
// left a network: one that was opened on another may be dead without a word.
func (w *Watcher) mindNetwork() {
	now := w.network()
	if now == w.joined {
		return
	}
	w.joined = now
	w.cfg.Log.Info("this machine's addresses have changed; every room is checked")
	w.suspect()
}

// mindClocks looks at what happened between two rounds: a sleep makes every
// socket prove itself, and after that or a stop of the process the leases may
// be somebody else's.
func (w *Watcher) mindClocks(ctx context.Context, last, now reading) {
	asleep := slept(last, now)
	if asleep {
		w.cfg.Log.Info("the machine slept; every room is checked")
		w.suspect()
	}
	if !asleep && now.running-last.running < stopped {
		return
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

// suspect makes every socket prove itself, and what waits try again.
func (w *Watcher) suspect() {
	w.cfg.Remote.CloseIdle()
	for _, k := range w.watches {
		k.proveSocket()
	}
	w.Kick()
}
