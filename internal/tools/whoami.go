package tools

import (
	"fmt"
	"strings"
)

// Where an identity comes from.
const (
	SourceOAuth   = "oauth"   // this bridge signed in and can read who that was
	SourceEnv     = "env"     // a static key, which does not say whose it is
	SourceUnknown = "unknown" // no readable sign-in
)

// Whoami is what this machine knows of the identity peers see. Only Source is
// set unless it is SourceOAuth.
type Whoami struct {
	Source string
	Label  string
	Plan   string
	Role   string
	OrgID  *string
}

// whoami answers bellman_whoami: no network, no keychain. An identity that is
// not whole is none. See bridge.md 5.
func (b *Bridge) whoami() Answer {
	w := b.cfg.Whoami()
	switch w.Source {
	case SourceOAuth:
		if bad := w.unreadable(); bad != "" {
			b.cfg.Log.Warn("the signed-in identity is not readable", "fields", bad)
			break
		}
		org := "none"
		if w.OrgID != nil {
			org = quoted(*w.OrgID)
		}
		return success(fmt.Sprintf("Signed in as %s (plan %s, role %s, org %s).", quoted(w.Label), quoted(w.Plan), quoted(w.Role), org),
			struct {
				Source string  `json:"source"`
				Label  string  `json:"label"`
				Plan   string  `json:"plan"`
				Role   string  `json:"role"`
				OrgID  *string `json:"org_id"`
			}{w.Source, w.Label, w.Plan, w.Role, w.OrgID})
	case SourceEnv:
		return success("A key from the environment (BELLMAN_KEY) is in use. This bridge cannot tell whose it is; the service resolves it on each call.", nameless(SourceEnv))
	case SourceUnknown:
	default:
		b.cfg.Log.Warn("the source of the identity is unrecognised", "source", w.Source)
	}
	return success("This bridge has no readable sign-in, so it cannot say which account peers will see. The service resolves the identity on each call; the first call that needs one starts a sign-in.", nameless(SourceUnknown))
}

// unreadable names the fields that hold nothing to show.
func (w Whoami) unreadable() string {
	var bad []string
	for _, f := range []struct{ name, value string }{{"label", w.Label}, {"plan", w.Plan}, {"role", w.Role}} {
		if strings.TrimSpace(f.value) == "" {
			bad = append(bad, f.name)
		}
	}
	if w.OrgID != nil && strings.TrimSpace(*w.OrgID) == "" {
		bad = append(bad, "org_id")
	}
	return strings.Join(bad, ", ")
}

func nameless(source string) any {
	return struct {
		Source string  `json:"source"`
		Label  *string `json:"label"`
	}{Source: source}
}
