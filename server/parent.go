package main

import (
	"context"
	"log/slog"
	"os"
	"time"
)

// watchParent ends the program when its parent is gone although standard input
// is still open: a grandchild of the host can hold the pipe. Where a dead
// parent's number stays, it never changes and input alone decides.
func watchParent(ctx context.Context, leave func(), log *slog.Logger) {
	parent := os.Getppid()
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if os.Getppid() != parent {
			log.Info("the host is gone")
			leave()
			return
		}
	}
}
