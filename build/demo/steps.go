package demo

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"bellman.sh/desktop/build/host"
)

// event is one of what bellman_wait returns.
type event struct {
	Cursor      int64 `json:"cursor"`
	Type        string
	FromLabel   string  `json:"from_label"`
	RefID       *string `json:"ref_id"`
	Redelivered bool
	Payload     struct {
		Text     string
		Approved *bool
		Result   string
	}
}

type waited struct {
	Count     int
	Remaining int
	Events    []event
}

func brief(goal, client string) map[string]any {
	return map[string]any{"goal": goal, "state": "starting", "agent": map[string]string{"provider": "demo", "model": "scripted", "client": client}}
}

// meet starts a room on one side and joins it by code on the other.
func (s *stage) meet(context.Context) error {
	var started struct {
		SessionID string `json:"session_id"`
		MemberID  string `json:"member_id"`
		JoinCode  string `json:"join_code"`
	}
	err := s.ada.Call("bellman_start", map[string]any{
		"manifest": map[string]any{"room": "Release notes", "preset": "pair"}, "brief": brief("Write the release notes together", "Claude Desktop"),
		"capabilities": []string{"read_context", "receive_messages", "request_actions"},
	}, &started)
	if err != nil {
		return err
	}
	s.room, s.adaSeat = started.SessionID, started.MemberID
	s.say("ada", "bellman_start → room %s, code %s", s.room, started.JoinCode)
	var preview struct {
		ConnectToken string `json:"connect_token"`
	}
	if err := s.ben.Call("bellman_connect", map[string]any{"join_code": strings.ToLower(started.JoinCode)}, &preview); err != nil {
		return err
	}
	s.say("ben", "bellman_connect → a preview; nothing of Ben has reached the room")
	var joined struct {
		MemberID string `json:"member_id"`
		Cursor   int64
	}
	if err := s.ben.Call("bellman_confirm", map[string]any{"connect_token": preview.ConnectToken, "brief": brief("Help with the release notes", "another agent")}, &joined); err != nil {
		return err
	}
	s.benSeat = joined.MemberID
	s.say("ben", "bellman_confirm → seat %s", s.benSeat)
	w, err := s.wait(s.ada)
	if err != nil {
		return err
	}
	return expect(w, "member_joined")
}

// wait calls bellman_wait and shows what came.
func (s *stage) wait(h *actor) (waited, error) {
	var w waited
	err := h.Call("bellman_wait", map[string]any{"wait_seconds": 10}, &w)
	if err != nil {
		return w, err
	}
	s.show(h, w)
	return w, nil
}

func (s *stage) show(h *actor, w waited) {
	for _, e := range w.Events {
		note := ""
		if e.Redelivered {
			note = "  (redelivered)"
		}
		text := e.Payload.Text
		if len(text) > 60 {
			text = fmt.Sprintf("%.40s… (%d characters)", text, len(text))
		}
		s.say(h.name, "bellman_wait → #%d %s from %s %s%s", e.Cursor, e.Type, e.FromLabel, text, note)
	}
}

func expect(w waited, kinds ...string) error {
	var got []string
	for _, e := range w.Events {
		got = append(got, e.Type)
	}
	if strings.Join(got, " ") != strings.Join(kinds, " ") {
		return fmt.Errorf("got events [%s], want [%s]", strings.Join(got, " "), strings.Join(kinds, " "))
	}
	return nil
}

// message sends one and returns its cursor.
func (s *stage) message(h *actor, args map[string]any) (int64, error) {
	args["session_id"], args["member_id"] = s.room, s.adaSeat
	if h == s.ben {
		args["member_id"] = s.benSeat
	}
	var sent struct{ Cursor int64 }
	err := h.Call("bellman_send", args, &sent)
	return sent.Cursor, err
}

// noTags looks at the text the agent reads, where nothing of a peer may close
// or open anything.
func noTags(raw json.RawMessage) error {
	var r struct{ Content []struct{ Text string } }
	if err := json.Unmarshal(raw, &r); err != nil {
		return err
	}
	for _, c := range r.Content {
		if strings.Contains(c.Text, "<b>") {
			return errors.New("a peer's tag reached the text unescaped")
		}
	}
	return nil
}

// exchange shows a waiting call wake in both directions.
func (s *stage) exchange(context.Context) error {
	for _, turn := range []struct {
		from, to *actor
		text     string
	}{
		{s.ben, s.ada, "Which version are we writing about?"},
		{s.ada, s.ben, "Version " + s.cfg.Version + ". <b>Tags</b> a peer writes stay data."},
	} {
		if err := turn.to.Send("tools/call", map[string]any{"name": "bellman_wait", "arguments": map[string]any{"wait_seconds": 20}}); err != nil {
			return err
		}
		s.say(turn.to.name, "bellman_wait, waiting …")
		began := time.Now()
		if _, err := s.message(turn.from, map[string]any{"type": "message", "payload": map[string]string{"text": turn.text}}); err != nil {
			return err
		}
		s.say(turn.from.name, "bellman_send → %s", turn.text)
		raw, err := turn.to.Receive()
		if err != nil {
			return err
		}
		var w waited
		if err := host.ReadResult("bellman_wait", raw, &w); err != nil {
			return err
		}
		s.say(turn.to.name, "woke %d ms after the send began", time.Since(began).Milliseconds())
		s.show(turn.to, w)
		if err := expect(w, "message"); err != nil {
			return err
		}
		if err := noTags(raw); err != nil {
			return err
		}
	}
	return nil
}

// The worst moment: a batch is claimed and its reply half in the pipe.
const (
	stuckEvents = 5
	laterEvents = 2
	bigText     = 19_000
)

// kill fills the queue, lets a reply get stuck in the pipe of a host that has
// stopped reading, queues two more events and kills the bridge.
func (s *stage) kill(ctx context.Context) error {
	if err := s.sendBig(1, stuckEvents); err != nil {
		return err
	}
	s.say("ben", "sent %d messages of %d characters", stuckEvents, bigText)
	if err := s.untilWaiting(ctx, stuckEvents); err != nil {
		return err
	}
	if err := s.ada.Send("tools/call", map[string]any{"name": "bellman_wait", "arguments": map[string]any{"wait_seconds": 20}}); err != nil {
		return err
	}
	if err := s.ada.Begins(); err != nil {
		return err
	}
	if err := s.untilWaiting(ctx, 0); err != nil {
		return err
	}
	s.say("ada", "bellman_wait claimed them all; the host does not read, the reply is stuck in the pipe")
	if err := s.sendBig(stuckEvents+1, laterEvents); err != nil {
		return err
	}
	if err := s.untilWaiting(ctx, laterEvents); err != nil {
		return err
	}
	s.say("ben", "sent %d more; they are queued behind the claim", laterEvents)
	s.ada.Kill()
	s.ada.running = false
	s.say("ada", "killed (SIGKILL)")
	return nil
}

func (s *stage) sendBig(first, n int) error {
	for i := range n {
		text := fmt.Sprintf("part %d ", first+i)
		text += strings.Repeat("x", bigText-len(text))
		if _, err := s.message(s.ben, map[string]any{"type": "message", "payload": map[string]string{"text": text}}); err != nil {
			return err
		}
	}
	return nil
}

// untilWaiting looks with `bellman-bridge status`, as a person would.
func (s *stage) untilWaiting(ctx context.Context, n int) error {
	want := fmt.Sprintf("waiting:    %d events", n)
	return poll(ctx, want, func() (bool, error) {
		out, err := s.ada.command(ctx, "status")
		return strings.Contains(out, want), err
	})
}

// restart starts the killed bridge again and takes everything.
func (s *stage) restart(ctx context.Context) error {
	began := time.Now()
	if _, err := s.ada.start(ctx); err != nil {
		return err
	}
	s.say("ada", "restarted in %d ms", time.Since(began).Milliseconds())
	var who struct{ Source string }
	if err := s.ada.Call("bellman_whoami", nil, &who); err != nil {
		return err
	}
	if who.Source != "oauth" {
		return fmt.Errorf("bellman_whoami says source %q after the restart", who.Source)
	}
	s.say("ada", "still signed in")
	var all []event
	for len(all) < stuckEvents+laterEvents {
		w, err := s.wait(s.ada)
		if err != nil {
			return err
		}
		if w.Count == 0 {
			return fmt.Errorf("only %d of %d events arrived", len(all), stuckEvents+laterEvents)
		}
		all = append(all, w.Events...)
	}
	for i, e := range all {
		if want := fmt.Sprintf("part %d ", i+1); !strings.HasPrefix(e.Payload.Text, want) || len(e.Payload.Text) != bigText {
			return fmt.Errorf("event %d is not %q", e.Cursor, want)
		}
		if e.Redelivered != (i < stuckEvents) {
			return fmt.Errorf("event %d: redelivered is %v", e.Cursor, e.Redelivered)
		}
	}
	s.say("ada", "every event arrived, in order: %d flagged as redelivered, %d new", stuckEvents, laterEvents)
	return nil
}

// action asks, lets the human approve, and answers.
func (s *stage) action(context.Context) error {
	asked, err := s.message(s.ben, map[string]any{"type": "action_request", "payload": map[string]string{"text": "May I publish the notes?"}})
	if err != nil {
		return err
	}
	s.say("ben", "bellman_send action_request → #%d", asked)
	w, err := s.wait(s.ada)
	if err != nil {
		return err
	}
	if err := expect(w, "action_request"); err != nil {
		return err
	}
	s.say("Ada", "is asked, and approves")
	if _, err := s.message(s.ada, map[string]any{
		"type": "action_response", "ref_id": fmt.Sprint(w.Events[0].Cursor),
		"payload": map[string]any{"approved": true, "result": "Go ahead."},
	}); err != nil {
		return err
	}
	w, err = s.wait(s.ben)
	if err != nil {
		return err
	}
	if err := expect(w, "action_response"); err != nil {
		return err
	}
	answer := w.Events[0]
	if answer.RefID == nil || *answer.RefID != fmt.Sprint(asked) || answer.Payload.Approved == nil || !*answer.Payload.Approved {
		return errors.New("the answer does not belong to the request")
	}
	s.say("ben", "approved: %s", answer.Payload.Result)
	return nil
}

// upload places a file of Ada's Upload folder on the room's surface.
func (s *stage) upload(context.Context) error {
	notes := filepath.Join(s.cfg.Work, "files of ada", "notes.md")
	if err := os.WriteFile(notes, []byte("# Release notes\n"), 0o600); err != nil {
		return err
	}
	seat := map[string]any{"session_id": s.room, "member_id": s.adaSeat, "key": "notes"}
	seat["path"] = s.cfg.Bundle
	if abs, err := filepath.Abs(s.cfg.Bundle); err == nil {
		seat["path"] = abs
	}
	if err := s.ada.Call("bellman_upload", seat, nil); err == nil {
		return errors.New("a file outside the Upload folder was not refused")
	}
	s.say("ada", "bellman_upload of a file outside the Upload folder → refused")
	seat["path"] = notes
	var placed struct {
		BlobID string `json:"blob_id"`
		Bytes  int64
		Type   string
		Kind   string
		Cursor int64
	}
	if err := s.ada.Call("bellman_upload", seat, &placed); err != nil {
		return err
	}
	s.say("ada", "bellman_upload → blob %s, %d bytes, %s, placed as %s by #%d", placed.BlobID, placed.Bytes, placed.Type, placed.Kind, placed.Cursor)
	w, err := s.wait(s.ben)
	if err != nil {
		return err
	}
	return expect(w, "surface")
}

// leave ends the room, the sign-in and the processes.
func (s *stage) leave(ctx context.Context) error {
	for _, h := range []*actor{s.ben, s.ada} {
		seat := s.adaSeat
		if h == s.ben {
			seat = s.benSeat
		}
		var left struct {
			Status string `json:"session_status"`
		}
		if err := h.Call("bellman_leave", map[string]any{"session_id": s.room, "member_id": seat}, &left); err != nil {
			return err
		}
		s.say(h.name, "bellman_leave → the room is %s", left.Status)
	}
	for _, h := range []*actor{s.ada, s.ben} {
		began := time.Now()
		h.running = false
		if err := h.Leave(); err != nil {
			return fmt.Errorf("%s: %w", h.name, err)
		}
		took := time.Since(began)
		if took > 2*time.Second {
			return fmt.Errorf("%s took %s to leave", h.name, took)
		}
		s.say(h.name, "input closed; gone in %d ms", took.Milliseconds())
	}
	if _, err := s.ada.command(ctx, "logout"); err != nil {
		return err
	}
	s.say("ada", "bellman-bridge logout")
	return s.hub.Stop()
}
