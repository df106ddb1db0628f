package main

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/policy"
)

// managedSetting is one key that an administrator has set, and the variable it
// takes the place of, if there is one.
type managedSetting struct{ key, env, value string }

// managedSettings returns what is in force, in the order of the documentation.
func managedSettings(p policy.Policy) []managedSetting {
	all := []managedSetting{
		{"serverURL", "BELLMAN_URL", p.ServerURL},
		{"allowedServerURLs", "", strings.Join(p.AllowedServerURLs, " ")},
		{"uploadRoot", "BELLMAN_UPLOAD_ROOT", p.UploadRoot},
	}
	if p.UploadEnabled != nil {
		enabled := managedSetting{"uploadEnabled", "", fmt.Sprint(*p.UploadEnabled)}
		if !*p.UploadEnabled {
			enabled.env = "BELLMAN_UPLOAD_ROOT"
		}
		all = append(all, enabled)
	}
	all = append(all,
		managedSetting{"credentialStore", "BELLMAN_CREDENTIAL_STORE", p.CredentialStore},
		managedSetting{"logLevel", "BELLMAN_LOG", p.LogLevel},
	)
	return slices.DeleteFunc(all, func(s managedSetting) bool { return s.value == "" })
}

// origins says of each variable what the bridge takes its value from.
func origins(f flagValues, getenv func(string) string, managed policy.Policy) map[string]string {
	from := map[string]string{}
	for _, s := range settings {
		from[s.env] = "default"
		if value, origin := f.lookup(getenv, s.env); value != "" {
			from[s.env] = origin
		}
	}
	for _, s := range managedSettings(managed) {
		if s.env != "" {
			from[s.env] = "policy " + s.key
		}
	}
	return from
}

// showPolicy prints what is managed, and where that stands.
func showPolicy(w io.Writer, p policy.Policy) {
	if p.Origin == "" {
		fmt.Fprintln(w, "no policy is set on this machine")
		return
	}
	fmt.Fprintf(w, "managed by your organization (%s)\n", p.Origin)
	for _, s := range managedSettings(p) {
		fmt.Fprintf(w, "  %-18s %s\n", s.key, s.value)
	}
}
