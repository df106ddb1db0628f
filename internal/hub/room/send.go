package room

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/manifest"
	"bellman.sh/desktop/internal/hub/payload"
)

// maxPayload is the bound of a payload in UTF-16 units. See protocol.md 1.5.
const maxPayload = 20000

// Message is something a member writes to its room.
type Message struct {
	Handle  string
	Type    string
	Payload json.RawMessage
	RefID   *string
	Key     string // idempotency key, empty for none
}

// Sent is the answer to a Message. RoomMembers are the labels of the others
// seated just before it was stored; it is no receipt.
type Sent struct {
	RoomMembers []string `json:"room_members"`
	Cursor      int64    `json:"cursor"`
	Replayed    bool     `json:"replayed,omitempty"`
	Note        string   `json:"note,omitempty"`
}

// verbs says what a type takes to send.
var verbs = map[string]string{
	TypeMessage: manifest.Send, TypeArtifact: manifest.Send, TypeBriefUpdate: manifest.Send, TypeProgress: manifest.Send,
	TypeActionRequest: manifest.RequestActions, TypeActionResponse: manifest.RespondActions, TypeSurface: manifest.WriteSurface,
}

// Send stores a message. The checks come in the order of the contract, so that
// a caller with several faults always hears of the same one. See protocol.md 1.5.
func (h *House) Send(ctx context.Context, who account.Identity, id string, msg Message) (Sent, error) {
	if msg.Type == TypeSurface {
		return h.writeSurface(ctx, who, id, msg)
	}
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return Sent{}, err
	}
	defer leave()
	p, malformed := payload.Read(msg.Payload)
	var sent Sent
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		m, rec, err := gate(s, who, msg.Handle, verbs[msg.Type], now)
		if err != nil {
			return rec, err
		}
		others := s.others(m.ID)
		sent = Sent{RoomMembers: labels(others)}
		if msg.Type == TypeActionRequest {
			sent.Note = "a human must approve this; the answer comes as an action_response event whose ref_id is this cursor"
		}
		if err := cmp.Or(invalid(malformed), checkBounds(p), checkOthers(msg.Type, others)); err != nil {
			return rec, err
		}
		print := fingerprint(msg.Type, m.ID, msg.RefID, p.Sorted)
		if old, ok := s.keys[keyRef{m.ID, msg.Key}]; ok && msg.Key != "" {
			return s.replay(rec, old, msg, print, &sent)
		}
		if err := s.checkType(m, msg, p); err != nil {
			return rec, err
		}
		return rec, s.storeMessage(rec, who, m, msg, p, print, &sent)
	})
	return sent, err
}

// invalid is the refusal of what could not be read.
func invalid(malformed error) error {
	if malformed == nil {
		return nil
	}
	return refuse(Invalid, "%v", malformed)
}

func checkBounds(p payload.Payload) error {
	switch {
	case p.Deep:
		return refuse(Invalid, "payload nests deeper than %d levels: flatten it", payload.MaxDepth)
	case p.Units > maxPayload:
		return refuse(Invalid, "payload too large (%d characters, at most %d). Send a summary instead, and keep the whole where both sides can reach it",
			p.Units, maxPayload)
	}
	return nil
}

// checkOthers applies the rules about who is there to read a message.
func checkOthers(kind string, others []*member) error {
	if kind == TypeProgress {
		return nil
	}
	if len(others) == 0 {
		return refuse(Conflict, "there are no other active members in this session: nobody would read it")
	}
	var lacking []string
	wanted := CanReceive
	if kind == TypeActionRequest {
		wanted = CanAct
	}
	for _, o := range others {
		if !slices.Contains(o.Capabilities, wanted) {
			lacking = append(lacking, o.Label)
		}
	}
	switch kind {
	case TypeMessage, TypeArtifact:
		if len(lacking) == len(others) {
			return refuse(Forbidden, "no recipient allows receive_messages (%s)", strings.Join(lacking, ", "))
		}
	case TypeActionRequest:
		if len(lacking) > 0 {
			return refuse(Forbidden, "these members did not grant request_actions: %s", strings.Join(lacking, ", "))
		}
	}
	return nil
}

// replay answers a message whose key was used before. The request's own rules
// are not asked again: an answered request stays answered by this very key.
func (s *state) replay(rec *record, old kept, msg Message, print string, sent *Sent) (*record, error) {
	if old.Fingerprint != print {
		return rec, refuse(Conflict, "idempotency_key %q was already used for a different message; use a new key", msg.Key)
	}
	sent.Cursor, sent.Replayed = old.Cursor, true
	return rec, nil
}

// checkType applies the rules of one type to a message.
func (s *state) checkType(m *member, msg Message, p payload.Payload) error {
	switch msg.Type {
	case TypeActionResponse:
		if err := s.checkAnswer(m, msg.RefID); err != nil {
			return err
		}
		return checkResponse(p.Compact)
	case TypeBriefUpdate:
		_, err := ParseBrief(p.Compact)
		return err
	case TypeProgress:
		return checkProgress(p.Compact)
	}
	return nil
}

// checkAnswer finds the request that is being answered. The first answer
// counts; a late one still does.
func (s *state) checkAnswer(m *member, ref *string) error {
	if ref == nil {
		return refuse(Invalid, "action_response needs ref_id: the cursor of the action_request it answers")
	}
	q := s.answered[*ref]
	switch {
	case q == nil:
		return refuse(NotFound, "no action_request with cursor id %s", *ref)
	case q.from.MemberID == m.ID:
		return refuse(Forbidden, "you cannot respond to your own action_request")
	case q.closed:
		return refuse(Conflict, "action_request %s was already answered by %s", *ref, q.answered)
	}
	return nil
}

func (s *state) storeMessage(rec *record, who account.Identity, m *member, msg Message, p payload.Payload, print string, sent *Sent) error {
	cursor, err := rec.say(s, msg.Type, m.sender(), p.Compact, msg.RefID)
	if err != nil {
		return err
	}
	sent.Cursor = cursor
	if msg.Key != "" {
		rec.Key = &kept{Member: m.ID, Key: msg.Key, Fingerprint: print, Cursor: cursor}
	}
	switch msg.Type {
	case TypeBriefUpdate:
		brief, err := ParseBrief(p.Compact)
		if err != nil {
			return err
		}
		rec.Brief = &briefChange{Member: m.ID, Brief: brief}
	case TypeProgress:
		rec.Report = m.ID
	}
	detail := map[string]any{"chars": p.Units}
	if msg.RefID != nil {
		detail["ref_id"] = *msg.RefID
	}
	rec.note(s, who, "sent_"+msg.Type, detail)
	return nil
}

// checkResponse holds an answer to {approved, result?}; more keys are welcome.
func checkResponse(raw json.RawMessage) error {
	// A map tells approved from Approved, as whoever reads the event will.
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return refuse(Invalid, "payload of action_response is {approved: true or false, result?}")
	}
	var approved *bool
	if json.Unmarshal(given["approved"], &approved) != nil || approved == nil {
		return refuse(Invalid, "payload.approved must be true or false")
	}
	raw, ok := given["result"]
	if !ok {
		return nil
	}
	var result *string
	if json.Unmarshal(raw, &result) != nil || result == nil || bellman.Units(*result) > 2000 {
		return refuse(Invalid, "payload.result must be a string of at most 2000 characters")
	}
	return nil
}

// checkProgress holds progress to {note, step?, eta_seconds?} and nothing else.
func checkProgress(raw json.RawMessage) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return refuse(Invalid, "payload of progress is {note, step?, eta_seconds?}")
	}
	for name := range given {
		if name != "note" && name != "step" && name != "eta_seconds" {
			return refuse(Invalid, "payload of progress has an unknown key %q (known: note, step, eta_seconds)", name)
		}
	}
	var note, step *string
	if json.Unmarshal(given["note"], &note) != nil || note == nil || *note == "" || bellman.Units(*note) > 500 {
		return refuse(Invalid, "payload.note must have 1 to 500 characters")
	}
	if raw, ok := given["step"]; ok && (json.Unmarshal(raw, &step) != nil || step == nil || bellman.Units(*step) > 40) {
		return refuse(Invalid, "payload.step must be a string of at most 40 characters")
	}
	if raw, ok := given["eta_seconds"]; ok {
		var eta *float64
		if json.Unmarshal(raw, &eta) != nil || eta == nil || *eta != float64(int64(*eta)) || *eta < 0 || *eta > 86400 {
			return refuse(Invalid, "payload.eta_seconds must be a whole number from 0 to 86400")
		}
	}
	return nil
}

// fingerprint says what a message is: its type, its sender's handle, what it
// answers and its payload. The person behind the handle is left out.
func fingerprint(kind, handle string, ref *string, sorted []byte) string {
	h := sha256.New()
	answered := "-"
	if ref != nil {
		answered = "=" + *ref
	}
	for _, part := range []string{kind, handle, answered} {
		// The length keeps one part from running into the next.
		_, _ = fmt.Fprintf(h, "%d:", len(part))
		_, _ = io.WriteString(h, part)
	}
	_, _ = h.Write(sorted)
	return base64.RawStdEncoding.EncodeToString(h.Sum(nil))
}
