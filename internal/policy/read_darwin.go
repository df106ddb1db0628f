package policy

import (
	"fmt"
	"os/user"
	"path/filepath"
)

// managed is where macOS keeps what profiles set; only the system writes there.
const managed = "/Library/Managed Preferences"

// read takes the preferences of the machine, then those of the person, which
// win as they do for every program of the system.
func read() (Policy, error) {
	u, err := user.Current()
	if err != nil {
		return Policy{}, fmt.Errorf("read policy: who is signed in to this machine: %w", err)
	}
	return ReadPreferences(
		filepath.Join(managed, Domain+".plist"),
		filepath.Join(managed, u.Username, Domain+".plist"),
	)
}
