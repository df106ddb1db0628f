package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
)

// object is the text of a JSON object with where its members stand in it. It is
// edited in place, so that what else is there stays byte for byte.
type object struct {
	text    []byte
	members []member
}

// member is where a key begins and where its value begins and ends.
type member struct {
	key          string
	at, from, to int
}

var errNoObject = errors.New("something else stands there")

func parseObject(text []byte) (object, error) {
	o := object{text: text}
	dec := json.NewDecoder(bytes.NewReader(text))
	if token, err := dec.Token(); err != nil {
		return o, err
	} else if token != json.Delim('{') {
		return o, errNoObject
	}
	for dec.More() {
		before := int(dec.InputOffset())
		token, err := dec.Token()
		if err != nil {
			return o, err
		}
		var value json.RawMessage
		if err := dec.Decode(&value); err != nil {
			return o, err
		}
		to := int(dec.InputOffset())
		key, _ := token.(string) // the decoder takes nothing else here
		o.members = append(o.members, member{key, before + bytes.IndexByte(text[before:], '"'), to - len(value), to})
	}
	if _, err := dec.Token(); err != nil {
		return o, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return o, errors.New("something follows the object")
	}
	return o, nil
}

// find returns the place of a key among the members, or -1. Readers differ in
// which of two they take, so one that stands there twice is an error.
func (o object) find(key string) (int, error) {
	is := func(m member) bool { return m.key == key }
	i := slices.IndexFunc(o.members, is)
	if i >= 0 && slices.ContainsFunc(o.members[i+1:], is) {
		return i, fmt.Errorf("%s stands there twice", key)
	}
	return i, nil
}

func (o object) value(i int) []byte { return o.text[o.members[i].from:o.members[i].to] }

// margin is the white space before a member, which is how the file is laid out.
func (o object) margin(i int) string {
	before := o.text[:o.members[i].at]
	return string(before[len(bytes.TrimRight(before, " \t\r\n")):])
}

// put returns the text with value under the key at place i, or as a new last
// member when i is -1. Value is a raw message that stays as it is, or anything
// to be laid out like its neighbours. Outer is the margin of the object itself.
func (o object) put(i int, key string, value any, outer string) ([]byte, error) {
	margin, end := "", ""
	switch last := len(o.members) - 1; {
	case i >= 0:
		margin = o.margin(i)
	case last >= 0:
		margin = o.margin(last)
	case strings.Contains(outer, "\n"):
		margin, end = outer+"  ", outer
	}
	raw, err := layOut(value, margin)
	if err != nil {
		return nil, err
	}
	if i >= 0 {
		return slices.Concat(o.text[:o.members[i].from], raw, o.text[o.members[i].to:]), nil
	}
	name, err := json.Marshal(key)
	if err != nil {
		return nil, err
	}
	fresh := slices.Concat([]byte(margin), name, []byte(": "), raw)
	if last := len(o.members) - 1; last >= 0 {
		at := o.members[last].to
		return slices.Concat(o.text[:at], []byte(","), fresh, o.text[at:]), nil
	}
	return slices.Concat([]byte("{"), fresh, []byte(end), []byte("}")), nil
}

// remove returns the text without the member at place i.
func (o object) remove(i int) []byte {
	switch {
	case i > 0:
		return slices.Concat(o.text[:o.members[i-1].to], o.text[o.members[i].to:])
	case len(o.members) > 1:
		return slices.Concat(o.text[:o.members[0].at], o.text[o.members[1].at:])
	default:
		return []byte("{}")
	}
}

// layOut encodes value over several lines where the margin has one.
func layOut(value any, margin string) ([]byte, error) {
	if raw, ok := value.(json.RawMessage); ok {
		return raw, nil
	}
	cut := strings.LastIndex(margin, "\n")
	if cut < 0 {
		return json.Marshal(value)
	}
	raw, err := json.MarshalIndent(value, margin[cut+1:], "  ")
	if strings.Contains(margin, "\r\n") {
		raw = bytes.ReplaceAll(raw, []byte("\n"), []byte("\r\n"))
	}
	return raw, err
}
