package tools

import (
	"encoding/json"
	"errors"
	"fmt"
)

// readArguments reads a local tool's arguments into the struct v points to.
// Unknown ones are ignored, as the service does; one of the wrong type is an
// error that names it.
func readArguments(raw json.RawMessage, v any) error {
	if raw == nil || string(raw) == "null" {
		return nil
	}
	err := json.Unmarshal(raw, v)
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
