package room

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/manifest"
)

// Statuses of a room.
const (
	StatusActive = bellman.StatusActive
	StatusFrozen = bellman.StatusFrozen
	StatusClosed = bellman.StatusClosed
)

// Opening is what somebody starts a room with.
type Opening struct {
	Manifest     manifest.Manifest
	Brief        Brief
	Capabilities []string
	OrgOnly      bool
}

// Ticket is a seat in a new room and its first join code.
type Ticket struct {
	SessionID, MemberID string
	Code                string
	CodeExpires         string
	Room                Preview
}

// Start opens a room with its creator seated and a code for the default role.
// It writes no event. What the creator's plan allows is the caller's to check.
func (h *House) Start(ctx context.Context, who account.Identity, o Opening) (Ticket, error) {
	id := "qs_" + uuid.NewString()
	r := h.hold(id)
	defer h.release(r)
	plan := account.PlanOf(who.Plan)
	var t Ticket
	err := r.change(ctx, func(s *state, now int64) (*record, error) {
		if s.position != 0 {
			return nil, fmt.Errorf("start room: %s exists", id)
		}
		m := o.Manifest
		c := code{Role: m.DefaultRole, Code: newCode(m.DefaultRole), Expires: now + codeLife.Milliseconds()}
		rec := &record{
			At: now,
			Open: &charter{
				ID: id, Creator: who.UserID, Org: who.Org(), OrgOnly: o.OrgOnly, Manifest: m,
				Ceiling: plan.BlobBytes, Keep: plan.Keep.Milliseconds(),
			},
			Seat: &member{
				ID: newHandle(s), User: who.UserID, Label: who.Label, Org: who.OrgID, Role: m.CreatorRole,
				Capabilities: o.Capabilities, Brief: o.Brief,
			},
			Codes: []code{c},
		}
		rec.note(s, who, "session_created", map[string]any{
			"mode": m.Mode, "org_only": o.OrgOnly, "preset": m.Preset, "hosted": m.Host != nil,
		})
		t = Ticket{SessionID: id, MemberID: rec.Seat.ID, Code: c.Code, CodeExpires: wireTime(c.Expires)}
		return rec, nil
	})
	if err != nil {
		return Ticket{}, err
	}
	r.look(func(s *state, _ int64) { t.Room = s.preview(o.Manifest.CreatorRole) })
	return t, nil
}

// preview is the room as a seat of the role sees it.
func (s *state) preview(role string) Preview {
	m := s.manifest()
	mine, _ := m.Role(role)
	p := Preview{
		Preset: m.Preset, Mode: m.Mode, Public: s.public,
		YourRole: role, YourVerbs: mine.Can, YouReport: m.Reports(role),
		CreatorRole: m.CreatorRole, Roles: map[string][]string{}, HeartbeatOn: map[string]bool{},
	}
	if p.YourVerbs == nil {
		p.YourVerbs = []string{}
	}
	if m.Heartbeat > 0 {
		seconds := int(m.Heartbeat.Seconds())
		p.Heartbeat = &seconds
	}
	if m.Host != nil {
		p.Host = &Host{Role: m.Host.Role, Model: m.Host.Model}
	}
	p.Housekeeping = housekeepingOf(m.Housekeeping)
	text := PreviewText{
		Room: m.Room, Purpose: m.Purpose, Descriptions: map[string]*string{}, Instructions: map[string]*string{},
	}
	for _, r := range m.Roles {
		p.Roles[r.Name] = r.Can
		p.HeartbeatOn[r.Name] = r.HeartbeatOn
		text.Descriptions[r.Name] = r.Description
		text.Instructions[r.Name] = r.Report
	}
	creator := s.creator()
	p.Text = bellman.Untrusted(creator.ID, creator.Label, text)
	return p
}

func housekeepingOf(h *manifest.Housekeeping) *Housekeeping {
	if h == nil {
		return nil
	}
	seconds := func(n float64) *int {
		if n == 0 {
			return nil
		}
		whole := int(n)
		return &whole
	}
	return &Housekeeping{
		QuietAfter: seconds(h.QuietAfter.Seconds()), AnswerWithin: seconds(h.AnswerWithin.Seconds()),
		IdleAfter: seconds(h.IdleAfter.Seconds()), RepeatAfter: seconds(h.RepeatAfter.Seconds()),
	}
}

// untrusted wraps what member m wrote.
func untrusted[T any](m *member, data T) bellman.Envelope[T] {
	return bellman.Untrusted(m.ID, m.Label, data)
}

// ParseBrief reads a brief as a member wrote it; every bound of the contract
// is checked and the lists default to empty. Errors name the field.
func ParseBrief(raw json.RawMessage) (Brief, error) {
	// Maps tell goal from Goal, as whoever reads the brief will.
	var given, agent map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return Brief{}, refuse(Invalid, "a brief is {goal, state, constraints?, open_questions?, agent: {provider, model, client}}")
	}
	if err := json.Unmarshal(given["agent"], &agent); err != nil || agent == nil {
		return Brief{}, refuse(Invalid, "brief.agent is required: {provider, model, client}")
	}
	b := Brief{Constraints: []string{}, OpenQuestions: []string{}}
	for _, f := range []struct {
		name string
		raw  json.RawMessage
		most int
		to   *string
	}{
		{"goal", given["goal"], 500, &b.Goal},
		{"state", given["state"], 2000, &b.State},
		{"agent.provider", agent["provider"], 50, &b.Agent.Provider},
		{"agent.model", agent["model"], 80, &b.Agent.Model},
		{"agent.client", agent["client"], 80, &b.Agent.Client},
	} {
		if json.Unmarshal(f.raw, f.to) != nil || *f.to == "" || bellman.Units(*f.to) > f.most {
			return Brief{}, refuse(Invalid, "brief.%s must have 1 to %d characters", f.name, f.most)
		}
	}
	for name, to := range map[string]*[]string{"constraints": &b.Constraints, "open_questions": &b.OpenQuestions} {
		raw, ok := given[name]
		if !ok {
			continue
		}
		if json.Unmarshal(raw, to) != nil || len(*to) > 20 {
			return Brief{}, refuse(Invalid, "brief.%s must be a list of at most 20 texts", name)
		}
		if slices.ContainsFunc(*to, func(text string) bool { return bellman.Units(text) > 300 }) {
			return Brief{}, refuse(Invalid, "brief.%s: an entry must have at most 300 characters", name)
		}
		*to = append([]string{}, *to...) // Null is an empty list too.
	}
	return b, nil
}
