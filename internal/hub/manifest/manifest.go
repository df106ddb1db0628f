// Package manifest reads what a room is made of: its name, its roles and
// their verbs, and its cadence. A manifest is checked once, when the room is
// started, and stored expanded and unchanging. See protocol.md 4.1.
package manifest

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"
)

// Modes of a room.
const (
	Pair  = "pair"
	Swarm = "swarm"
)

// Verbs a role may hold. None implies another.
const (
	Send           = "send"
	Invite         = "invite"
	Revoke         = "revoke"
	RequestActions = "request_actions"
	RespondActions = "respond_actions"
	WriteSurface   = "write_surface"
)

// Verbs are all of them, in the order they are listed to people.
var verbs = []string{Send, Invite, Revoke, RequestActions, RespondActions, WriteSurface}

// Manifest is a room's make-up, expanded: whatever preset it came from, its
// roles are spelled out.
type Manifest struct {
	Room         string        `json:"room"`
	Purpose      *string       `json:"purpose,omitempty"`
	Preset       *string       `json:"preset,omitempty"`
	Mode         string        `json:"mode"`
	Public       bool          `json:"public,omitempty"`
	Roles        []Role        `json:"roles"`
	DefaultRole  string        `json:"default_role"`
	CreatorRole  string        `json:"creator_role"`
	Heartbeat    time.Duration `json:"heartbeat,omitempty"` // 0 is none
	Host         *Host         `json:"host,omitempty"`
	Housekeeping *Housekeeping `json:"housekeeping,omitempty"`
}

// Role is one kind of seat.
type Role struct {
	Name        string   `json:"name"`
	Can         []string `json:"can"`
	Description *string  `json:"description,omitempty"`
	HeartbeatOn bool     `json:"heartbeat_on,omitempty"`
	Report      *string  `json:"report,omitempty"` // what a reporting seat is asked for
}

// Host is a seat that the service itself takes.
type Host struct {
	Role         string  `json:"role"`
	Model        string  `json:"model"`
	Instructions *string `json:"instructions,omitempty"`
}

// Housekeeping says after how much silence the room speaks up; 0 is never.
type Housekeeping struct {
	QuietAfter   time.Duration `json:"quiet_after,omitempty"`
	AnswerWithin time.Duration `json:"answer_within,omitempty"`
	IdleAfter    time.Duration `json:"idle_after,omitempty"`
	RepeatAfter  time.Duration `json:"repeat_after,omitempty"`
}

// Role returns the role of that name, and whether it is declared.
func (m Manifest) Role(name string) (Role, bool) {
	for _, r := range m.Roles {
		if r.Name == name {
			return r, true
		}
	}
	return Role{}, false
}

// Can reports whether seats of the role hold the verb.
func (m Manifest) Can(role, verb string) bool {
	r, _ := m.Role(role)
	return slices.Contains(r.Can, verb)
}

// Reports reports whether seats of the role are asked for progress.
func (m Manifest) Reports(role string) bool {
	r, _ := m.Role(role)
	return m.Heartbeat > 0 && r.HeartbeatOn
}

// RoleNames lists the declared roles in the order they were declared.
func (m Manifest) RoleNames() []string {
	names := make([]string, len(m.Roles))
	for i, r := range m.Roles {
		names[i] = r.Name
	}
	return names
}

// Seats is how many people fit in a room of this mode.
func (m Manifest) Seats() int {
	if m.Mode == Swarm {
		return 100
	}
	return 2
}

// Parse reads a manifest as a caller wrote it. Saved are the caller's own
// presets. Errors are worded for the caller and name the rule.
func Parse(raw json.RawMessage, saved map[string]Manifest) (Manifest, error) {
	o, err := readObject("manifest", raw)
	if err != nil {
		return Manifest{}, err
	}
	if o.has("preset") {
		return parseCited(o, saved)
	}
	return parseAuthored(o)
}

// ParsePreset reads the body of a saved preset: an authored manifest whose
// room name may be left out, since citing it brings one.
func ParsePreset(raw json.RawMessage) (Manifest, error) {
	o, err := readObject("manifest", raw)
	if err != nil {
		return Manifest{}, err
	}
	if o.has("preset") {
		return Manifest{}, fmt.Errorf("a saved preset must spell out its roles and cannot cite another")
	}
	if !o.has("room") {
		o.fields["room"] = json.RawMessage(`"preset"`)
	}
	return parseAuthored(o)
}

func parseCited(o object, saved map[string]Manifest) (Manifest, error) {
	if err := o.only("room", "purpose", "preset", "heartbeat", "heartbeat_on", "housekeeping", "public"); err != nil {
		return Manifest{}, err
	}
	name, err := o.text("preset", 1, 31)
	if err != nil {
		return Manifest{}, err
	}
	m, ok := Builtin(*name)
	if !ok {
		m, ok = saved[*name]
	}
	if !ok {
		return Manifest{}, fmt.Errorf("unknown preset %q: there are %s", *name, presetNames(saved))
	}
	m.Preset = name
	cadence, err := o.cadence()
	if err != nil {
		return Manifest{}, err
	}
	if cadence > 0 {
		if m.Host == nil {
			return Manifest{}, fmt.Errorf("heartbeat may be set on a preset only when it has a host; author the roles instead")
		}
		m.Heartbeat = cadence
	}
	return m, readFrame(o, &m)
}

func parseAuthored(o object) (Manifest, error) {
	if err := o.only("room", "purpose", "mode", "heartbeat", "heartbeat_on", "housekeeping", "public",
		"roles", "default_role", "creator_role", "host"); err != nil {
		return Manifest{}, err
	}
	var m Manifest
	if err := readFrame(o, &m); err != nil {
		return Manifest{}, err
	}
	mode, err := o.choice("mode", Pair, Swarm)
	if err != nil {
		return Manifest{}, err
	}
	m.Mode = mode
	if m.Heartbeat, err = o.cadence(); err != nil {
		return Manifest{}, err
	}
	if m.Roles, err = readRoles(o); err != nil {
		return Manifest{}, err
	}
	for name, to := range map[string]*string{"default_role": &m.DefaultRole, "creator_role": &m.CreatorRole} {
		role, err := o.text(name, 1, 31)
		if err != nil {
			return Manifest{}, err
		}
		if _, ok := m.Role(*role); !ok {
			return Manifest{}, fmt.Errorf("%s %q is not a declared role (declared: %s)", name, *role, strings.Join(m.RoleNames(), ", "))
		}
		*to = *role
	}
	if m.Host, err = readHost(o, m); err != nil {
		return Manifest{}, err
	}
	return m, nil
}

// readFrame reads what both arms have: name, purpose, publicity and
// housekeeping.
func readFrame(o object, m *Manifest) error {
	room, err := o.text("room", 1, 80)
	if err != nil {
		return err
	}
	m.Room = *room
	if o.has("purpose") && !o.null("purpose") {
		if m.Purpose, err = o.text("purpose", 0, 300); err != nil {
			return err
		}
	}
	if o.has("public") {
		if m.Public, err = o.flag("public"); err != nil {
			return err
		}
	}
	if o.has("housekeeping") {
		m.Housekeeping, err = readHousekeeping(o)
	}
	return err
}

func readHousekeeping(o object) (*Housekeeping, error) {
	block, err := o.object("housekeeping")
	if err != nil {
		return nil, err
	}
	if err := block.only("quiet_after", "answer_within", "idle_after", "repeat_after"); err != nil {
		return nil, err
	}
	var h Housekeeping
	for name, to := range map[string]*time.Duration{
		"quiet_after": &h.QuietAfter, "answer_within": &h.AnswerWithin, "idle_after": &h.IdleAfter, "repeat_after": &h.RepeatAfter,
	} {
		if !block.has(name) {
			continue
		}
		if *to, err = block.duration(name, "smhd", 5*time.Minute, 7*24*time.Hour); err != nil {
			return nil, err
		}
	}
	if h.QuietAfter == 0 && h.AnswerWithin == 0 && h.IdleAfter == 0 {
		return nil, nil //nolint:nilnil // A block that asks for nothing is off.
	}
	return &h, nil
}

func readHost(o object, m Manifest) (*Host, error) {
	if !o.has("host") {
		return nil, nil //nolint:nilnil // Most rooms have no hosted seat.
	}
	block, err := o.object("host")
	if err != nil {
		return nil, err
	}
	if err := block.only("role", "model", "instructions"); err != nil {
		return nil, err
	}
	role, err := block.text("role", 1, 31)
	if err != nil {
		return nil, err
	}
	h := &Host{Role: *role, Model: "haiku"}
	if block.has("model") {
		if h.Model, err = block.choice("model", "haiku", "sonnet", "opus"); err != nil {
			return nil, err
		}
	}
	if block.has("instructions") {
		if h.Instructions, err = block.text("instructions", 0, 300); err != nil {
			return nil, err
		}
	}
	r, ok := m.Role(h.Role)
	switch {
	case m.Mode != Swarm:
		return nil, fmt.Errorf("host needs mode swarm")
	case !ok:
		return nil, fmt.Errorf("host.role %q is not a declared role", h.Role)
	case len(r.Can) != 1 || r.Can[0] != Send:
		return nil, fmt.Errorf("host.role %q must hold exactly the verb send", h.Role)
	case r.HeartbeatOn:
		return nil, fmt.Errorf("host.role %q cannot be on the heartbeat", h.Role)
	case m.Heartbeat > 0 && m.Heartbeat < time.Hour:
		return nil, fmt.Errorf("heartbeat must be at least 1h in a room with a host")
	}
	return h, nil
}
