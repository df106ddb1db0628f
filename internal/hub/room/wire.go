package room

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/surface"
)

// Event types. Members write the first seven, the service the rest.
// See protocol.md 3.3.
const (
	TypeMessage        = "message"
	TypeArtifact       = "artifact"
	TypeActionRequest  = bellman.TypeActionRequest
	TypeActionResponse = "action_response"
	TypeBriefUpdate    = "brief_update"
	TypeProgress       = "progress"
	TypeSurface        = "surface"

	typeJoined       = "member_joined"
	typeLeft         = "member_left"
	typeIssued       = "invite_issued"
	typeRevoked      = "invite_revoked"
	typeExpired      = "session_expired"
	typeHeartbeat    = "heartbeat"
	typeHousekeeping = "housekeeping"
)

// Capabilities: what a member lets the others do to it.
const (
	CanRead    = "read_context"
	CanReceive = "receive_messages"
	CanAct     = "request_actions"
)

// Agent says what kind of agent a member is.
type Agent struct {
	Provider string `json:"provider"`
	Model    string `json:"model"`
	Client   string `json:"client"`
}

// Brief is what a member says about its work.
type Brief struct {
	Goal          string   `json:"goal"`
	State         string   `json:"state"`
	Constraints   []string `json:"constraints"`
	OpenQuestions []string `json:"open_questions"`
	Agent         Agent    `json:"agent"`
}

// StoredMember is a member as it stands in an event.
type StoredMember struct {
	MemberID     string   `json:"member_id"`
	Label        string   `json:"label"`
	OrgID        *string  `json:"org_id"`
	Agent        Agent    `json:"agent"`
	Capabilities []string `json:"capabilities"`
	Role         string   `json:"room_role"`
	Active       bool     `json:"active"`
}

// Presences of a member.
const (
	Present  = "present"
	Stale    = "stale"
	Departed = "departed"
)

// PublicMember is a member on the roster.
type PublicMember struct {
	StoredMember
	Presence string `json:"presence"`
}

// Preview describes a room to somebody in it, or about to be. What the
// service vouches for is outside Text, the creator's prose inside it.
type Preview struct {
	Preset       *string                       `json:"preset"`
	Mode         string                        `json:"mode"`
	Public       bool                          `json:"public"`
	YourRole     string                        `json:"your_role"`
	YourVerbs    []string                      `json:"your_verbs"`
	Heartbeat    *int                          `json:"heartbeat_seconds"`
	YouReport    bool                          `json:"your_heartbeat_on"`
	CreatorRole  string                        `json:"creator_role"`
	Roles        map[string][]string           `json:"roles"`
	HeartbeatOn  map[string]bool               `json:"heartbeat_on"`
	Host         *Host                         `json:"host"`
	Housekeeping *Housekeeping                 `json:"housekeeping"`
	Text         bellman.Envelope[PreviewText] `json:"text"`
}

// Host is the hosted seat of a room.
type Host struct {
	Role  string `json:"role"`
	Model string `json:"model"`
}

// Housekeeping says when a room speaks up, in seconds; null is never.
type Housekeeping struct {
	QuietAfter   *int `json:"quiet_after_seconds"`
	AnswerWithin *int `json:"answer_within_seconds"`
	IdleAfter    *int `json:"idle_after_seconds"`
	RepeatAfter  *int `json:"repeat_after_seconds"`
}

// PreviewText is the prose of a room's creator.
type PreviewText struct {
	Room         string             `json:"room"`
	Purpose      *string            `json:"purpose"`
	Descriptions map[string]*string `json:"descriptions"`
	Instructions map[string]*string `json:"instructions"`
}

// Surface is the working surface, every item as its last writer's.
type Surface struct {
	Cursor int64                            `json:"cursor"`
	Items  []bellman.Envelope[surface.Item] `json:"items"`
}

// encode writes v as compact JSON the way JavaScript does: nothing escaped for
// the sake of HTML.
func encode(v any) (json.RawMessage, error) {
	if raw, ok := v.(json.RawMessage); ok {
		return raw, nil
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, fmt.Errorf("encode: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

func wireTime(ms int64) string { return bellman.FormatTime(time.UnixMilli(ms)) }
