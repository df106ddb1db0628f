package manifest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"bellman.sh/desktop/internal/bellman"
)

// object is a JSON object whose own keys are all accounted for. Path is how
// errors call it.
type object struct {
	path   string
	names  []string // in the order they were written
	fields map[string]json.RawMessage
}

func readObject(path string, raw json.RawMessage) (object, error) {
	o := object{path: path, fields: map[string]json.RawMessage{}}
	d := json.NewDecoder(bytes.NewReader(raw))
	if open, err := d.Token(); err != nil || open != json.Delim('{') {
		return o, fmt.Errorf("%s must be an object", path)
	}
	for d.More() {
		name, err := d.Token()
		if err != nil {
			return o, fmt.Errorf("%s must be an object", path)
		}
		var value json.RawMessage
		if err := d.Decode(&value); err != nil {
			return o, fmt.Errorf("%s must be an object", path)
		}
		key, _ := name.(string)
		if _, again := o.fields[key]; again {
			return o, fmt.Errorf("%s names %q twice", path, key)
		}
		o.names = append(o.names, key)
		o.fields[key] = value
	}
	return o, nil
}

func (o object) has(name string) bool {
	_, ok := o.fields[name]
	return ok
}

func (o object) null(name string) bool { return string(bytes.TrimSpace(o.fields[name])) == "null" }

// only refuses every key that is not among names.
func (o object) only(names ...string) error {
	for _, name := range o.names {
		if !slices.Contains(names, name) {
			return fmt.Errorf("%s has an unknown key %q (known: %s)", o.path, name, strings.Join(names, ", "))
		}
	}
	return nil
}

func (o object) object(name string) (object, error) {
	if !o.has(name) {
		return object{}, fmt.Errorf("%s.%s is required", o.path, name)
	}
	return readObject(o.path+"."+name, o.fields[name])
}

// text reads a required string of low to high characters; high 0 is no bound.
func (o object) text(name string, low, high int) (*string, error) {
	raw, ok := o.fields[name]
	if !ok {
		return nil, fmt.Errorf("%s.%s is required", o.path, name)
	}
	var text *string
	if json.Unmarshal(raw, &text) != nil || text == nil {
		return nil, fmt.Errorf("%s.%s must be a string", o.path, name)
	}
	n := bellman.Units(*text)
	if n < low || high > 0 && n > high || low > 0 && strings.TrimSpace(*text) == "" {
		return nil, fmt.Errorf("%s.%s must have %d to %d characters", o.path, name, low, high)
	}
	return text, nil
}

func (o object) choice(name string, from ...string) (string, error) {
	text, err := o.text(name, 0, 0)
	if err != nil {
		return "", err
	}
	if !slices.Contains(from, *text) {
		return "", fmt.Errorf("%s.%s must be one of %s", o.path, name, strings.Join(from, ", "))
	}
	return *text, nil
}

func (o object) flag(name string) (bool, error) {
	var on *bool
	if json.Unmarshal(o.fields[name], &on) != nil || on == nil {
		return false, fmt.Errorf("%s.%s must be true or false", o.path, name)
	}
	return *on, nil
}

func (o object) flagOr(name string, absent bool) (bool, error) {
	if !o.has(name) {
		return absent, nil
	}
	return o.flag(name)
}

// cadence reads the room's heartbeat in either spelling; 0 is none.
func (o object) cadence() (time.Duration, error) {
	name := "heartbeat"
	if o.has("heartbeat_on") {
		if o.has("heartbeat") {
			return 0, fmt.Errorf("%s: give heartbeat or the older heartbeat_on, not both", o.path)
		}
		name = "heartbeat_on"
	}
	if !o.has(name) {
		return 0, nil
	}
	return o.duration(name, "smh", 30*time.Second, 24*time.Hour)
}

var durationForm = regexp.MustCompile(`^\d{1,4}[smhd]$`)

// duration reads a number and one of the units, between low and high.
func (o object) duration(name, units string, low, high time.Duration) (time.Duration, error) {
	text, err := o.text(name, 0, 0)
	if err != nil {
		return 0, err
	}
	t := *text
	if !durationForm.MatchString(t) || !strings.Contains(units, t[len(t)-1:]) {
		return 0, fmt.Errorf("%s.%s must be a number and one of %s, such as 30m", o.path, name, strings.Join(strings.Split(units, ""), ", "))
	}
	n, err := strconv.Atoi(t[:len(t)-1])
	if err != nil {
		return 0, fmt.Errorf("%s.%s must begin with a number", o.path, name)
	}
	unit := map[byte]time.Duration{'s': time.Second, 'm': time.Minute, 'h': time.Hour, 'd': 24 * time.Hour}[t[len(t)-1]]
	d := time.Duration(n) * unit
	if d < low || d > high {
		return 0, fmt.Errorf("%s.%s must be between %s and %s", o.path, name, short(low), short(high))
	}
	return d, nil
}

// short writes a whole duration as people write it here.
func short(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0:
		return strconv.Itoa(int(d/(24*time.Hour))) + "d"
	case d%time.Hour == 0:
		return strconv.Itoa(int(d/time.Hour)) + "h"
	case d%time.Minute == 0:
		return strconv.Itoa(int(d/time.Minute)) + "m"
	}
	return strconv.Itoa(int(d/time.Second)) + "s"
}
