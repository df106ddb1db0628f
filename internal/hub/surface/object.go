package surface

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/bellman"
)

// object is an object within a write; null means absent.
type object struct {
	path  string
	given map[string]json.RawMessage
}

func readObject(path string, raw json.RawMessage) (object, error) {
	f := object{path: path}
	if err := json.Unmarshal(raw, &f.given); err != nil || f.given == nil {
		return f, fmt.Errorf("%s must be an object", path)
	}
	return f, nil
}

func (f object) only(names ...string) error {
	for name := range f.given {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s has an unknown key %q (known: %s)", f.path, name, strings.Join(names, ", "))
		}
	}
	return nil
}

func (f object) text(name string, low, high int) (*string, error) {
	raw, ok := f.given[name]
	if !ok {
		return nil, nil //nolint:nilnil // An absent optional field is no error.
	}
	var text *string
	if json.Unmarshal(raw, &text) != nil {
		return nil, fmt.Errorf("%s.%s must be a string", f.path, name)
	}
	if text != nil && (bellman.Units(*text) < low || bellman.Units(*text) > high) {
		return nil, fmt.Errorf("%s.%s must have %d to %d characters", f.path, name, low, high)
	}
	return text, nil
}

func (f object) number(name string) (*json.Number, error) {
	raw, ok := f.given[name]
	if !ok || string(raw) == "null" {
		return nil, nil //nolint:nilnil // An absent optional field is no error.
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || math.IsInf(n, 0) {
		return nil, fmt.Errorf("%s.%s must be a finite number", f.path, name)
	}
	number := json.Number(raw)
	return &number, nil
}

func (f object) object(name string, keys ...string) (object, bool, error) {
	raw, ok := f.given[name]
	if !ok || string(raw) == "null" {
		return object{}, false, nil
	}
	o, err := readObject(f.path+"."+name, raw)
	if err != nil {
		return o, false, err
	}
	return o, true, o.only(keys...)
}
