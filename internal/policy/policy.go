// Package policy reads what an administrator has set for every person on this
// machine: on Linux a file below /etc, on macOS managed preferences, on
// Windows a key of the registry. Keys have the same names everywhere. Policy
// that is there but cannot be read or understood is an error and never the
// same as no policy. (design.md 6)
package policy

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
)

// Policy is what an administrator has set. A zero field is not managed; the
// zero Policy is that of a machine without policy.
type Policy struct {
	// ServerURL is the one server the bridge may use.
	ServerURL string
	// AllowedServerURLs are the servers a person may choose from.
	AllowedServerURLs []string
	// UploadRoot is the one folder files may be uploaded from.
	UploadRoot string
	// UploadEnabled forbids uploads altogether when it is false.
	UploadEnabled *bool
	// CredentialStore is keychain, memory or file.
	CredentialStore string
	// LogLevel is debug, info, warn or error.
	LogLevel string
	// Origin tells a person where the policy stands; empty without policy.
	Origin string
}

// Read returns the policy of this machine, the zero Policy when there is none.
// It reads local files or the registry and does not block on anything else.
// An error means that the policy stands but cannot be relied on: the caller
// must not go on without it.
func Read() (Policy, error) { return read() }

// AllowsServer reports whether a person may use the server at address: the
// pinned one when one is pinned, else one of the list when there is a list,
// else any. Addresses are compared without regard to the case of scheme and
// host, a default port or a slash at the end.
func (p Policy) AllowsServer(address string) bool {
	switch {
	case p.ServerURL != "":
		return sameServer(p.ServerURL, address)
	case p.AllowedServerURLs != nil:
		return slices.ContainsFunc(p.AllowedServerURLs, func(allowed string) bool { return sameServer(allowed, address) })
	default:
		return true
	}
}

// values are keys and what stands there, as a platform gives them: string,
// bool, or []string.
type values map[string]any

// decode makes a Policy of v and refuses what it does not understand, so that
// a misspelt key is found by the administrator and not by an incident.
func decode(v values, origin string) (Policy, error) {
	p := Policy{Origin: origin}
	var faults []error
	for _, key := range slices.Sorted(maps.Keys(v)) {
		if err := p.set(key, v[key]); err != nil {
			faults = append(faults, fmt.Errorf("%s: %w", key, err))
		}
	}
	if p.ServerURL != "" && p.AllowedServerURLs != nil && !slices.ContainsFunc(p.AllowedServerURLs,
		func(allowed string) bool { return sameServer(allowed, p.ServerURL) }) {
		faults = append(faults, errors.New("serverURL: is not among allowedServerURLs"))
	}
	if err := errors.Join(faults...); err != nil {
		return Policy{}, fmt.Errorf("read policy %s: %w", origin, err)
	}
	return p, nil
}

func (p *Policy) set(key string, value any) error {
	switch key {
	case "serverURL":
		return setString(&p.ServerURL, value, checkServer)
	case "allowedServerURLs":
		return setList(&p.AllowedServerURLs, value, checkServer)
	case "uploadRoot":
		return setString(&p.UploadRoot, value, checkFolder)
	case "uploadEnabled":
		enabled, ok := value.(bool)
		if !ok {
			return errors.New("is not a boolean")
		}
		p.UploadEnabled = &enabled
		return nil
	case "credentialStore":
		return setString(&p.CredentialStore, value, oneOf("keychain", "memory", "file"))
	case "logLevel":
		return setString(&p.LogLevel, value, oneOf("debug", "info", "warn", "error"))
	default:
		return errors.New("is not a key of this policy")
	}
}

func setString(to *string, value any, check func(string) error) error {
	s, ok := value.(string)
	if !ok {
		return errors.New("is not a string")
	}
	*to = s
	return check(s)
}

func setList(to *[]string, value any, check func(string) error) error {
	list, ok := value.([]string)
	if !ok {
		return errors.New("is not a list of strings")
	}
	if len(list) == 0 {
		return errors.New("is empty, which would allow nothing")
	}
	for _, s := range list {
		if err := check(s); err != nil {
			return err
		}
	}
	*to = list
	return nil
}

func checkServer(s string) error {
	if strings.ContainsAny(s, "@?#") { // not shown: a name, a password or a key may stand there
		return errors.New("holds more than the address of a server")
	}
	u, err := url.Parse(s)
	if err != nil || u.Host == "" || u.Scheme != "https" && u.Scheme != "http" {
		return fmt.Errorf("%q is not the address of a server", s)
	}
	return nil
}

func checkFolder(s string) error {
	if !filepath.IsAbs(s) {
		return fmt.Errorf("%q is not an absolute path", s)
	}
	return nil
}

func oneOf(allowed ...string) func(string) error {
	return func(s string) error {
		if !slices.Contains(allowed, s) {
			return fmt.Errorf("%q is not one of %s", s, strings.Join(allowed, ", "))
		}
		return nil
	}
}

func sameServer(a, b string) bool {
	left, right := normalize(a), normalize(b)
	return left != "" && left == right
}

// normalize returns the form in which addresses are compared, or nothing for
// what is not an address.
func normalize(address string) string {
	if checkServer(address) != nil {
		return ""
	}
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	u.Scheme, u.Host = strings.ToLower(u.Scheme), strings.ToLower(u.Host)
	if u.Scheme == "https" {
		u.Host = strings.TrimSuffix(u.Host, ":443")
	} else {
		u.Host = strings.TrimSuffix(u.Host, ":80")
	}
	return u.Scheme + "://" + u.Host + strings.TrimSuffix(u.EscapedPath(), "/")
}
