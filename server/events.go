package main

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// reopenAfter is how long a queue that could not be opened is left alone.
const reopenAfter = 5 * time.Second

// events is the queue, opened in the background: another process may hold the
// file for seconds, and a disk that is full today has room tomorrow.
type events struct {
	tried chan struct{} // closed once the first attempt has ended
	ended chan struct{} // closed once no more will be made

	mu    sync.Mutex
	queue *queue.Queue
	err   error
}

// openEvents opens the queue and, unless the file can never be used, tries
// again until it is open or ctx ends.
func openEvents(ctx context.Context, cfg config, log *slog.Logger) *events {
	e := &events{tried: make(chan struct{}), ended: make(chan struct{})}
	go func() {
		defer close(e.ended)
		first := sync.OnceFunc(func() { close(e.tried) })
		defer first()
		for {
			q, err := queue.Open(ctx, filepath.Join(cfg.dir, "queue.db"), log)
			e.mu.Lock()
			told := e.err != nil
			e.queue, e.err = q, err
			e.mu.Unlock()
			if err == nil || ctx.Err() != nil {
				return
			}
			if !told {
				log.Error("events are not queued for now; bellman_sync still reads the rooms", "error", err)
			}
			if errors.Is(err, queue.ErrForeign) || errors.Is(err, queue.ErrNetwork) {
				return
			}
			first()
			select {
			case <-time.After(reopenAfter):
			case <-ctx.Done():
				return
			}
		}
	}()
	return e
}

// get returns the queue, or why it cannot be used at the moment. It waits for
// the first attempt as long as ctx lasts.
func (e *events) get(ctx context.Context) (*queue.Queue, error) {
	select {
	case <-e.tried:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.queue, e.err
}

// opened waits until the queue is open; nil when it never will be.
func (e *events) opened() *queue.Queue {
	<-e.ended
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.err != nil {
		return nil
	}
	return e.queue
}
