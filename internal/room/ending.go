package room

import (
	"encoding/json"
	"strings"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
)

// Why a membership ended, as the queue keeps it.
const (
	whyRemoved  = "removed"
	whyLeft     = "left"
	whyClosed   = "closed"
	whyGone     = "gone"
	whyNotYours = "not yours"
)

// Types of events that the service alone writes and that end something; the
// rest are in package bellman.
const (
	typeMemberLeft     = "member_left"
	typeSessionExpired = "session_expired"
)

// endOf tells why an event ends member's watch, "" when it does not. The type
// is looked at first: a peer may write any handle into a message, and cannot
// write these types. A seat that timed out may still read, and is watched no
// more all the same.
func endOf(e bellman.Event, member string) string {
	switch {
	case e.Removes(member):
		return whyRemoved
	case e.Type == typeMemberLeft && e.From.MemberID == member:
		return whyLeft
	}
	return ""
}

// portion is what a run of events holds for one member.
type portion struct {
	events []queue.Event
	cursor int64  // how far the run has been looked through
	why    string // the run's last event ends the membership
	over   bool   // an event says that the room is over; the room is to be asked
}

// sift picks out of a run of events, in order of their cursors, what is for
// member: those above since that it did not send, up to the one that ends its
// membership.
func sift(run []frame, member string, since int64) portion {
	p := portion{cursor: since}
	for _, f := range run {
		if f.event.Cursor <= p.cursor {
			continue
		}
		p.cursor = f.event.Cursor
		if f.event.From.MemberID != member {
			p.events = append(p.events, queue.Event{
				Cursor: f.event.Cursor, Type: f.event.Type, At: f.event.Time(), Ambient: f.event.Ambient, Body: f.raw,
			})
		}
		p.over = p.over || f.event.Type == typeSessionExpired
		if p.why = endOf(f.event, member); p.why != "" {
			break
		}
	}
	return p
}

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

// frames returns the events of the answer that are events.
func (a syncAnswer) frames() []frame {
	var list []frame
	for _, envelope := range a.Structured.Events {
		var e bellman.Event
		if json.Unmarshal(envelope.Data, &e) == nil && e.Valid() {
			list = append(list, frame{e, envelope.Data})
		}
	}
	return list
}

// end tells why the answer ends the membership, "" when it does not: flags
// and statuses first. Words decide only where there is nothing else, in an
// error, which has no code; what they do not settle is tried again.
func (a syncAnswer) end() string {
	if s := a.Structured; s != nil && !a.IsError {
		switch {
		case s.Gone:
			return whyRemoved
		case s.Status == bellman.StatusClosed:
			return whyClosed
		}
		return ""
	}
	if !a.IsError || len(a.Content) == 0 {
		return ""
	}
	text := strings.ToLower(a.Content[0].Text)
	for _, sign := range []struct{ words, why string }{
		{"session not found", whyGone},
		{"not yours", whyNotYours},
	} {
		if strings.Contains(text, sign.words) {
			return sign.why
		}
	}
	return ""
}
