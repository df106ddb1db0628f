package queue_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/queue"
)

// roles are what a child can be.
var roles = map[string]func(context.Context, *queue.Queue) error{"bridge": bridge, "drain": drain, "stopped": stopped, "put": putOne, "quota": quota, "newcomer": newcomer}

// child is a process of its own, started by spawn. It says what it did on
// standard output and is told to go on by lines of standard input.
func child(role string) int {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	q, err := queue.OpenWith(ctx, filepath.Join(os.Getenv("BELLMAN_QUEUE_DIR"), "queue.db"), slog.New(slog.DiscardHandler), childSettings)
	if err == nil {
		err = errors.Join(roles[role](ctx, q), q.Close())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// childSettings make an owner lapse soon. No bound is in the way.
var childSettings = queue.Settings{
	Lease: 500 * time.Millisecond, Beat: 100 * time.Millisecond,
	RoomEvents: 1 << 40, TotalEvents: 1 << 40, RoomBytes: 1 << 40, TotalBytes: 1 << 40,
}

// openAsChild opens the queue with the times of the children.
func openAsChild(tb testing.TB, dir string) *queue.Queue {
	tb.Helper()
	q, err := queue.OpenWith(tb.Context(), filepath.Join(dir, "queue.db"), slog.New(slog.DiscardHandler), childSettings)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := q.Close(); err != nil {
			tb.Error(err)
		}
	})
	return q
}

// spawned is a running child.
type spawned struct {
	cmd   *exec.Cmd
	stdin io.WriteCloser
	lines *bufio.Scanner
}

func spawn(tb testing.TB, dir, role string) *spawned {
	tb.Helper()
	cmd := exec.CommandContext(tb.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), "BELLMAN_QUEUE_CHILD="+role, "BELLMAN_QUEUE_DIR="+dir)
	cmd.Stderr = os.Stderr
	stdin, err := cmd.StdinPipe()
	if err != nil {
		tb.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	s := &spawned{cmd: cmd, stdin: stdin, lines: bufio.NewScanner(stdout)}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill() // it has left unless the test failed
		_ = cmd.Wait()
	})
	return s
}

// line is the child's next line.
func (s *spawned) line(tb testing.TB) string {
	tb.Helper()
	if !s.lines.Scan() {
		tb.Fatalf("the child left before its line: %v", s.lines.Err())
	}
	return s.lines.Text()
}

func (s *spawned) tell(tb testing.TB) {
	tb.Helper()
	if _, err := io.WriteString(s.stdin, "go on\n"); err != nil {
		tb.Fatal(err)
	}
}

// told waits for tell.
func told() error {
	_, err := bufio.NewReader(os.Stdin).ReadString('\n')
	return err
}

// logEnd is how long the room's log is that bridge watches.
var logEnd = func() int64 {
	if soak {
		return 40_000
	}
	return 5000
}()

// bridge does what a bridge does until it is killed or all is done: it watches
// a room, waits for events, replies with one write, and acknowledges.
func bridge(ctx context.Context, q *queue.Queue) error {
	if _, err := q.Touch(ctx, me, seat, 0); err != nil {
		return err
	}
	l, err := q.Lease(ctx, me, seat.Room)
	if err != nil {
		return err
	}
	fed := make(chan error, 1)
	go func() { fed <- feed(ctx, q, l) }()
	replies, err := openReplies(filepath.Join(os.Getenv("BELLMAN_QUEUE_DIR"), "replies"))
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for {
		wait, cancel := context.WithTimeout(ctx, time.Second)
		b, err := q.Await(wait, me, queue.Filter{}, queue.Limit{Events: 10})
		cancel()
		if err != nil {
			return err
		}
		if b.Token == "" {
			return errors.Join(<-fed, replies.Close())
		}
		var reply strings.Builder
		for _, d := range b.Deliveries {
			fmt.Fprintln(&reply, d.Event.Cursor, d.Redelivered, b.Token)
		}
		if rand.IntN(10) == 0 { // a call that its host cancels
			if err := q.Release(ctx, b.Token, false); err != nil {
				return err
			}
			continue
		}
		q.Sent(b.Token)
		if _, err := io.WriteString(replies, reply.String()); err != nil {
			return err
		}
		if err := q.Ack(ctx, b.Token); err != nil {
			return err
		}
	}
}

// torn ends a line that a kill cut short: the host had half a line.
const torn = " torn\n"

// openReplies opens what stands for the host's end of stdout.
func openReplies(path string) (*os.File, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, err
	}
	if len(text) > 0 && !bytes.HasSuffix(text, []byte("\n")) {
		_, err = io.WriteString(f, torn)
	}
	return f, err
}

// feed puts the room's log into the queue from where the watch had read, now
// and then with a repeat.
func feed(ctx context.Context, q *queue.Queue, l queue.Lease) error {
	list, err := q.Memberships(ctx, me)
	if err != nil {
		return err
	}
	for at := list[0].Fetched; at < logEnd; {
		var events []queue.Event
		from := max(0, at-int64(rand.IntN(3)))
		for at = from + 1 + int64(rand.IntN(8)); from < min(at, logEnd); {
			from++
			events = append(events, event(from))
		}
		at = from
		if _, err := q.Put(ctx, l, seat.ID, events, at); err != nil {
			return err
		}
	}
	return nil
}

// drain takes everything there is and says what it got.
func drain(ctx context.Context, q *queue.Queue) error {
	for {
		wait, cancel := context.WithTimeout(ctx, 3*time.Second)
		b, err := q.Await(wait, me, queue.Filter{}, queue.Limit{Events: 50})
		cancel()
		if err != nil || b.Token == "" {
			return err
		}
		for _, d := range b.Deliveries {
			fmt.Println(d.Member.ID, d.Event.Cursor, d.Redelivered)
		}
		if err := q.Ack(ctx, b.Token); err != nil {
			return err
		}
	}
}

// stopped claims events, is stopped for longer than its lease, and tries to go
// on as if nothing had been.
func stopped(ctx context.Context, q *queue.Queue) error {
	l, err := q.Lease(ctx, me, seat.Room)
	if err != nil {
		return err
	}
	b, err := q.Claim(ctx, me, queue.Filter{}, all)
	if err != nil {
		return err
	}
	q.Sent(b.Token)
	fmt.Println("claimed", len(b.Deliveries))
	if err := told(); err != nil {
		return err
	}
	_, putErr := q.Put(ctx, l, seat.ID, []queue.Event{event(100)}, 100)
	ackErr := q.Ack(ctx, b.Token)
	releaseErr := q.Release(ctx, b.Token, true)
	recallErr := q.Recall(ctx, b.Token)
	fmt.Println(errors.Is(putErr, queue.ErrStale), ackErr, releaseErr, recallErr)
	again, err := q.Claim(ctx, me, queue.Filter{}, all) // under a new identity
	fmt.Println(len(again.Deliveries), err)
	return nil
}

// putOne puts one event when it is told, and says when.
func putOne(ctx context.Context, q *queue.Queue) error {
	l, err := q.Lease(ctx, me, seat.Room)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	for cursor := int64(1); told() == nil; cursor++ {
		if _, err := q.Put(ctx, l, seat.ID, []queue.Event{event(cursor)}, cursor); err != nil {
			return err
		}
		fmt.Println(time.Now().UnixNano())
	}
	return nil
}

// quota puts events until the file may not grow any more.
func quota(ctx context.Context, q *queue.Queue) error {
	l, err := q.Lease(ctx, me, seat.Room)
	if err != nil {
		return err
	}
	if err := limitFileSize(512 << 10); err != nil {
		return err
	}
	cursor := int64(1)
	for err == nil {
		cursor++
		_, err = q.Put(ctx, l, seat.ID, []queue.Event{event(cursor)}, cursor)
	}
	list, errList := q.Memberships(ctx, me)
	if errList == nil && list[0].Fetched == cursor-1 {
		fmt.Println("refused, nothing moved")
	} else {
		fmt.Println(err, errList, cursor)
	}
	_ = q.Close() // there may be no space for its goodbye; others see that its lock is free
	return nil
}

// newcomer opens the file, and puts an event of a room of its own when it is
// told.
func newcomer(ctx context.Context, q *queue.Queue) error {
	if _, err := q.Touch(ctx, me, queue.Member{Room: "qs_new", ID: "m_new"}, 0); err != nil {
		return err
	}
	fmt.Println("here")
	if err := told(); err != nil {
		return err
	}
	l, err := q.Lease(ctx, me, "qs_new")
	if err != nil {
		return err
	}
	_, err = q.Put(ctx, l, "m_new", []queue.Event{event(1)}, 1)
	fmt.Println("put", err)
	return err
}
