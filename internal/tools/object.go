package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
)

// object is a JSON object whose members keep their order and their bytes, so
// that what is not changed passes on exactly as it came.
type object []member

type member struct {
	key  string
	name json.RawMessage // the key as it is written
	raw  json.RawMessage
}

var errNotObject = errors.New("not a JSON object")

func parseObject(raw json.RawMessage) (object, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil, errNotObject
	}
	o := object{}
	for d.More() {
		before := d.InputOffset()
		t, err := d.Token()
		if err != nil {
			return nil, fmt.Errorf("read object: %w", err)
		}
		key, _ := t.(string)
		name := bytes.TrimLeft(raw[before:d.InputOffset()], ", \t\r\n")
		var v json.RawMessage
		if err := d.Decode(&v); err != nil {
			return nil, fmt.Errorf("read member: %w", err)
		}
		o = append(o, member{key, name, v})
	}
	if _, err := d.Token(); err != nil {
		return nil, fmt.Errorf("read object: %w", err)
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, errNotObject
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

// integer returns the member as a whole number; ok is false when it is none.
func (o object) integer(key string) (n int64, ok bool) {
	raw := o.get(key)
	if raw == nil {
		return 0, false
	}
	if json.Unmarshal(raw, &n) == nil {
		return n, string(raw) != "null"
	}
	var f float64 // 5.0 and 5e0 are whole numbers too
	if json.Unmarshal(raw, &f) != nil || f != math.Trunc(f) || math.Abs(f) > 1<<53 {
		return 0, false
	}
	return int64(f), true
}

// repeated reports whether the key stands more than once: readers differ in
// which one they take.
func (o object) repeated(key string) bool {
	n := 0
	for _, m := range o {
		if m.key == key {
			n++
		}
	}
	return n > 1
}

// set replaces the member in its place or appends it. Of a repeated key the
// last stays, alone.
func (o *object) set(key string, raw json.RawMessage) {
	last := -1
	for i, m := range *o {
		if m.key == key {
			last = i
		}
	}
	if last < 0 {
		*o = append(*o, member{key, encode(key), raw})
		return
	}
	kept := (*o)[:0]
	for i, m := range *o {
		switch {
		case i == last:
			m.raw = raw
		case m.key == key:
			continue
		}
		kept = append(kept, m)
	}
	*o = kept
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
		b.Write(m.name)
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
