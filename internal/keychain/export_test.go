package keychain

import "context"

// Ring is the seam at which a test puts a keychain that is slow, deaf or
// untruthful.
type Ring = ring

// NewOn returns an item on r; prompts tells what the system says about
// prompting.
func NewOn(r Ring, prompts bool) *Item {
	return &Item{service: "s", user: "u", ring: r, ready: func(context.Context) (bool, error) { return prompts, nil }}
}
