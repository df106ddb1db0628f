package tools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"go.yaml.in/yaml/v3"
)

// What aliases may unfold a small file into: so many bytes of values, nested so
// deep. The service takes less.
const (
	maxYAMLBytes = 256 << 10
	maxYAMLDepth = 64
)

// yamlMapping returns the one mapping a YAML text holds, as JSON in the text's
// order. Its errors go on after the file's name.
func yamlMapping(text []byte) (json.RawMessage, error) {
	d := yaml.NewDecoder(bytes.NewReader(text))
	var doc, more yaml.Node
	err := d.Decode(&doc)
	if errors.Is(err, io.EOF) || (err == nil && isEmpty(&doc)) {
		return nil, errors.New("must hold a mapping, got an empty document")
	}
	if err != nil {
		return nil, fmt.Errorf("is not valid YAML: %s", strings.TrimPrefix(err.Error(), "yaml: "))
	}
	if err := d.Decode(&more); !errors.Is(err, io.EOF) {
		return nil, errors.New("must hold one document")
	}
	top := doc.Content[0]
	switch top.Kind {
	case yaml.MappingNode:
	case yaml.SequenceNode:
		return nil, errors.New("must hold a mapping, got a list")
	default:
		return nil, errors.New("must hold a mapping, got a single value")
	}
	left := maxYAMLBytes
	return yamlJSON(top, &left, maxYAMLDepth)
}

func isEmpty(doc *yaml.Node) bool {
	return len(doc.Content) == 0 || (doc.Content[0].Kind == yaml.ScalarNode && doc.Content[0].ShortTag() == "!!null")
}

// yamlJSON writes a node as JSON. left and depth are how many more bytes and
// levels may be written.
func yamlJSON(n *yaml.Node, left *int, depth int) (json.RawMessage, error) {
	if *left -= 1 + len(n.Value); *left < 0 || depth < 0 {
		return nil, errors.New("unfolds into too much")
	}
	switch n.Kind {
	case yaml.AliasNode:
		return yamlJSON(n.Alias, left, depth-1)
	case yaml.SequenceNode:
		list := []json.RawMessage{}
		for _, item := range n.Content {
			v, err := yamlJSON(item, left, depth-1)
			if err != nil {
				return nil, err
			}
			list = append(list, v)
		}
		return encode(list), nil
	case yaml.MappingNode:
		return yamlObject(n, left, depth)
	default:
		return yamlScalar(n)
	}
}

func yamlObject(n *yaml.Node, left *int, depth int) (json.RawMessage, error) {
	o := object{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind != yaml.ScalarNode || key.ShortTag() == "!!merge" {
			return nil, fmt.Errorf("has a key that is no plain text, in line %d", key.Line)
		}
		if o.get(key.Value) != nil {
			return nil, fmt.Errorf("has a key twice, in line %d", key.Line)
		}
		*left -= len(key.Value)
		v, err := yamlJSON(n.Content[i+1], left, depth-1)
		if err != nil {
			return nil, err
		}
		o.set(key.Value, v)
	}
	return o.raw(), nil
}

func yamlScalar(n *yaml.Node) (json.RawMessage, error) {
	switch n.ShortTag() {
	case "!!null":
		return json.RawMessage("null"), nil
	case "!!bool":
		var v bool
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("has a value that cannot be read, in line %d", n.Line)
		}
		return encode(v), nil
	case "!!int":
		if json.Valid([]byte(n.Value)) { // as it is written, however long
			return json.RawMessage(n.Value), nil
		}
		var v int64
		if err := n.Decode(&v); err != nil {
			return nil, fmt.Errorf("has a number that cannot be read, in line %d", n.Line)
		}
		return encode(v), nil
	case "!!float":
		var v float64
		if err := n.Decode(&v); err != nil || math.IsInf(v, 0) || math.IsNaN(v) {
			return nil, fmt.Errorf("has a number that JSON cannot hold, in line %d", n.Line)
		}
		return encode(v), nil
	}
	return encode(n.Value), nil // text, and times and the like as they are written
}
