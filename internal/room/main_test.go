package room_test

import (
	"bufio"
	"context"
	"flag"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strconv"
	"testing"

	"go.uber.org/goleak"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/room"
)

// childVar makes the test binary a bridge that watches the rooms of a profile:
// its value is the directory; the service's URL is the first argument.
const childVar = "BELLMAN_TEST_WATCH"

// No test leaves a goroutine behind, whatever became of its network.
func TestMain(m *testing.M) {
	if dir := os.Getenv(childVar); dir != "" {
		if err := watchUntilEOF(dir, os.Args[1]); err != nil {
			_, _ = os.Stderr.WriteString(err.Error() + "\n")
			os.Exit(1)
		}
		return
	}
	// Tests of a network mostly wait.
	if err := flag.Set("test.parallel", "6"); err != nil {
		_, _ = os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	goleak.VerifyTestMain(m)
}

// watchUntilEOF is a bridge's watching half in a process of its own.
func watchUntilEOF(dir, service string) error {
	debug.SetGCPercent(50) // as the bridge does
	log := slog.New(slog.NewTextHandler(os.Stderr, nil))
	server, err := url.Parse(service)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	q, err := queue.Open(ctx, filepath.Join(dir, "queue.db"), log)
	if err != nil {
		return err
	}
	client := remote.New(remote.Options{Server: server, Tokens: remote.Key(hubtest.Jesse), Log: log})
	id := queue.Identity{Server: service, User: jesse}
	w := room.New(room.Config{Queue: q, Remote: client, Log: log, Identity: func() (queue.Identity, bool) { return id, true }})
	go func() {
		defer cancel()
		for lines := bufio.NewScanner(os.Stdin); lines.Scan(); { // each asks for the goroutines
			_, _ = os.Stdout.WriteString(strconv.Itoa(runtime.NumGoroutine()) + "\n")
		}
	}()
	w.Run(ctx)
	client.Close()
	return q.Close()
}
