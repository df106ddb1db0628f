package hub

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/bellman"
)

// schema is the part of JSON Schema that the service's tools are described
// in. Arguments are held to the very text that is published, so the two
// cannot part. A member it does not know is a fault of the definition.
type schema struct {
	Type        kindSet            `json:"type"`
	Properties  map[string]*schema `json:"properties"`
	Additional  *schema            `json:"additionalProperties"`
	Required    []string           `json:"required"`
	Items       *schema            `json:"items"`
	MaxItems    *int               `json:"maxItems"`
	Enum        []string           `json:"enum"`
	MinLength   *int               `json:"minLength"`
	MaxLength   *int               `json:"maxLength"`
	Minimum     *float64           `json:"minimum"`
	Maximum     *float64           `json:"maximum"`
	Description string             `json:"description"`
	Default     json.RawMessage    `json:"default"`
}

// kindSet is one JSON type or several; none is any.
type kindSet []string

// UnmarshalJSON reads a type or a list of them.
func (k *kindSet) UnmarshalJSON(b []byte) error {
	var one string
	if json.Unmarshal(b, &one) == nil {
		*k = kindSet{one}
		return nil
	}
	return json.Unmarshal(b, (*[]string)(k))
}

func parseSchema(raw json.RawMessage) (*schema, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	var s schema
	if err := d.Decode(&s); err != nil {
		return nil, fmt.Errorf("read tool schema: %w", err)
	}
	return &s, nil
}

// check reports how raw does not fit, naming the field. Keys that are not
// declared are let through. Below the property called loose nothing is looked
// at: its reader knows better words.
func (s *schema) check(path string, raw json.RawMessage, loose string) error {
	kind := kindOf(raw)
	if len(s.Type) > 0 && !slices.Contains(s.Type, kind) && (kind != "integer" || !slices.Contains(s.Type, "number")) {
		return fmt.Errorf("%s must be %s", cmp.Or(path, "they"), phrase(s.Type))
	}
	switch kind {
	case "object":
		return s.checkObject(path, raw, loose)
	case "array":
		return s.checkArray(path, raw, loose)
	case "string":
		return s.checkString(path, raw)
	case "integer", "number":
		var n float64
		if err := json.Unmarshal(raw, &n); err != nil {
			return fmt.Errorf("%s must be a number in range", path)
		}
		if s.Minimum != nil && n < *s.Minimum || s.Maximum != nil && n > *s.Maximum {
			return fmt.Errorf("%s must be %s", path, between(s.Minimum, s.Maximum))
		}
	}
	return nil
}

// declared returns an object without the members that s does not declare.
// Decoding matches names whatever their case, so one that was only nearly a
// declared name would otherwise slip past its check.
func (s *schema) declared(raw json.RawMessage) (json.RawMessage, error) {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return nil, fmt.Errorf("read arguments: %w", err)
	}
	for name := range given {
		if _, ok := s.Properties[name]; !ok {
			delete(given, name)
		}
	}
	kept, err := json.Marshal(given)
	if err != nil {
		return nil, fmt.Errorf("keep arguments: %w", err)
	}
	return kept, nil
}

func (s *schema) checkObject(path string, raw json.RawMessage, loose string) error {
	var given map[string]json.RawMessage
	if err := json.Unmarshal(raw, &given); err != nil {
		return fmt.Errorf("%s must be an object", path)
	}
	for _, name := range s.Required {
		if _, ok := given[name]; !ok {
			return fmt.Errorf("%s is required", under(path, name))
		}
	}
	for name, value := range given {
		p, ok := s.Properties[name]
		if !ok {
			p = s.Additional
		}
		if p == nil {
			continue
		}
		if name == loose {
			p = &schema{Type: p.Type}
		}
		if err := p.check(under(path, name), value, loose); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkArray(path string, raw json.RawMessage, loose string) error {
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return fmt.Errorf("%s must be a list", path)
	}
	if s.MaxItems != nil && len(list) > *s.MaxItems {
		return fmt.Errorf("%s must have at most %d entries", path, *s.MaxItems)
	}
	if s.Items == nil {
		return nil
	}
	for i, value := range list {
		if err := s.Items.check(fmt.Sprintf("%s[%d]", path, i), value, loose); err != nil {
			return err
		}
	}
	return nil
}

func (s *schema) checkString(path string, raw json.RawMessage) error {
	var text string
	if err := json.Unmarshal(raw, &text); err != nil {
		return fmt.Errorf("%s must be a string", path)
	}
	if len(s.Enum) > 0 && !slices.Contains(s.Enum, text) {
		return fmt.Errorf("%s must be one of %s", path, strings.Join(s.Enum, ", "))
	}
	n := bellman.Units(text)
	if s.MinLength != nil && n < *s.MinLength || s.MaxLength != nil && n > *s.MaxLength {
		low, high := floats(s.MinLength), floats(s.MaxLength)
		return fmt.Errorf("%s must have %s characters", path, between(low, high))
	}
	return nil
}

// kindOf names the JSON type of a value, "integer" for a whole number.
func kindOf(raw json.RawMessage) string {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return "null"
	}
	switch raw[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	var n float64
	if json.Unmarshal(raw, &n) == nil && n == math.Trunc(n) {
		return "integer"
	}
	return "number"
}

func under(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

func phrase(kinds kindSet) string {
	words := map[string]string{
		"object": "an object", "array": "a list", "string": "a string", "boolean": "true or false",
		"integer": "a whole number", "number": "a number", "null": "null",
	}
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = words[k]
	}
	return strings.Join(names, " or ")
}

func between(low, high *float64) string {
	switch {
	case low != nil && high != nil:
		return fmt.Sprintf("%v to %v", *low, *high)
	case low != nil:
		return fmt.Sprintf("at least %v", *low)
	case high != nil:
		return fmt.Sprintf("at most %v", *high)
	}
	return "in range"
}

func floats(n *int) *float64 {
	if n == nil {
		return nil
	}
	f := float64(*n)
	return &f
}
