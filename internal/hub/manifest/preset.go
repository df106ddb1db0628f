package manifest

import (
	"maps"
	"slices"
	"strings"
	"time"
)

// builtins are the presets every server has. See protocol.md 4.1.
var builtins = map[string]func() Manifest{
	"pair": func() Manifest {
		return Manifest{Mode: Pair, CreatorRole: "peer_a", DefaultRole: "peer_b", Roles: []Role{
			role("peer_a", "Opened the room; may do everything in it.", verbs...),
			role("peer_b", "Works beside the opener.", Send, RequestActions, RespondActions),
		}}
	},
	"swarm": func() Manifest {
		return Manifest{Mode: Swarm, CreatorRole: "lead", DefaultRole: "helper", Roles: []Role{
			role("lead", "Leads; may do everything in the room.", verbs...),
			role("helper", "Takes work from the lead and answers.", Send, RequestActions, RespondActions),
			role("observer", "Reads along and says nothing."),
		}}
	},
	"review": func() Manifest {
		return Manifest{Mode: Pair, CreatorRole: "author", DefaultRole: "reviewer", Roles: []Role{
			role("author", "Brings the work; may do everything in the room.", verbs...),
			role("reviewer", "Reads the work, comments, and answers requests.", Send, RespondActions),
		}}
	},
	"social": func() Manifest {
		return Manifest{
			Mode: Swarm, CreatorRole: "lead", DefaultRole: "guest", Heartbeat: time.Hour,
			Host: &Host{Role: "host", Model: "haiku"},
			Roles: []Role{
				role("lead", "Opened the room; may do everything in it.", verbs...),
				role("guest", "Came to talk.", Send),
				role("host", "Keeps the talk going.", Send),
			},
		}
	},
}

func role(name, description string, can ...string) Role {
	return Role{Name: name, Description: &description, Can: append([]string{}, can...)}
}

// Builtin returns a fresh copy of the built-in preset of that name.
func Builtin(name string) (Manifest, bool) {
	b, ok := builtins[name]
	if !ok {
		return Manifest{}, false
	}
	return b(), true
}

// BuiltinNames lists the built-in presets by name.
func BuiltinNames() []string { return slices.Sorted(maps.Keys(builtins)) }

func presetNames(saved map[string]Manifest) string {
	return strings.Join(append(BuiltinNames(), slices.Sorted(maps.Keys(saved))...), ", ")
}
