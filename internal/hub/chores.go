package hub

import (
	"context"
	"errors"
	"time"
)

const (
	beatEvery  = 5 * time.Second
	sweepEvery = time.Hour
)

// doChores does what falls due by itself, until life ends.
func (h *Hub) doChores(life context.Context) {
	beat, sweep := time.NewTicker(beatEvery), time.NewTicker(sweepEvery)
	defer beat.Stop()
	defer sweep.Stop()
	for {
		var err error
		select {
		case <-life.Done():
			return
		case <-beat.C:
			err = h.Beat(life)
		case <-sweep.C:
			err = h.Sweep(life)
		}
		if err != nil && life.Err() == nil {
			h.log.ErrorContext(life, "chores", "error", err)
		}
	}
}

// Beat writes the heartbeats and housekeeping notices that are due. An open
// hub does it by itself every few seconds.
func (h *Hub) Beat(ctx context.Context) error { return h.house.Beat(ctx) }

// Sweep closes abandoned rooms and removes what has expired: records of rooms
// closed long ago, blobs nobody shows, spent tokens, half-finished uploads.
// An open hub does it by itself every hour.
func (h *Hub) Sweep(ctx context.Context) error {
	known := func(id string) (bool, error) { return h.house.Knows(ctx, id) }
	return errors.Join(h.house.Sweep(ctx), h.db.Sweep(ctx), h.blobs.Sweep(h.now(), known))
}

// Freeze refuses every write to a room until Thaw, as when the plan that
// created it lapses.
func (h *Hub) Freeze(ctx context.Context, id string) error { return h.house.Freeze(ctx, id) }

// Thaw undoes Freeze.
func (h *Hub) Thaw(ctx context.Context, id string) error { return h.house.Thaw(ctx, id) }
