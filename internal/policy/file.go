package policy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// maxFile is more than any policy needs; a larger file is a mistake.
const maxFile = 1 << 20

// ReadFile reads a policy from a JSON file: one object, the keys of the
// package and no others. A file that is not there is the zero Policy.
func ReadFile(path string) (Policy, error) {
	data, err := readLimited(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Policy{}, nil
	}
	if err != nil {
		return Policy{}, fmt.Errorf("read policy %s: %w", path, err)
	}
	v, err := decodeJSON(data)
	if err != nil {
		return Policy{}, fmt.Errorf("read policy %s: %w", path, err)
	}
	return decode(v, path)
}

func readLimited(path string) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() { // opening a pipe would wait for a writer
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxFile+1))
	if err == nil && len(data) > maxFile {
		return nil, fmt.Errorf("it is larger than %d bytes", maxFile)
	}
	return data, err
}

// decodeJSON reads one object. A key that stands there twice is an error,
// because the reader and the writer may not mean the same of the two.
func decodeJSON(data []byte) (values, error) {
	dec := json.NewDecoder(bytes.NewReader(data))
	if token, err := dec.Token(); err != nil {
		return nil, err
	} else if token != json.Delim('{') {
		return nil, errors.New("it is not a JSON object")
	}
	v := values{}
	for dec.More() {
		token, err := dec.Token()
		if err != nil {
			return nil, err
		}
		key, ok := token.(string)
		if !ok {
			return nil, errors.New("a key is not a string")
		}
		var value any
		if err := dec.Decode(&value); err != nil {
			return nil, fmt.Errorf("%s: %w", key, err)
		}
		if _, twice := v[key]; twice {
			return nil, fmt.Errorf("%s: stands there twice", key)
		}
		v[key] = stringList(value)
	}
	if _, err := dec.Token(); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("something follows the object")
	}
	return v, nil
}

// stringList turns a list whose members are all strings into a []string and
// leaves everything else as it is.
func stringList(value any) any {
	list, ok := value.([]any)
	if !ok {
		return value
	}
	texts := make([]string, len(list))
	for i, item := range list {
		if texts[i], ok = item.(string); !ok {
			return value
		}
	}
	return texts
}
