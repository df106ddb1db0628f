package hub

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/room"
)

// errNoTool reports a tool that is listed but that nobody wrote.
var errNoTool = errors.New("no implementation")

type runner func(ctx context.Context, who Identity, args json.RawMessage) (answer, error)

// toolTable pairs the published definitions with what the tools do.
func (h *Hub) toolTable() (map[string]tool, error) {
	runners := map[string]runner{
		bellman.ToolStart: h.toolStart, bellman.ToolConnect: h.toolConnect, bellman.ToolConfirm: h.toolConfirm,
		bellman.ToolInvite: h.toolInvite, bellman.ToolSend: h.toolSend, bellman.ToolSync: h.toolSync,
		bellman.ToolRooms: h.toolRooms, bellman.ToolSurface: h.toolSurface, bellman.ToolLeave: h.toolLeave,
		bellman.ToolEvict: h.toolEvict, bellman.ToolAudit: h.toolAudit,
	}
	table := make(map[string]tool, len(runners))
	for _, definition := range bellman.ServiceTools() {
		run, ok := runners[definition.Name]
		if !ok {
			return nil, fmt.Errorf("tool %s: %w", definition.Name, errNoTool)
		}
		args, err := parseSchema(definition.InputSchema)
		if err != nil {
			return nil, fmt.Errorf("tool %s: %w", definition.Name, err)
		}
		t := tool{Tool: definition, args: args, run: run}
		if definition.Name == bellman.ToolStart {
			t.loose = "manifest"
		}
		table[definition.Name] = t
	}
	return table, nil
}

func invalid(format string, args ...any) error {
	return &room.Error{Code: room.Invalid, Text: fmt.Sprintf(format, args...)}
}

// read decodes checked arguments.
func read(raw json.RawMessage, to any) error {
	if err := json.Unmarshal(raw, to); err != nil {
		return invalid("arguments do not fit: %v", err)
	}
	return nil
}

// roomRef is how every tool names its room.
type roomRef struct {
	SessionID string `json:"session_id"`
	RoomID    string `json:"room_id"`
}

// id returns the room that is meant; session_id wins. See protocol.md 0.
func (r roomRef) id() (string, error) {
	switch {
	case r.SessionID != "":
		return r.SessionID, nil
	case r.RoomID != "":
		return r.RoomID, nil
	}
	return "", invalid("session_id is required (room_id is accepted for it)")
}

// readIn decodes checked arguments and returns the room they are about.
func readIn(raw json.RawMessage, to interface{ id() (string, error) }) (string, error) {
	if err := read(raw, to); err != nil {
		return "", err
	}
	return to.id()
}

// capable fills in the default capabilities.
func capable(given []string) []string {
	if given == nil {
		return []string{room.CanRead, room.CanReceive}
	}
	return given
}

const share = "Give the join code to the person whose agent should join. It is good for 15 minutes; their agent passes it to bellman_connect."

func (h *Hub) toolStart(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a struct {
		Manifest, Brief json.RawMessage
		Capabilities    []string
		OrgOnly         bool `json:"org_only"`
	}
	if err := read(raw, &a); err != nil {
		return answer{}, err
	}
	m, err := h.admit(ctx, who, a.Manifest, a.OrgOnly)
	if err != nil {
		return answer{}, err
	}
	brief, err := room.ParseBrief(a.Brief)
	if err != nil {
		return answer{}, err
	}
	if err := h.countCreate(ctx, who); err != nil {
		return answer{}, err
	}
	t, err := h.house.Start(ctx, who, room.Opening{
		Manifest: m, Brief: brief, Capabilities: capable(a.Capabilities), OrgOnly: a.OrgOnly,
	})
	if err != nil {
		return answer{}, err
	}
	publicURL := ""
	if m.Public {
		publicURL = "https://dash.bellman.sh/r/" + t.SessionID
	}
	return answer{value: struct {
		SessionID string       `json:"session_id"`
		MemberID  string       `json:"member_id"`
		Code      string       `json:"join_code"`
		URL       string       `json:"join_url"`
		Expires   string       `json:"join_code_expires_at"`
		PublicURL string       `json:"public_url,omitempty"`
		Plan      string       `json:"plan"`
		Room      room.Preview `json:"room"`
		Share     string       `json:"share_instructions"`
	}{t.SessionID, t.MemberID, t.Code, room.JoinURL(t.Code), t.CodeExpires, publicURL, who.Plan, t.Room, share}}, nil
}

// preview is a visit on its way to a confirmation, kept under its token.
type preview struct {
	User      string `json:"user"`
	SessionID string `json:"session_id"`
	Role      string `json:"role"`
}

// connectLife is how long a preview may be confirmed.
const connectLife = 10 * time.Minute

func (h *Hub) toolConnect(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a struct {
		Code string `json:"join_code"`
	}
	if err := read(raw, &a); err != nil {
		return answer{}, err
	}
	v, err := h.house.Visit(ctx, who, a.Code)
	if err != nil {
		return answer{}, err
	}
	token, expires := newConnectToken(), h.now().Add(connectLife)
	value, err := json.Marshal(preview{User: who.UserID, SessionID: v.SessionID, Role: v.Role})
	if err != nil {
		return answer{}, fmt.Errorf("keep preview: %w", err)
	}
	if err := h.connect.Put(ctx, digest(token), value, expires); err != nil {
		return answer{}, err
	}
	return answer{
		warn: []string{preamble, "Show this preview to your human and confirm only when they agree."},
		value: struct {
			Token   string                       `json:"connect_token"`
			Expires string                       `json:"connect_token_expires_at"`
			Session room.VisitSession            `json:"session"`
			Room    room.Preview                 `json:"room"`
			Brief   bellman.Envelope[room.Brief] `json:"creator_brief"`
			Surface room.SurfaceIndex            `json:"surface"`
		}{token, bellman.FormatTime(expires), v.Session, v.Room, v.CreatorBrief, v.Surface},
	}, nil
}

func (h *Hub) toolConfirm(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a struct {
		Token        string `json:"connect_token"`
		Brief        json.RawMessage
		Capabilities []string
	}
	if err := read(raw, &a); err != nil {
		return answer{}, err
	}
	// The token is spent whatever comes of it.
	p, err := h.takePreview(ctx, who, a.Token)
	if err != nil {
		return answer{}, err
	}
	brief, err := room.ParseBrief(a.Brief)
	if err != nil {
		return answer{}, err
	}
	joined, err := h.house.Join(ctx, who, p.SessionID, p.Role, brief, capable(a.Capabilities))
	return answer{value: joined, warn: []string{preamble}}, err
}

func (h *Hub) takePreview(ctx context.Context, who Identity, token string) (preview, error) {
	value, ok, err := h.connect.Take(ctx, digest(token))
	if err != nil {
		return preview{}, err
	}
	var p preview
	if ok {
		if err := json.Unmarshal(value, &p); err != nil {
			return preview{}, fmt.Errorf("read preview: %w", err)
		}
	}
	if !ok || p.User != who.UserID {
		return preview{}, invalid("connect_token is invalid or expired: preview the room again with bellman_connect")
	}
	return p, nil
}

func (h *Hub) toolInvite(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a struct {
		roomRef
		MemberID string `json:"member_id"`
		Role     string
		Revoke   bool
	}
	id, err := readIn(raw, &a)
	if err != nil {
		return answer{}, err
	}
	if a.Revoke {
		roles, err := h.house.RevokeCodes(ctx, who, id, a.MemberID, a.Role)
		return answer{value: map[string]any{"revoked": true, "roles": roles, "join_code": nil}}, err
	}
	inv, err := h.house.Invite(ctx, who, id, a.MemberID, a.Role)
	if err != nil {
		return answer{}, err
	}
	return answer{value: struct {
		Code     string `json:"join_code"`
		URL      string `json:"join_url"`
		Expires  string `json:"join_code_expires_at"`
		Role     string `json:"role"`
		Replaced bool   `json:"replaced_previous"`
		Share    string `json:"share_instructions"`
	}{inv.Code, room.JoinURL(inv.Code), inv.CodeExpires, inv.Role, inv.Replaced, share}}, nil
}

func (h *Hub) toolSend(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a struct {
		roomRef
		MemberID string `json:"member_id"`
		Type     string
		Payload  json.RawMessage
		RefID    *string `json:"ref_id"`
		Key      string  `json:"idempotency_key"`
	}
	id, err := readIn(raw, &a)
	if err != nil {
		return answer{}, err
	}
	sent, err := h.house.Send(ctx, who, id, room.Message{
		Handle: a.MemberID, Type: a.Type, Payload: a.Payload, RefID: a.RefID, Key: a.Key,
	})
	return answer{value: sent}, err
}

func (h *Hub) toolSync(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a struct {
		roomRef
		MemberID string  `json:"member_id"`
		Since    float64 `json:"since_cursor"`
		Wait     float64 `json:"wait_seconds"`
		Surface  bool
	}
	id, err := readIn(raw, &a)
	if err != nil {
		return answer{}, err
	}
	const safe = 1<<53 - 1 // Past it a cursor would not survive JavaScript.
	if a.Since > safe {
		return answer{}, invalid("since_cursor must be at most %d", int64(safe))
	}
	synced, err := h.house.Sync(ctx, who, id, room.Query{
		Handle: a.MemberID, Since: int64(a.Since), Wait: time.Duration(a.Wait) * time.Second, Surface: a.Surface,
	})
	out := answer{value: synced}
	if len(synced.Events) > 0 {
		out.warn = []string{preamble}
	}
	return out, err
}

func (h *Hub) toolSurface(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a roomRef
	id, err := readIn(raw, &a)
	if err != nil {
		return answer{}, err
	}
	view, err := h.house.Surface(ctx, who, id)
	return answer{value: view, warn: []string{preamble}}, err
}

// seatRef is the argument of the tools that are about one seat.
type seatRef struct {
	roomRef
	MemberID string `json:"member_id"`
}

func (h *Hub) toolLeave(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a seatRef
	id, err := readIn(raw, &a)
	if err != nil {
		return answer{}, err
	}
	status, err := h.house.Leave(ctx, who, id, a.MemberID)
	return answer{value: map[string]any{"left": true, "session_status": status}}, err
}

func (h *Hub) toolEvict(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	var a seatRef
	id, err := readIn(raw, &a)
	if err != nil {
		return answer{}, err
	}
	eviction, err := h.house.Evict(ctx, who, id, a.MemberID)
	return answer{value: eviction}, err
}

func (h *Hub) toolRooms(ctx context.Context, who Identity, _ json.RawMessage) (answer, error) {
	rooms, err := h.house.Rooms(ctx, who)
	out := answer{value: map[string]any{"rooms": rooms}}
	if len(rooms) > 0 {
		out.warn = []string{preamble}
	}
	return out, err
}

func (h *Hub) toolAudit(ctx context.Context, who Identity, raw json.RawMessage) (answer, error) {
	a := struct{ Limit float64 }{Limit: 50}
	if err := read(raw, &a); err != nil {
		return answer{}, err
	}
	if err := mayAudit(who); err != nil {
		return answer{}, err
	}
	entries, err := h.house.Audit(ctx, who.Org(), int(a.Limit))
	return answer{value: map[string]any{"org_id": who.Org(), "count": len(entries), "entries": entries}}, err
}
