package room

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

const (
	pollWait  = 25 // seconds a poll is held by the service
	pollFloor = time.Second
	pollLimit = 40 * time.Second // for the answer to a held poll
)

// pollUntil polls for one member until ctx ends, which is no error, or the
// watch must stop.
func (k *watch) pollUntil(ctx context.Context, member string) error {
	failures := 0
	for ctx.Err() == nil {
		began := time.Now()
		delivered, err := k.poll(ctx, member, pollWait)
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end of ctx ends the polling and is what err reports
		case final(ctx, err):
			return err
		case errors.Is(err, errMemberEnded):
			return nil
		case errors.Is(err, remote.ErrSignInNeeded):
			k.sleep(ctx, credentialCheck)
		case err != nil:
			failures++
			k.log.Debug("a poll failed", "failures", failures, "error", err)
			k.sleep(ctx, max(backoff(min(failures, degradedAfter-1)), pollFloor))
		default:
			failures = 0
			if rest := pollFloor - time.Since(began); !delivered && rest > 0 {
				k.sleep(ctx, rest)
			}
		}
	}
	return nil
}

// pollAll looks once for every member, which is how a room that is over is
// told from a socket that is not offered.
func (k *watch) pollAll(ctx context.Context) error {
	for _, member := range k.members() {
		if _, err := k.poll(ctx, member, 0); err != nil && !errors.Is(err, errMemberEnded) {
			return fmt.Errorf("look at the room: %w", err)
		}
	}
	return nil
}

// errMemberEnded means that this member's watch is over and others' go on.
var errMemberEnded = errors.New("the membership has ended")

// syncAnswer is a bellman_sync result with each event's own bytes.
type syncAnswer struct {
	IsError bool `json:"isError"`
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Structured *struct {
		Events []bellman.Envelope[json.RawMessage] `json:"events"`
		Cursor int64                               `json:"cursor"`
		Status string                              `json:"session_status"`
		Gone   bool                                `json:"removed"`
	} `json:"structuredContent"`
}

// poll reads once as member and stores what came. delivered tells whether
// anything did.
func (k *watch) poll(ctx context.Context, member string, wait int) (delivered bool, err error) {
	since := k.cursor(member)
	params, err := json.Marshal(map[string]any{"name": bellman.ToolSync, "arguments": map[string]any{
		"session_id": k.room, "member_id": member, "since_cursor": since, "wait_seconds": wait,
	}})
	if err != nil {
		return false, fmt.Errorf("encode poll: %w", err)
	}
	callCtx, cancel := context.WithTimeout(ctx, pollLimit)
	defer cancel()
	raw, err := k.w.cfg.Remote.Call(callCtx, "tools/call", params)
	if err != nil {
		return false, err
	}
	var a syncAnswer
	if err := json.Unmarshal(raw, &a); err != nil || (!a.IsError && a.Structured == nil) {
		return false, errors.New("poll: the answer is no sync result")
	}
	if a.IsError {
		return false, k.refused(ctx, member, a)
	}
	events, removed := readEvents(a, member, since)
	if a.Structured.Cursor > since {
		if err := k.put(ctx, member, events, a.Structured.Cursor); err != nil {
			return false, err
		}
	}
	if why := ending(a, removed); why != "" {
		if err := k.endMember(ctx, member, why); err != nil {
			return false, err
		}
		return true, errMemberEnded
	}
	return len(events) > 0, nil
}

func readEvents(a syncAnswer, member string, since int64) (events []queue.Event, removed bool) {
	for _, envelope := range a.Structured.Events {
		var e bellman.Event
		if json.Unmarshal(envelope.Data, &e) != nil || !e.Valid() || e.Cursor <= since {
			continue
		}
		events = append(events, asQueued(e, envelope.Data))
		removed = removed || e.Removes(member)
	}
	return events, removed
}

// ending tells why an answer ends the membership, "" when it does not: flags
// and event types first.
func ending(a syncAnswer, removedByEvent bool) string {
	switch {
	case removedByEvent, a.Structured.Gone:
		return "removed"
	case a.Structured.Status == bellman.StatusClosed:
		return "closed"
	}
	return ""
}

// refused acts on an error answer. There is no code in it, so here, and only
// here, words decide; what they do not settle is tried again.
func (k *watch) refused(ctx context.Context, member string, a syncAnswer) error {
	var text string
	if len(a.Content) > 0 {
		text = strings.ToLower(a.Content[0].Text)
	}
	for _, sign := range []struct{ words, why string }{
		{"session not found", "gone"},
		{"not yours", "not yours"},
	} {
		if strings.Contains(text, sign.words) {
			if err := k.endMember(ctx, member, sign.why); err != nil {
				return err
			}
			return errMemberEnded
		}
	}
	return errors.New("poll: the service refused it")
}
