package policy

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"strings"

	"howett.net/plist"
)

// Domain is the preference domain of the policy on macOS.
const Domain = "sh.bellman.desktop"

// ReadPreferences reads a policy from property lists of managed preferences,
// XML or binary. A later file overrides an earlier one key by key; files that
// are not there count as empty. Keys that begin with Payload are Apple's own
// record of the profile and say nothing to us.
func ReadPreferences(paths ...string) (Policy, error) {
	all := values{}
	for _, path := range paths {
		v, err := readPlist(path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return Policy{}, fmt.Errorf("read policy %s: %w", path, err)
		}
		maps.Copy(all, v)
	}
	maps.DeleteFunc(all, func(key string, _ any) bool { return strings.HasPrefix(key, "Payload") })
	if len(all) == 0 {
		return Policy{}, nil
	}
	return decode(all, "managed preferences "+Domain)
}

func readPlist(path string) (values, error) {
	data, err := readLimited(path)
	if err != nil {
		return nil, err
	}
	var raw map[string]any
	format, err := plist.Unmarshal(data, &raw)
	if err != nil {
		return nil, fmt.Errorf("it is not a property list: %w", err)
	}
	// An empty file counts as an empty list of the oldest form.
	if format != plist.XMLFormat && format != plist.BinaryFormat {
		return nil, errors.New("it is not a property list in XML or binary form")
	}
	v := values{}
	for key, value := range raw {
		v[key] = stringList(value)
	}
	return v, nil
}
