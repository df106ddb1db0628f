package policy

import (
	"errors"
	"fmt"
	"strings"

	"golang.org/x/sys/windows/registry"
)

// keyPath is where group policy writes; only administrators can.
const keyPath = `SOFTWARE\Policies\Bellman`

const origin = `HKLM\` + keyPath

// keys are the names as the other systems spell them; the registry does not
// tell them apart by case.
var keys = []string{"serverURL", "allowedServerURLs", "uploadRoot", "uploadEnabled", "credentialStore", "logLevel"}

func read() (Policy, error) {
	key, err := registry.OpenKey(registry.LOCAL_MACHINE, keyPath, registry.QUERY_VALUE|registry.WOW64_64KEY)
	if errors.Is(err, registry.ErrNotExist) {
		return Policy{}, nil
	}
	if err != nil {
		return Policy{}, fmt.Errorf("read policy %s: %w", origin, err)
	}
	defer key.Close()
	names, err := key.ReadValueNames(-1)
	if err != nil {
		return Policy{}, fmt.Errorf("read policy %s: %w", origin, err)
	}
	v := values{}
	for _, name := range names {
		if name == "" { // the unnamed value every key may have
			continue
		}
		value, err := readValue(key, name)
		if err != nil {
			return Policy{}, fmt.Errorf("read policy %s: %s: %w", origin, name, err)
		}
		v[canonical(name)] = value
	}
	if len(v) == 0 {
		return Policy{}, nil
	}
	return decode(v, origin)
}

func canonical(name string) string {
	for _, key := range keys {
		if strings.EqualFold(key, name) {
			return key
		}
	}
	return name
}

// readValue returns a value in the type decode expects: text, a list, or for
// the numbers 0 and 1 a boolean.
func readValue(key registry.Key, name string) (any, error) {
	_, kind, err := key.GetValue(name, nil)
	if err != nil {
		return nil, err
	}
	switch kind {
	case registry.SZ:
		text, _, err := key.GetStringValue(name)
		return text, err
	case registry.EXPAND_SZ:
		text, _, err := key.GetStringValue(name)
		if err != nil {
			return nil, err
		}
		return registry.ExpandString(text)
	case registry.MULTI_SZ:
		list, _, err := key.GetStringsValue(name)
		return list, err
	case registry.DWORD:
		number, _, err := key.GetIntegerValue(name)
		if err != nil {
			return nil, err
		}
		if number > 1 {
			return nil, fmt.Errorf("%d is neither 0 nor 1", number)
		}
		return number == 1, nil
	default:
		return nil, fmt.Errorf("has a type (%d) that no key of this policy has", kind)
	}
}
