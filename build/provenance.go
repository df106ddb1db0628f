package main

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"runtime"
	"slices"

	"bellman.sh/desktop/build/sums"
)

// provenance returns an in-toto statement, with a predicate of SLSA, that says
// from which source and with what this release was built.
func provenance(s source, assets sums.List, compilers []string) ([]byte, error) {
	type digest map[string]string
	type descriptor struct {
		Name   string `json:"name,omitempty"`
		URI    string `json:"uri,omitempty"`
		Digest digest `json:"digest"`
	}
	var subjects []descriptor
	for _, name := range slices.Sorted(maps.Keys(assets)) {
		sum := assets[name]
		subjects = append(subjects, descriptor{Name: name, Digest: digest{"sha256": hex.EncodeToString(sum[:])}})
	}
	const home = "https://bellman.sh/desktop"
	statement := map[string]any{
		"_type":         "https://in-toto.io/Statement/v1",
		"subject":       subjects,
		"predicateType": "https://slsa.dev/provenance/v1",
		"predicate": map[string]any{
			"buildDefinition": map[string]any{
				"buildType":            home + "/release/v1",
				"externalParameters":   map[string]any{"version": s.version, "command": "go run ./build release"},
				"internalParameters":   map[string]any{"go": runtime.Version(), "compilers": compilers},
				"resolvedDependencies": []descriptor{{URI: "git+" + home, Digest: digest{"gitCommit": s.commit}}},
			},
			// No times: they would differ from one build to the next.
			"runDetails": map[string]any{"builder": map[string]any{"id": home + "/build"}},
		},
	}
	data, err := json.MarshalIndent(statement, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write provenance: %w", err)
	}
	return append(data, '\n'), nil
}
