// Package budget knows how large the files of a release may be (design.md 10).
package budget

import (
	"fmt"
	"strings"

	"bellman.sh/desktop/build/macho"
)

const (
	mega         = 1_000_000
	everyBundle  = 32 * mega
	systemBundle = 12 * mega
	bridgeLimit  = 16 * mega // for each processor
)

// Check returns an error for an asset that has grown beyond its budget: a
// bundle, or a bridge for one processor. Other assets have none.
func Check(name string, data []byte) error {
	sizes := []int{len(data)}
	var limit int
	switch {
	case name == "bellman.mcpb":
		limit = everyBundle
	case strings.HasSuffix(name, ".mcpb"):
		limit = systemBundle
	case name == "bellman-bridge-darwin":
		slices, err := macho.Slices(data)
		if err != nil {
			return err
		}
		sizes = nil
		for _, s := range slices {
			sizes = append(sizes, len(s.Data))
		}
		limit = bridgeLimit
	case strings.HasPrefix(name, "bellman-bridge") && !strings.HasSuffix(name, ".json"):
		limit = bridgeLimit
	default:
		return nil
	}
	for _, size := range sizes {
		if size > limit {
			return fmt.Errorf("%s has %.1f MB, and its budget is %d", name, float64(size)/mega, limit/mega)
		}
	}
	return nil
}
