package mcpb

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

var (
	semver      = regexp.MustCompile(`^(0|[1-9]\d*)\.(0|[1-9]\d*)\.(0|[1-9]\d*)(-[0-9A-Za-z.-]+)?(\+[0-9A-Za-z.-]+)?$`)
	placeholder = regexp.MustCompile(`\$\{([^}]+)\}`)
	loneSetting = regexp.MustCompile(`^\$\{user_config\.[^}]+\}$`)
)

// Host is what a host brings when it starts a bundle.
type Host struct {
	// Dir is the folder the bundle was unpacked to.
	Dir string
	// Platform is darwin, linux or win32.
	Platform string
	// Settings are what the person filled in: strings, booleans, numbers.
	Settings map[string]any
	// Dirs are the system folders the host offers, such as HOME.
	Dirs map[string]string
	// MergeEnv adds the environment of an override to the base one instead of
	// replacing it. Hosts do either, by their version.
	MergeEnv bool
}

// Resolve returns the command a host runs for m, by the rules of the library
// that Claude Desktop uses, its flaws included: a placeholder without a value
// stays as it is, and a $ in a value is read as JavaScript's replace reads it.
// A required setting without a value is an error. See bundle.md 1.3.
func Resolve(m Manifest, h Host) (Launch, error) {
	for key, setting := range m.UserConfig {
		if value := h.Settings[key]; setting.Required && (value == nil || value == "") {
			return Launch{}, fmt.Errorf("resolve bundle: setting %s is required", key)
		}
	}
	launch := m.Server.Config.Launch
	if o, ok := m.Server.Config.Overrides[h.Platform]; ok {
		if o.Command != "" {
			launch.Command = o.Command
		}
		if o.Args != nil {
			launch.Args = o.Args
		}
		if o.Env != nil {
			env := o.Env
			if h.MergeEnv {
				env = maps.Clone(launch.Env)
				maps.Copy(env, o.Env)
			}
			launch.Env = env
		}
	}
	values := h.values(m)
	launch.Command = values.fill(launch.Command)
	launch.Args = slices.Clone(launch.Args)
	for i, arg := range launch.Args {
		launch.Args[i] = values.fillArg(arg)
	}
	launch.Env = maps.Clone(launch.Env)
	for key, value := range launch.Env {
		launch.Env[key] = values.fill(value)
	}
	return launch, nil
}

// values are the variables of one resolution, in the order they are replaced.
type values []variable

type variable struct{ name, value string }

func (h Host) values(m Manifest) values {
	separator := "/"
	if h.Platform == "win32" {
		separator = `\`
	}
	list := values{{"__dirname", h.Dir}, {"pathSeparator", separator}, {"/", separator}}
	for _, name := range slices.Sorted(maps.Keys(h.Dirs)) {
		list = append(list, variable{name, h.Dirs[name]})
	}
	settings := map[string]any{}
	for key, setting := range m.UserConfig {
		if setting.Default != nil {
			settings[key] = setting.Default
		}
	}
	maps.Copy(settings, h.Settings)
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		list = append(list, variable{"user_config." + key, text(settings[key])})
	}
	return list
}

func text(value any) string {
	switch v := value.(type) {
	case string:
		return v
	case bool:
		return strconv.FormatBool(v)
	case float64:
		return strconv.FormatFloat(v, 'f', -1, 64)
	default:
		return fmt.Sprint(v)
	}
}

// fill replaces one variable after the other, so a value that holds another
// variable is filled in turn or not by where it stands in the list.
func (vs values) fill(s string) string {
	for _, v := range vs {
		s = replaceAll(s, "${"+v.name+"}", v.value)
	}
	return s
}

// fillArg is fill for an argument. One that is a setting and nothing else is
// taken as it is, dollars included, and stays literal while it has no value.
func (vs values) fillArg(arg string) string {
	if !loneSetting.MatchString(arg) {
		return vs.fill(arg)
	}
	for _, v := range vs {
		if arg == "${"+v.name+"}" && v.value != "" {
			return v.value
		}
	}
	return arg
}

// replaceAll replaces as JavaScript's String.replace does, where $$, $&, $`
// and $' in the new text have a meaning.
func replaceAll(s, mark, value string) string {
	var b strings.Builder
	for rest := 0; ; {
		i := strings.Index(s[rest:], mark)
		if i < 0 {
			b.WriteString(s[rest:])
			return b.String()
		}
		start, end := rest+i, rest+i+len(mark)
		b.WriteString(s[rest:start])
		b.WriteString(strings.NewReplacer("$$", "$", "$&", mark, "$`", s[:start], "$'", s[end:]).Replace(value))
		rest = end
	}
}

func placeholders(s string) []string {
	var names []string
	for _, m := range placeholder.FindAllStringSubmatch(s, -1) {
		names = append(names, m[1])
	}
	return names
}
