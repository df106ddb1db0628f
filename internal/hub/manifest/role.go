package manifest

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/bellman"
)

// slugForm is the grammar of role names and of surface keys.
var slugForm = regexp.MustCompile(`^[a-z][a-z0-9_]{0,30}$`)

// Slug reports whether s may name a role or a surface item. Names that mean
// something to every JavaScript object are refused, because peers keep these
// in objects.
func Slug(s string) bool {
	return slugForm.MatchString(s) && s != "constructor" && s != "prototype"
}

// readRoles reads the roles in the order the caller declared them.
func readRoles(o object) ([]Role, error) {
	block, err := o.object("roles")
	if err != nil {
		return nil, err
	}
	names := block.names
	if len(names) < 1 || len(names) > 16 {
		return nil, fmt.Errorf("roles must have 1 to 16 entries")
	}
	roles := make([]Role, 0, len(names))
	for _, name := range names {
		if !Slug(name) {
			return nil, fmt.Errorf("role name %q must be lower-case letters, digits and underscores, begin with a letter and have at most 31 characters", name)
		}
		r, err := readRole(block, name)
		if err != nil {
			return nil, err
		}
		roles = append(roles, r)
	}
	return roles, nil
}

func readRole(roles object, name string) (Role, error) {
	o, err := roles.object(name)
	if err != nil {
		return Role{}, err
	}
	if err := o.only("can", "description", "heartbeat_on", "reports", "report"); err != nil {
		return Role{}, err
	}
	r := Role{Name: name}
	if r.Can, err = readVerbs(o); err != nil {
		return Role{}, err
	}
	if o.has("description") {
		if r.Description, err = o.text("description", 0, 300); err != nil {
			return Role{}, err
		}
	}
	if err := readReport(o, &r); err != nil {
		return Role{}, err
	}
	if r.HeartbeatOn && !slices.Contains(r.Can, Send) {
		return Role{}, fmt.Errorf("%s is on the heartbeat and so must hold the verb send", o.path)
	}
	return r, nil
}

func readVerbs(o object) ([]string, error) {
	raw, ok := o.fields["can"]
	if !ok {
		return nil, fmt.Errorf("%s.can is required: a list of verbs, which may be empty", o.path)
	}
	can := []string{}
	if json.Unmarshal(raw, &can) != nil || can == nil {
		return nil, fmt.Errorf("%s.can must be a list of verbs", o.path)
	}
	for i, verb := range can {
		if !slices.Contains(verbs, verb) {
			return nil, fmt.Errorf("%s.can: unknown verb %q (verbs: %s)", o.path, verb, strings.Join(verbs, ", "))
		}
		if slices.Contains(can[:i], verb) {
			return nil, fmt.Errorf("%s.can names %q twice", o.path, verb)
		}
	}
	return can, nil
}

// readReport reads whether a role reports, in today's spelling or the older
// one, never both.
func readReport(o object, r *Role) error {
	older := o.has("reports") || o.has("report")
	if o.has("heartbeat_on") && older {
		return fmt.Errorf("%s: give heartbeat_on or the older reports and report, not both", o.path)
	}
	if older {
		on, err := o.flagOr("reports", false)
		if err != nil {
			return err
		}
		r.HeartbeatOn = on
		if !o.has("report") {
			return nil
		}
		if !on {
			return fmt.Errorf("%s.report needs reports: true", o.path)
		}
		r.Report, err = o.instruction("report")
		return err
	}
	if !o.has("heartbeat_on") {
		return nil
	}
	var on bool
	if json.Unmarshal(o.fields["heartbeat_on"], &on) == nil && !o.null("heartbeat_on") {
		r.HeartbeatOn = on
		return nil
	}
	text, err := o.instruction("heartbeat_on")
	if err != nil {
		return fmt.Errorf("%s.heartbeat_on must be true, false or a text of at most 300 characters", o.path)
	}
	r.HeartbeatOn, r.Report = true, text
	return nil
}

// instruction reads a text that is trimmed and must say something.
func (o object) instruction(name string) (*string, error) {
	text, err := o.text(name, 1, 0)
	if err != nil {
		return nil, err
	}
	trimmed := strings.TrimSpace(*text)
	if trimmed == "" || bellman.Units(trimmed) > 300 {
		return nil, fmt.Errorf("%s.%s must have 1 to 300 characters", o.path, name)
	}
	return &trimmed, nil
}
