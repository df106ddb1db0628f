package tools

import (
	"encoding/json"
	"errors"
	"fmt"
)

// readArguments reads a local tool's arguments, out of the params of its call,
// into the struct v points to. Unknown ones are ignored, as the service does;
// one of the wrong type is an error that names it.
func readArguments(params json.RawMessage, v any) error {
	var p struct {
		Arguments json.RawMessage `json:"arguments"`
	}
	err := json.Unmarshal(params, &p)
	if err == nil && p.Arguments == nil {
		return nil
	}
	if err == nil {
		err = json.Unmarshal(p.Arguments, v) // of null nothing is read
	}
	if t, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		if t.Field == "" {
			return errors.New("arguments must be an object")
		}
		return fmt.Errorf("%s must be a %s", t.Field, jsonType(t.Type.Kind().String()))
	}
	if err != nil {
		return errors.New("arguments must be an object")
	}
	return nil
}

func jsonType(kind string) string {
	switch kind {
	case "float64", "int64":
		return "number"
	case "bool":
		return "boolean"
	case "struct", "map":
		return "object"
	}
	return kind
}
