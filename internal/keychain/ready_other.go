//go:build !unix || darwin

package keychain

import "context"

// ready returns at once: macOS and Windows always have a keychain, and macOS
// alone knows whether it is about to ask the person.
func ready(context.Context) (prompts bool, err error) { return true, nil }
