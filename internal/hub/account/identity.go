// Package account says who a caller is and what the caller's plan allows.
package account

import (
	"encoding/json"
	"fmt"
	"strings"
)

// RoleAdmin is the platform role that may read an organization's audit log.
// It has nothing to do with the roles of a room.
const RoleAdmin = "admin"

// Identity is who a bearer token is. UserID never reaches a peer; Label does.
// See protocol.md 0.
type Identity struct {
	UserID string  `json:"userId"`
	OrgID  *string `json:"orgId"`
	Plan   string  `json:"plan"`
	Role   string  `json:"role"`
	Label  string  `json:"label"`
}

// Org returns the organization's id, empty for somebody without one.
func (i Identity) Org() string {
	if i.OrgID == nil {
		return ""
	}
	return *i.OrgID
}

// Check reports what is wrong with an identity that came from outside.
func (i Identity) Check() error {
	switch {
	case strings.TrimSpace(i.UserID) == "":
		return fmt.Errorf("userId is missing")
	case strings.TrimSpace(i.Label) == "":
		return fmt.Errorf("label is missing")
	case i.OrgID != nil && strings.TrimSpace(*i.OrgID) == "":
		return fmt.Errorf("orgId is empty; null means none")
	case i.Role != "member" && i.Role != RoleAdmin:
		return fmt.Errorf("role %q is neither member nor admin", i.Role)
	}
	if _, ok := plans[i.Plan]; !ok {
		return fmt.Errorf("plan %q is none of free, pro, max, team", i.Plan)
	}
	return nil
}

// ParseKeys reads the JSON map from bearer to identity of BELLMAN_KEYS. All
// five fields must be there. Errors never quote a key. See protocol.md 7.
func ParseKeys(text string) (map[string]Identity, error) {
	var raw map[string]map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &raw); err != nil {
		return nil, fmt.Errorf("not a JSON map from key to identity")
	}
	keys := make(map[string]Identity, len(raw))
	for key, fields := range raw {
		if strings.TrimSpace(key) == "" {
			return nil, fmt.Errorf("a key is empty")
		}
		for _, name := range []string{"userId", "orgId", "plan", "role", "label"} {
			if _, ok := fields[name]; !ok {
				return nil, fmt.Errorf("an identity lacks %s", name)
			}
		}
		whole, err := json.Marshal(fields)
		if err != nil {
			return nil, fmt.Errorf("an identity cannot be read")
		}
		var id Identity
		if err := json.Unmarshal(whole, &id); err != nil {
			return nil, fmt.Errorf("an identity has a field of the wrong type")
		}
		if err := id.Check(); err != nil {
			return nil, fmt.Errorf("an identity is invalid: %w", err)
		}
		keys[key] = id
	}
	return keys, nil
}

// DevKeys are the three keys that exist on a development hub alone.
func DevKeys() map[string]Identity {
	org := "org_codenerd"
	return map[string]Identity{
		"qk_dev_jesse":    {UserID: "u_jesse", OrgID: &org, Plan: "team", Role: RoleAdmin, Label: "jesse@codenerd"},
		"qk_dev_peer":     {UserID: "u_peer", OrgID: &org, Plan: "free", Role: "member", Label: "peer@codenerd"},
		"qk_dev_outsider": {UserID: "u_outsider", Plan: "free", Role: "member", Label: "outsider@example.com"},
	}
}
