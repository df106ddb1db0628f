package oauth

import (
	"encoding/base64"
	"encoding/json"
	"strings"
	"unicode"
)

// Identity is who the access token says the person is. Nobody has verified
// it: it is for display and for keeping one account's rooms apart from
// another's on this machine, and must never decide what is allowed.
type Identity struct {
	UserID string  `json:"user_id,omitempty"`
	Label  string  `json:"label,omitempty"`
	Plan   string  `json:"plan,omitempty"`
	Role   string  `json:"role,omitempty"`
	OrgID  *string `json:"org_id,omitempty"`
}

// maxClaim is the longest value taken from a claim, in characters.
const maxClaim = 256

// readIdentity returns what the token's `bellman` claim says and the names of
// its unusable fields, in the order label, plan, role, org_id. A token that is
// no JWT, or has no such claim, has no usable field at all. UserID falls back
// to the `sub` claim and may be there when nothing else is.
func readIdentity(token secret) (Identity, []string) {
	all := []string{"label", "plan", "role"}
	parts := strings.Split(string(token), ".")
	if len(parts) != 3 {
		return Identity{}, all
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return Identity{}, all
	}
	var claims struct {
		Subject any             `json:"sub"`
		Bellman json.RawMessage `json:"bellman"`
	}
	if err := json.Unmarshal(payload, &claims); err != nil {
		return Identity{}, all
	}
	var id Identity
	id.UserID, _ = plain(claims.Subject)
	var fields map[string]any
	if err := json.Unmarshal(claims.Bellman, &fields); err != nil || fields == nil {
		return id, all
	}
	if user, ok := plain(fields["userId"]); ok {
		id.UserID = user
	}
	var bad []string
	for _, f := range []struct {
		name string
		to   *string
	}{{"label", &id.Label}, {"plan", &id.Plan}, {"role", &id.Role}} {
		v, ok := plain(fields[f.name])
		if !ok {
			bad = append(bad, f.name)
		}
		*f.to = v
	}
	if org := fields["orgId"]; org != nil {
		if v, ok := plain(org); ok {
			id.OrgID = &v
		} else {
			bad = append(bad, "org_id")
		}
	}
	if bad != nil {
		return Identity{UserID: id.UserID}, bad
	}
	return id, nil
}

// plain returns v when it is a string with something to show, on one line, cut
// to maxClaim characters.
func plain(v any) (string, bool) {
	s, ok := v.(string)
	if !ok {
		return "", false
	}
	s = oneLine(s, maxClaim)
	return s, s != ""
}

// oneLine makes one line of at most limit characters of foreign text, with
// nothing in it that steers a terminal or hides from a reader.
func oneLine(s string, limit int) string {
	if len(s) > 16*limit {
		s = s[:16*limit]
	}
	s = strings.Join(strings.FieldsFunc(strings.ToValidUTF8(s, ""), func(r rune) bool { return !unicode.IsPrint(r) }), " ")
	s = strings.TrimSpace(s)
	if r := []rune(s); len(r) > limit {
		s = string(r[:limit])
	}
	return s
}
