// Package sbom writes the bill of materials of a Go program, in the CycloneDX
// form, from what the linker recorded inside the program itself.
package sbom

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"
)

// Program is what the bill is about.
type Program struct {
	Name    string
	Version string
	Data    []byte
	// Linked is the program as the linker left it, when Data was changed since
	// in a way that hides what it recorded; nil when it was not.
	Linked []byte
	// Built is the time of the source, so that the bill does not differ from
	// one build to the next.
	Built time.Time
}

type document struct {
	Format       string       `json:"bomFormat"`
	Spec         string       `json:"specVersion"`
	Serial       string       `json:"serialNumber"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Timestamp string    `json:"timestamp"`
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	Hashes     []hash     `json:"hashes,omitempty"`
	PURL       string     `json:"purl,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Algorithm string `json:"alg"`
	Content   string `json:"content"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// Write returns the bill of p as JSON: the program with its sum, Go itself and
// every module that is linked. The same program gives the same bytes.
func Write(p Program) ([]byte, error) {
	linked := p.Linked
	if linked == nil {
		linked = p.Data
	}
	info, err := buildinfo.Read(bytes.NewReader(linked))
	if err != nil {
		return nil, fmt.Errorf("read what %s is made of: %w", p.Name, err)
	}
	sum := sha256.Sum256(p.Data)
	root := component{
		Type: "application", Ref: p.Name, Name: p.Name, Version: p.Version,
		Hashes: []hash{{"SHA-256", hex.EncodeToString(sum[:])}}, Properties: settings(info),
	}
	list := []component{library("std", strings.TrimPrefix(info.GoVersion, "go"), "")}
	for _, m := range info.Deps {
		if m.Replace != nil {
			m = m.Replace
		}
		list = append(list, library(m.Path, m.Version, m.Sum))
	}
	slices.SortFunc(list, func(a, b component) int { return strings.Compare(a.Ref, b.Ref) })
	refs := make([]string, len(list))
	for i, c := range list {
		refs[i] = c.Ref
	}
	d := document{
		Format: "CycloneDX", Spec: "1.5", Serial: serial(sum), Version: 1,
		Metadata:     metadata{p.Built.UTC().Format(time.RFC3339), root},
		Components:   list,
		Dependencies: []dependency{{root.Ref, refs}},
	}
	data, err := json.MarshalIndent(d, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("write bill of %s: %w", p.Name, err)
	}
	return append(data, '\n'), nil
}

func library(path, version, sum string) component {
	purl := "pkg:golang/" + path + "@" + url.PathEscape(version)
	c := component{Type: "library", Ref: purl, Name: path, Version: version, PURL: purl}
	if sum != "" {
		c.Properties = []property{{"go:sum", sum}}
	}
	return c
}

// settings are the ones of the build that change what is inside.
func settings(info *buildinfo.BuildInfo) []property {
	var list []property
	for _, s := range info.Settings {
		if slices.Contains([]string{"CGO_ENABLED", "GOOS", "GOARCH", "-tags"}, s.Key) {
			list = append(list, property{"go:" + strings.TrimPrefix(s.Key, "-"), s.Value})
		}
	}
	return list
}

// serial is a UUID that only this program has.
func serial(sum [sha256.Size]byte) string {
	id := [16]byte(sum[:])
	id[6] = id[6]&0x0f | 0x80 // version 8: of our own making
	id[8] = id[8]&0x3f | 0x80
	return fmt.Sprintf("urn:uuid:%x-%x-%x-%x-%x", id[:4], id[4:6], id[6:8], id[8:10], id[10:])
}
