// Package payload reads JSON objects that members send: bounded in depth,
// written again compactly, and in a form in which equal objects are equal bytes.
package payload

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"bellman.sh/desktop/internal/bellman"
)

// MaxDepth is how deep a payload may nest.
const MaxDepth = 64

// Payload is what a member sends, read once.
type Payload struct {
	Compact json.RawMessage // as it was written, without white space
	Sorted  []byte          // with the keys of every object in order; for comparing only
	Units   int             // length of Compact in UTF-16 units, as JavaScript counts
	Deep    bool            // nested deeper than MaxDepth; the rest is unset
}

var errNoObject = errors.New("payload must be a JSON object")

// Read takes apart a JSON object that came from outside. Its errors are
// written for the sender.
func Read(raw json.RawMessage) (Payload, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	v, deep, err := readValue(d, 0)
	if err != nil {
		return Payload{}, errNoObject
	}
	if deep {
		return Payload{Deep: true}, nil
	}
	if _, ok := v.(fields); !ok {
		return Payload{}, errNoObject
	}
	var p Payload
	if p.Compact, err = appendValue(nil, v, false); err != nil {
		return Payload{}, err
	}
	if p.Sorted, err = appendValue(nil, v, true); err != nil {
		return Payload{}, err
	}
	p.Units = bellman.Units(string(p.Compact))
	return p, nil
}

// fields is an object with its keys in the order they came. Of a key given
// twice the last value counts, as everywhere else in JSON.
type fields []field

type field struct {
	name  string
	value any
}

// readValue reads one value. It stops, with deep set, before it would recurse
// past the bound.
func readValue(d *json.Decoder, depth int) (v any, deep bool, err error) {
	t, err := d.Token()
	if err != nil {
		return nil, false, err
	}
	open, ok := t.(json.Delim)
	if !ok {
		return t, false, nil
	}
	if depth == MaxDepth {
		return nil, true, nil
	}
	if open == '[' {
		list := []any{}
		for d.More() {
			v, deep, err := readValue(d, depth+1)
			if err != nil || deep {
				return nil, deep, err
			}
			list = append(list, v)
		}
		_, err = d.Token()
		return list, false, err
	}
	object := fields{}
	at := map[string]int{}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return nil, false, err
		}
		v, deep, err := readValue(d, depth+1)
		if err != nil || deep {
			return nil, deep, err
		}
		key, _ := name.(string)
		if i, again := at[key]; again {
			object[i].value = v
			continue
		}
		at[key] = len(object)
		object = append(object, field{key, v})
	}
	_, err = d.Token()
	return object, false, err
}

// appendValue writes v as compact JSON. Sorted output is for comparing only:
// it also writes equal numbers alike.
func appendValue(b []byte, v any, sorted bool) ([]byte, error) {
	switch v := v.(type) {
	case fields:
		return appendFields(b, v, sorted)
	case []any:
		return appendList(b, v, sorted)
	case string:
		return appendString(b, v), nil
	case json.Number:
		if f, err := v.Float64(); sorted && err == nil {
			return strconv.AppendFloat(b, f, 'g', -1, 64), nil
		}
		return append(b, v...), nil
	case bool:
		return strconv.AppendBool(b, v), nil
	case nil:
		return append(b, "null"...), nil
	}
	return nil, fmt.Errorf("write payload: unexpected %T", v)
}

func appendFields(b []byte, v fields, sorted bool) ([]byte, error) {
	if sorted {
		v = slices.Clone(v)
		slices.SortFunc(v, func(x, y field) int { return strings.Compare(x.name, y.name) })
	}
	var err error
	b = append(b, '{')
	for i, f := range v {
		if i > 0 {
			b = append(b, ',')
		}
		b = append(appendString(b, f.name), ':')
		if b, err = appendValue(b, f.value, sorted); err != nil {
			return nil, err
		}
	}
	return append(b, '}'), nil
}

func appendList(b []byte, v []any, sorted bool) ([]byte, error) {
	var err error
	b = append(b, '[')
	for i, e := range v {
		if i > 0 {
			b = append(b, ',')
		}
		if b, err = appendValue(b, e, sorted); err != nil {
			return nil, err
		}
	}
	return append(b, ']'), nil
}

// appendString quotes s with only the escapes JSON demands, as JavaScript
// writes it; encoding/json would also escape the two line separators.
func appendString(b []byte, s string) []byte {
	b = append(b, '"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b = append(b, '\\', byte(r))
		case r == '\n':
			b = append(b, `\n`...)
		case r == '\r':
			b = append(b, `\r`...)
		case r == '\t':
			b = append(b, `\t`...)
		case r == '\b':
			b = append(b, `\b`...)
		case r == '\f':
			b = append(b, `\f`...)
		case r < ' ':
			b = append(b, fmt.Sprintf(`\u%04x`, r)...)
		default:
			b = append(b, string(r)...)
		}
	}
	return append(b, '"')
}
