package room

import (
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

const (
	pollWait  = 25 // seconds a poll is held by the service
	pollFloor = time.Second
	pollGrace = 15 * time.Second // for the answer beyond what was asked to be held
)

// polling reads the room by long polls, one for each member, until it is
// stopped or something ends the watch. A nil *polling has never begun.
type polling struct {
	cancel context.CancelFunc
	left   atomic.Int64 // polls that have not ended
	first  sync.Once
	done   chan struct{}
	err    error // what ended the watch; once done is closed
}

func (k *watch) startPolling(ctx context.Context) *polling {
	k.say(queue.StatePolling, "")
	ctx, cancel := context.WithCancel(ctx)
	p := &polling{cancel: cancel, done: make(chan struct{})}
	members := k.members()
	p.left.Store(int64(len(members)))
	if len(members) == 0 {
		close(p.done)
	}
	for _, member := range members {
		go p.run(func() error { return k.pollUntil(ctx, member) }) // stop waits for it
	}
	return p
}

// run polls for one member. The first error ends the polls of all.
func (p *polling) run(poll func() error) {
	if err := poll(); err != nil {
		p.first.Do(func() {
			p.err = err
			p.cancel()
		})
	}
	if p.left.Add(-1) == 0 {
		close(p.done)
	}
}

// stop ends the polls and waits for them.
func (p *polling) stop() {
	if p != nil {
		p.cancel()
		<-p.done
	}
}

// ended returns a channel that is closed when the polls have ended; nil, which
// never is, when there are none.
func (p *polling) ended() <-chan struct{} {
	if p == nil {
		return nil
	}
	return p.done
}

// pollUntil polls for one member until ctx ends, which is no error, or the
// watch must stop.
func (k *watch) pollUntil(ctx context.Context, member string) error {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		kicked := k.w.retry()
		delivered, err := k.poll(ctx, member, pollWait)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx ends the polling and is what err reports
		case final(ctx, err), judge(err) == unstored:
			return err
		case errors.Is(err, errMemberEnded):
			return nil
		case errors.Is(err, remote.ErrSignInNeeded):
			k.say(queue.StateWaiting, words(err))
			sleep(ctx, credentialCheck, kicked)
		case err != nil:
			failures++
			k.say(queue.StateWaiting, words(err))
			k.log.Debug("a poll failed", "failures", failures, "error", err)
			sleep(ctx, max(askedFor(err), pollFloor), nil)
			sleep(ctx, spread(doubled(firstBackoff, failures, backoffCap)), kicked)
		default:
			failures = 0
			k.say(queue.StatePolling, "")
			if rest := pollFloor - time.Since(began); !delivered && rest > 0 {
				sleep(ctx, rest, nil)
			}
		}
	}
	return nil
}

// pollAll looks once for every member, which is how a room that is over is
// told from a socket that is not offered. It returns the first error that ends
// the watch, else the last one.
func (k *watch) pollAll(ctx context.Context) error {
	var last error
	for _, member := range k.members() {
		_, err := k.poll(ctx, member, 0)
		switch {
		case final(ctx, err), judge(err) == unstored:
			return err
		case err != nil && !errors.Is(err, errMemberEnded):
			last = err
		}
	}
	return last
}

var (
	// errMemberEnded means that this member's watch is over and others' go on.
	errMemberEnded = errors.New("the membership has ended")
	errNoAnswer    = errors.New("the service's answer to a poll is no sync result")
	errUnsettled   = errors.New("the service refused a poll")
)

// poll reads once as member and stores what came. delivered tells whether
// anything did.
func (k *watch) poll(ctx context.Context, member string, wait int) (delivered bool, err error) {
	since, ok := k.cursor(member)
	if !ok {
		return false, errMemberEnded
	}
	if !k.ours() {
		return false, errNotOurs
	}
	a, err := k.sync(ctx, member, since, wait)
	if err != nil {
		return false, err
	}
	var p portion
	if !a.IsError {
		p = sift(a.frames(), member, since)
		if cursor := max(p.cursor, a.Structured.Cursor); cursor > since {
			if err := k.put(ctx, member, p.events, cursor); err != nil {
				return false, err
			}
		}
	}
	why := p.why
	if why == "" {
		why = a.end()
	}
	switch {
	case why != "":
		if err := k.endMember(ctx, member, why); err != nil {
			return false, err
		}
		return true, errMemberEnded
	case a.IsError:
		return false, errUnsettled
	}
	return len(p.events) > 0, nil
}

// sync calls bellman_sync as member.
func (k *watch) sync(ctx context.Context, member string, since int64, wait int) (syncAnswer, error) {
	var a syncAnswer
	params, err := json.Marshal(map[string]any{"name": bellman.ToolSync, "arguments": map[string]any{
		"session_id": k.room, "member_id": member, "since_cursor": since, "wait_seconds": wait,
	}})
	if err != nil {
		return a, err
	}
	if err := k.w.limit.Wait(ctx); err != nil {
		return a, err
	}
	ctx, cancel := context.WithTimeout(ctx, time.Duration(wait)*time.Second+pollGrace)
	defer cancel()
	raw, err := k.w.cfg.Remote.Call(ctx, "tools/call", params)
	if err != nil {
		return a, err
	}
	if err := json.Unmarshal(raw, &a); err != nil || (!a.IsError && a.Structured == nil) {
		return a, errNoAnswer
	}
	return a, nil
}
