// Package mcpb reads, writes and resolves MCPB bundles: the file Claude
// Desktop installs. It packs the same bytes from the same files on every
// machine, unpacks as an install does, and works out the command a host runs.
// (bundle.md 1)
package mcpb

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
)

// ManifestName is where a bundle holds its manifest.
const ManifestName = "manifest.json"

// Manifest is a manifest of version 0.3, the keys Bellman uses and no others:
// one key outside the schema makes a host refuse the whole bundle.
type Manifest struct {
	ManifestVersion string             `json:"manifest_version"`
	Name            string             `json:"name"`
	DisplayName     string             `json:"display_name"`
	Version         string             `json:"version"`
	Description     string             `json:"description"`
	LongDescription string             `json:"long_description"`
	Author          Author             `json:"author"`
	Homepage        string             `json:"homepage"`
	Documentation   string             `json:"documentation"`
	Support         string             `json:"support"`
	Icon            string             `json:"icon"`
	Server          Server             `json:"server"`
	Tools           []Tool             `json:"tools"`
	ToolsGenerated  bool               `json:"tools_generated"`
	Prompts         []Prompt           `json:"prompts"`
	Keywords        []string           `json:"keywords"`
	License         string             `json:"license"`
	Compatibility   Compatibility      `json:"compatibility"`
	UserConfig      map[string]Setting `json:"user_config"`
}

// Author is who made the bundle.
type Author struct {
	Name string `json:"name"`
	URL  string `json:"url,omitempty"`
}

// Server is the program a bundle holds and how a host starts it.
type Server struct {
	Type       string    `json:"type"`
	EntryPoint string    `json:"entry_point"`
	Config     MCPConfig `json:"mcp_config"`
}

// MCPConfig is how the program is started, and how it differs by platform.
// The keys of Overrides are darwin, linux and win32; there are none by
// processor.
type MCPConfig struct {
	Launch
	Overrides map[string]Launch `json:"platform_overrides"`
}

// Launch is a command with its arguments and environment. In a manifest they
// hold placeholders such as ${__dirname}; what Resolve returns holds none that
// could be filled.
type Launch struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
}

// Tool is how a manifest announces a tool. The schema has no room for more.
type Tool struct {
	Name        string `json:"name"`
	Description string `json:"description"`
}

// Prompt is how a manifest announces a prompt.
type Prompt struct {
	Name        string   `json:"name"`
	Description string   `json:"description"`
	Arguments   []string `json:"arguments,omitempty"`
	Text        string   `json:"text"`
}

// Compatibility is what a bundle runs on.
type Compatibility struct {
	ClaudeDesktop string   `json:"claude_desktop"`
	Platforms     []string `json:"platforms"`
}

// Setting is one field a person can fill in at installation.
type Setting struct {
	Type        string `json:"type"`
	Title       string `json:"title"`
	Description string `json:"description"`
	Required    bool   `json:"required"`
	Default     any    `json:"default,omitempty"`
}

// ParseManifest reads a manifest. A key it does not know, a missing value or
// an inconsistency is an error that names it.
func ParseManifest(data []byte) (Manifest, error) {
	var m Manifest
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&m); err != nil {
		return Manifest{}, fmt.Errorf("parse manifest: %w", err)
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return Manifest{}, errors.New("parse manifest: something follows the object")
	}
	if err := m.check(); err != nil {
		return Manifest{}, fmt.Errorf("check manifest: %w", err)
	}
	return m, nil
}

// Encode returns the manifest as it is packed: indented, placeholders as they
// were written.
func (m Manifest) Encode() ([]byte, error) {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(m); err != nil {
		return nil, fmt.Errorf("encode manifest: %w", err)
	}
	return b.Bytes(), nil
}

// For returns the manifest of a bundle that serves only these platforms
// (darwin, linux, win32) and holds entryPoint.
func (m Manifest) For(platforms []string, entryPoint string) Manifest {
	m.Server.EntryPoint = entryPoint
	m.Server.Config.Overrides = maps.Clone(m.Server.Config.Overrides)
	maps.DeleteFunc(m.Server.Config.Overrides, func(platform string, _ Launch) bool {
		return !slices.Contains(platforms, platform)
	})
	// The base command is what a host without overrides runs, so it must exist.
	m.Server.Config.Launch = m.Server.Config.Overrides[platforms[0]]
	m.Compatibility.Platforms = platforms
	return m
}

func (m Manifest) check() error {
	if m.ManifestVersion != "0.3" {
		return fmt.Errorf("manifest_version is %q, want 0.3", m.ManifestVersion)
	}
	for key, value := range map[string]string{
		"name": m.Name, "display_name": m.DisplayName, "description": m.Description,
		"author.name": m.Author.Name, "icon": m.Icon, "server.entry_point": m.Server.EntryPoint,
	} {
		if value == "" {
			return fmt.Errorf("%s is empty", key)
		}
	}
	if !semver.MatchString(m.Version) {
		return fmt.Errorf("version %q is not a semantic version", m.Version)
	}
	if m.Server.Type != "binary" {
		return fmt.Errorf("server.type is %q, want binary", m.Server.Type)
	}
	return m.checkLaunches()
}

// checkLaunches holds every platform to a program of the bundle, the same
// arguments' flag, the same environment and declared settings only: hosts
// differ in whether an override replaces the environment or adds to it, and
// both must come out the same.
func (m Manifest) checkLaunches() error {
	base := m.Server.Config.Launch
	if !slices.ContainsFunc(m.Compatibility.Platforms, func(platform string) bool {
		launch := m.Server.Config.Overrides[platform]
		return launch.Command == base.Command && slices.Equal(launch.Args, base.Args)
	}) {
		return errors.New("the base command is that of no platform")
	}
	for _, platform := range m.Compatibility.Platforms {
		if err := m.checkLaunch(platform); err != nil {
			return err
		}
	}
	for platform := range m.Server.Config.Overrides {
		if !slices.Contains(m.Compatibility.Platforms, platform) {
			return fmt.Errorf("override for %q, which is not among the platforms", platform)
		}
	}
	return nil
}

func (m Manifest) checkLaunch(platform string) error {
	launch, ok := m.Server.Config.Overrides[platform]
	switch {
	case !slices.Contains([]string{"darwin", "linux", "win32"}, platform):
		return fmt.Errorf("no host calls its platform %q", platform)
	case !ok:
		return fmt.Errorf("no override for platform %s", platform)
	case !maps.Equal(launch.Env, m.Server.Config.Env):
		return fmt.Errorf("env of %s differs from the base", platform)
	case !launch.ours():
		return fmt.Errorf("%s does not start a program of the bundle", platform)
	case !slices.Contains(launch.Args, "--bundle"):
		return fmt.Errorf("args of %s lack --bundle", platform)
	}
	for _, text := range launch.texts() {
		if name := m.unfillable(text); name != "" {
			return fmt.Errorf("%s uses ${%s}, which no host fills", platform, name)
		}
	}
	return nil
}

// unfillable returns the first placeholder of text that is neither the folder
// of the bundle nor a declared setting.
func (m Manifest) unfillable(text string) string {
	for _, name := range placeholders(text) {
		key, isSetting := strings.CutPrefix(name, "user_config.")
		if _, declared := m.UserConfig[key]; name != "__dirname" && (!isSetting || !declared) {
			return name
		}
	}
	return ""
}

// ours reports whether what starts is in the bundle, by itself or as a script.
func (l Launch) ours() bool {
	program := l.Command
	if program == "/bin/sh" && len(l.Args) > 0 {
		program = l.Args[0]
	}
	return strings.HasPrefix(program, "${__dirname}/")
}

func (l Launch) texts() []string {
	return slices.Concat([]string{l.Command}, l.Args, slices.Sorted(maps.Values(l.Env)))
}
