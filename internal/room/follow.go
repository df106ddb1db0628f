package room

import (
	"context"
	"errors"
	"net/http"
	"time"

	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// follow reads the room until something ends it. While the socket cannot be
// had it polls, and keeps trying the socket.
func (k *watch) follow(ctx context.Context) error {
	k.say(queue.StateConnecting, "")
	var t trouble
	var polls *polling
	defer func() { polls.stop() }()
	for {
		// Taken before the try, so that a Kick during it counts.
		kicked := k.w.retry()
		stable, err := k.readSocket(ctx, func() {
			kicked = nil
			polls.stop()
			polls = nil
			k.say(queue.StateSocket, "")
		})
		if kicked == nil { // it was open: what came while it was is past
			kicked = k.w.retry()
		}
		if stable {
			t = trouble{}
		}
		if polls == nil { // which ask all the time
			err = k.ask(ctx, err)
		}
		if final(ctx, err) {
			return err
		}
		what := judge(err)
		pause := t.note(what, err)
		k.report(what, t, err, polls != nil)
		switch {
		case what == unstored || what == noCredential:
			polls.stop()
			polls = nil
		case t.failures >= degradedAfter && polls == nil:
			polls = k.startPolling(ctx)
		}
		if err := k.between(ctx, pause, kicked, &t, &polls); final(ctx, err) {
			return err
		}
	}
}

// ask looks at the room itself where the socket's word is not the last one. It
// returns what is to be acted on: what the look found, or still failure.
func (k *watch) ask(ctx context.Context, failure error) error {
	if final(ctx, failure) || judge(failure) != askTheRoom {
		return failure
	}
	err := k.pollAll(ctx)
	if what := judge(err); final(ctx, err) || what == unstored || what == noCredential {
		return err
	}
	return failure
}

// final reports whether err, or the end of ctx, ends the watch.
func final(ctx context.Context, err error) bool {
	if ctx.Err() != nil {
		return true
	}
	for _, end := range []error{errAllEnded, errPaused, errNotOurs, queue.ErrStale, queue.ErrClosed} {
		if errors.Is(err, end) {
			return true
		}
	}
	return false
}

// errRoomOver is an event which says that the room is over.
var errRoomOver = errors.New("the room says it is over")

// readSocket reads the room socket until it fails, and reports whether it was
// open long enough to count as stable. It calls opened once it is open.
func (k *watch) readSocket(ctx context.Context, opened func()) (stable bool, err error) {
	if err := k.w.limit.Wait(ctx); err != nil {
		return false, err
	}
	cursor, ok := k.start()
	if !ok {
		return false, errAllEnded
	}
	if !k.ours() {
		return false, errNotOurs
	}
	s, err := k.w.cfg.Remote.OpenSocket(ctx, k.room, cursor)
	if err != nil {
		return false, err
	}
	defer s.Close()
	if !k.ours() { // and perhaps was not when the token was asked for
		return false, errNotOurs
	}
	opened()
	k.setSocket(s)
	defer k.setSocket(nil)
	k.log.Debug("the room socket is open", "cursor", cursor)
	since := time.Now()
	err = k.drain(ctx, s)
	return time.Since(since) >= stableAfter, err
}

// drain stores what the socket brings until either fails.
func (k *watch) drain(ctx context.Context, s *remote.Socket) error {
	reading, abort := context.WithCancel(ctx)
	defer abort()
	in := newIntake(func(batch []frame) error { return k.take(ctx, batch) }, abort)
	for {
		e, raw, err := s.Read(reading)
		if err == nil {
			err = in.add(frame{e, raw})
		}
		if err == nil {
			continue
		}
		if failed := in.finish(); failed != nil {
			return failed
		}
		return err
	}
}

// verdict is what a failure says of the room and of what to do.
type verdict int

const (
	transient    verdict = iota // nothing: try again
	notOffered                  // there is no socket to be had here: poll
	askTheRoom                  // it may be over, or there may be no socket to be had
	noCredential                // wait for one
	unstored                    // the queue could not be written
)

// judge reads a failure by its kind and by the handshake's status; words have
// no say.
func judge(err error) verdict {
	if _, ok := errors.AsType[storageError](err); ok {
		return unstored
	}
	switch {
	case errors.Is(err, remote.ErrSignInNeeded):
		return noCredential
	case errors.Is(err, remote.ErrRemoved), errors.Is(err, errRoomOver):
		return askTheRoom
	}
	e, ok := errors.AsType[*remote.Error](err)
	if !ok {
		return transient
	}
	switch e.Status {
	case 0, http.StatusRequestTimeout, http.StatusTooManyRequests:
		return transient
	case http.StatusForbidden, http.StatusNotFound, http.StatusConflict, http.StatusGone:
		return askTheRoom
	}
	if e.Status >= http.StatusInternalServerError {
		return transient
	}
	return notOffered // 200, 3xx, 405, 426 and the like
}

// report tells of a failure: in the log loudly only where a person can do
// something.
func (k *watch) report(what verdict, t trouble, err error, polled bool) {
	switch {
	case what == unstored:
		k.say(queue.StatePaused, words(err))
	case polled && what != noCredential: // the polls say what the state is
		k.say("", words(err))
	default:
		k.say(queue.StateWaiting, words(err))
	}
	if what == unstored && t.unstored == 1 {
		k.log.Warn("the room is paused: its events cannot be stored; it is tried again", "error", err)
		return
	}
	k.log.Debug("the room socket is not open", "failures", t.failures, "error", err)
}
