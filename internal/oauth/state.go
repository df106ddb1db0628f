package oauth

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"
)

// state is what is known about one server besides its secret item: who is
// signed in, what is pinned, what was registered. It holds nothing secret, so
// that whoami and the logs never touch a keychain. It is written only under
// refresh.lock, and replaced in one step.
type state struct {
	Version int    `json:"version"`
	Server  string `json:"server"`
	Profile string `json:"profile,omitempty"`
	// Gen moves whenever the secret item has changed; other processes read
	// the store again only then.
	Gen uint64 `json:"gen"`
	// Epoch moves only with a sign-in or a sign-out.
	Epoch   uint64 `json:"epoch"`
	Backend string `json:"backend,omitempty"`
	// Pins, set by the first sign-in and cleared by signing out.
	Issuer   string `json:"issuer,omitempty"`
	Resource string `json:"resource,omitempty"`
	// Registrations by issuer.
	Registrations map[string]registration `json:"registrations,omitempty"`
	// Identity is who Print, the fingerprint of the stored access token, names.
	Identity *Identity `json:"identity,omitempty"`
	Readable bool      `json:"readable,omitempty"`
	Print    string    `json:"at_fp,omitempty"`
	// Dead is the fingerprint of a refresh token that the server called spent.
	// The item itself stays: another copy may be about to replace it.
	Dead string `json:"dead,omitempty"`
	// SignedOut makes an item that could not be deleted count as none.
	SignedOut bool `json:"signed_out,omitempty"`
}

// registration is what an issuer knows this client by.
type registration struct {
	ClientID     string    `json:"client_id"`
	RedirectURIs []string  `json:"redirect_uris"`
	RegisteredAt time.Time `json:"registered_at"`
	// Used tells that a token was issued for it; until then the service
	// forgets it after a day.
	Used bool `json:"used"`
	// auth holds a secret that a server gave although none was asked for; such
	// a registration is never written here, only with the sign-in it is for.
	auth clientAuth
}

const (
	stateVersion = 1
	// unusedLife is how long an unused registration is trusted; the service
	// forgets it after 24 hours.
	unusedLife = 23 * time.Hour
)

// covers reports whether the registration can be used with redirect at now.
func (r registration) covers(redirect string, now time.Time) bool {
	if r.ClientID == "" || !slices.Contains(r.RedirectURIs, redirect) {
		return false
	}
	return r.Used || now.Sub(r.RegisteredAt) < unusedLife
}

// readState returns the state at path with what identifies that version of
// the file. Absent or unreadable as JSON is an empty state: it can be built
// again, and a person must not be locked out by a damaged cache.
func readState(path string) (state, fs.FileInfo, error) {
	b, info, err := readFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return state{}, nil, nil
	}
	if err != nil {
		return state{}, nil, fmt.Errorf("read sign-in state: %w", err)
	}
	return parseState(b), info, nil
}

func parseState(b []byte) state {
	var st state
	if json.Unmarshal(b, &st) != nil || st.Version != stateVersion {
		return state{}
	}
	return st
}

func writeState(path string, st state) error {
	st.Version = stateVersion
	b, err := json.MarshalIndent(st, "", "  ")
	if err != nil {
		return fmt.Errorf("encode sign-in state: %w", err)
	}
	return writeFile(path, append(b, '\n'))
}
