package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// object is a JSON object whose members keep their order and their bytes, so
// that what is not changed passes on exactly as it came.
type object []member

type member struct {
	key string
	raw json.RawMessage
}

var errNotObject = errors.New("not a JSON object")

func parseObject(raw json.RawMessage) (object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	var o object
	for d.More() {
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read object: %w", err)
		}
		key, _ := t.(string)
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("read member: %w", err)
		}
		o = append(o, member{key, v})
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	return o, nil
}

func (o object) get(key string) json.RawMessage {
	for _, m := range slices.Backward(o) { // the last of a repeated key counts, as in encoding/json
		if m.key == key {
			return m.raw
		}
	}
	return nil
}

// text returns the member as a string, or "" when it is none.
func (o object) text(key string) string {
	var s string
	if raw := o.get(key); raw != nil {
		_ = json.Unmarshal(raw, &s) // another type leaves it empty
	}
	return s
}

// set replaces the member in its place or appends it.
func (o *object) set(key string, raw json.RawMessage) {
	for i := range slices.Backward(*o) {
		if (*o)[i].key == key {
			(*o)[i].raw = raw
			return
		}
	}
	*o = append(*o, member{key, raw})
}

func (o *object) remove(key string) {
	kept := (*o)[:0]
	for _, m := range *o {
		if m.key != key {
			kept = append(kept, m)
		}
	}
	*o = kept
}

func (o object) raw() json.RawMessage {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		b.Write(encode(m.key))
		b.WriteByte(':')
		b.Write(m.raw)
	}
	b.WriteByte('}')
	return b.Bytes()
}

// encode writes v as compact JSON without HTML escapes. It is for values of
// this package, which always encode.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return json.RawMessage("null")
	}
	return bytes.TrimRight(b.Bytes(), "\n")
}
