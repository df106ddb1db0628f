package room

import (
	"encoding/json"
	"math"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/manifest"
)

// Kinds of surface items.
const (
	kindText      = "text"
	kindLink      = "link"
	kindDiagram   = "diagram"
	kindConnector = "connector"
	kindFile      = "file"
	kindImage     = "image"
	kindHTML      = "html"
	kindShape     = "shape"
)

var (
	kinds      = []string{kindText, kindLink, kindDiagram, kindConnector, kindFile, kindImage, kindHTML, kindShape}
	forms      = []string{"rect", "ellipse", "diamond", "arrow", "line"}
	colors     = []string{"slate", "blue", "green", "amber", "red", "violet"}
	imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}
	hexColor   = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)
	blobForm   = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// write is a surface write, checked as far as it can be without the room.
type write struct {
	item   Item
	remove bool
}

// readWrite reads the payload of a surface write: an item, or the removal of
// one. Nothing is accepted that is not named in protocol.md 5.1.
func readWrite(raw json.RawMessage) (write, error) {
	f, err := readFields("payload", raw)
	if err != nil {
		return write{}, err
	}
	key, err := f.text("key", 1, 31)
	if err != nil {
		return write{}, err
	}
	if key == nil || !manifest.Slug(*key) {
		return write{}, refuse(Invalid, "payload.key: surface keys are lower-case letters, digits and underscores, begin with a letter and have at most 31 characters")
	}
	if _, ok := f.given["remove"]; ok {
		var on bool
		if json.Unmarshal(f.given["remove"], &on) != nil || !on {
			return write{}, refuse(Invalid, "payload.remove can only be true")
		}
		if len(f.given) != 2 {
			return write{}, refuse(Invalid, "a removal is {key, remove: true} and nothing else")
		}
		return write{item: Item{Key: *key}, remove: true}, nil
	}
	i, err := readItem(f)
	if err != nil {
		return write{}, err
	}
	i.Key = *key
	return write{item: i}, checkKind(i)
}

func readItem(f itemFields) (Item, error) {
	if err := f.only("key", "kind", "title", "body", "ends", "placement", "blob", "shape"); err != nil {
		return Item{}, err
	}
	kind, err := f.text("kind", 0, 31)
	if err != nil {
		return Item{}, err
	}
	if kind == nil || !slices.Contains(kinds, *kind) {
		return Item{}, refuse(Invalid, "payload.kind must be one of %s", strings.Join(kinds, ", "))
	}
	i := Item{Kind: *kind}
	if i.Title, err = f.text("title", 1, 120); err != nil {
		return Item{}, err
	}
	if i.Body, err = f.text("body", 1, 8000); err != nil {
		return Item{}, err
	}
	if i.Ends, err = readEnds(f); err != nil {
		return Item{}, err
	}
	if i.Placement, err = readPlacement(f); err != nil {
		return Item{}, err
	}
	if i.Blob, err = readBlobRef(f); err != nil {
		return Item{}, err
	}
	i.Shape, err = readShape(f)
	return i, err
}

func readEnds(f itemFields) (*Ends, error) {
	e, ok, err := f.object("ends", "from", "to")
	if err != nil || !ok {
		return nil, err
	}
	from, err := e.text("from", 1, 31)
	if err != nil {
		return nil, err
	}
	to, err := e.text("to", 1, 31)
	if err != nil {
		return nil, err
	}
	if from == nil || to == nil || *from == *to {
		return nil, refuse(Invalid, "payload.ends must be {from, to} with two different keys")
	}
	return &Ends{From: *from, To: *to}, nil
}

func readPlacement(f itemFields) (*Placement, error) {
	p, ok, err := f.object("placement", "x", "y", "w", "h")
	if err != nil || !ok {
		return nil, err
	}
	var place Placement
	x, err := p.number("x")
	if err != nil {
		return nil, err
	}
	y, err := p.number("y")
	if err != nil {
		return nil, err
	}
	if x == nil || y == nil {
		return nil, refuse(Invalid, "payload.placement needs the numbers x and y")
	}
	place.X, place.Y = *x, *y
	for name, to := range map[string]**json.Number{"w": &place.W, "h": &place.H} {
		if *to, err = p.number(name); err != nil {
			return nil, err
		}
		if *to == nil {
			continue
		}
		if size, err := (*to).Float64(); err != nil || size <= 0 {
			return nil, refuse(Invalid, "payload.placement.%s must be greater than 0", name)
		}
	}
	return &place, nil
}

func readBlobRef(f itemFields) (*ItemBlob, error) {
	b, ok, err := f.object("blob", "id")
	if err != nil || !ok {
		return nil, err
	}
	id, err := b.text("id", 0, 64)
	if err != nil {
		return nil, err
	}
	if id == nil || !blobForm.MatchString(*id) {
		return nil, refuse(Invalid, "payload.blob.id must be 32 lower-case hexadecimal digits")
	}
	return &ItemBlob{ID: *id}, nil
}

func readShape(f itemFields) (*Shape, error) {
	o, ok, err := f.object("shape", "form", "color", "flip")
	if err != nil || !ok {
		return nil, err
	}
	form, err := o.text("form", 0, 31)
	if err != nil {
		return nil, err
	}
	if form == nil || !slices.Contains(forms, *form) {
		return nil, refuse(Invalid, "payload.shape.form must be one of %s", strings.Join(forms, ", "))
	}
	s := &Shape{Form: *form, Color: "slate"}
	color, err := o.text("color", 0, 31)
	if err != nil {
		return nil, err
	}
	if color != nil {
		switch {
		case slices.Contains(colors, *color):
			s.Color = *color
		case hexColor.MatchString(*color):
			s.Color = strings.ToLower(*color)
		default:
			return nil, refuse(Invalid, "payload.shape.color must be one of %s, or #rrggbb", strings.Join(colors, ", "))
		}
	}
	if raw, ok := o.given["flip"]; ok && string(raw) != "null" {
		if json.Unmarshal(raw, &s.Flip) != nil {
			return nil, refuse(Invalid, "payload.shape.flip must be true or false")
		}
	}
	if s.Flip && form != nil && *form != "arrow" && *form != "line" {
		return nil, refuse(Invalid, "payload.shape.flip is for arrow and line only")
	}
	return s, nil
}

// checkKind applies the rules of the item's kind.
func checkKind(i Item) error {
	wrong := func(rule string) error { return refuse(Invalid, "a surface item of kind %s %s", i.Kind, rule) }
	if part := foreignPart(i); part != "" {
		return wrong("has no " + part)
	}
	switch i.Kind {
	case kindText, kindDiagram, kindLink:
		if i.Body == nil {
			return wrong("needs a body")
		}
		if i.Kind == kindLink {
			return checkLink(*i.Body)
		}
	case kindConnector:
		if i.Ends == nil {
			return wrong("needs ends {from, to}")
		}
		if i.Placement != nil {
			return wrong("has no placement: it goes where its ends are")
		}
	case kindFile, kindImage:
		if i.Blob == nil || i.Body != nil {
			return wrong("needs a blob and has no body")
		}
	case kindHTML:
		if (i.Body == nil) == (i.Blob == nil) {
			return wrong("needs exactly one of body and blob")
		}
	case kindShape:
		if i.Shape == nil || i.Placement == nil || i.Placement.W == nil || i.Placement.H == nil || i.Body != nil {
			return wrong("needs a shape and a placement {x, y, w, h}, and has no body: the title is its label")
		}
	}
	return nil
}

// foreignPart names a part of i that belongs to another kind, if any.
func foreignPart(i Item) string {
	switch {
	case i.Ends != nil && i.Kind != kindConnector:
		return "ends"
	case i.Blob != nil && i.Kind != kindFile && i.Kind != kindImage && i.Kind != kindHTML:
		return "blob"
	case i.Shape != nil && i.Kind != kindShape:
		return "shape"
	}
	return ""
}

func checkLink(body string) error {
	if bellman.Units(body) > 2048 {
		return refuse(Invalid, "a link must have at most 2,048 characters")
	}
	u, err := url.Parse(body)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return refuse(Invalid, "a link must be an absolute http: or https: URL")
	}
	return nil
}

// normal is a write as its event carries it: every optional field there, null
// when absent, and of a blob only the id.
func (w write) normal(i Item) any {
	var blob any
	if i.Blob != nil {
		blob = map[string]string{"id": i.Blob.ID}
	}
	return struct {
		Key       string     `json:"key"`
		Kind      string     `json:"kind"`
		Title     *string    `json:"title"`
		Body      *string    `json:"body"`
		Ends      *Ends      `json:"ends"`
		Placement *Placement `json:"placement"`
		Blob      any        `json:"blob"`
		Shape     *Shape     `json:"shape"`
	}{i.Key, i.Kind, i.Title, i.Body, i.Ends, i.Placement, blob, i.Shape}
}

// detail is what the audit log says of a write.
func (w write) detail(stored *item) map[string]any {
	if stored == nil {
		return map[string]any{"key": w.item.Key, "removed": true}
	}
	chars := 0
	if stored.Body != nil {
		chars = bellman.Units(*stored.Body)
	}
	d := map[string]any{"key": stored.Key, "kind": stored.Kind, "chars": chars}
	if stored.Blob != nil {
		d["bytes"] = stored.Blob.Bytes
	}
	return d
}

// itemFields is an object of a surface write; null means absent.
type itemFields struct {
	path  string
	given map[string]json.RawMessage
}

func readFields(path string, raw json.RawMessage) (itemFields, error) {
	f := itemFields{path: path}
	if err := json.Unmarshal(raw, &f.given); err != nil || f.given == nil {
		return f, refuse(Invalid, "%s must be an object", path)
	}
	return f, nil
}

func (f itemFields) only(names ...string) error {
	for name := range f.given {
		if !slices.Contains(names, name) {
			return refuse(Invalid, "%s has an unknown key %q (known: %s)", f.path, name, strings.Join(names, ", "))
		}
	}
	return nil
}

func (f itemFields) text(name string, low, high int) (*string, error) {
	raw, ok := f.given[name]
	if !ok {
		return nil, nil //nolint:nilnil // An absent optional field is no error.
	}
	var text *string
	if json.Unmarshal(raw, &text) != nil {
		return nil, refuse(Invalid, "%s.%s must be a string", f.path, name)
	}
	if text != nil && (bellman.Units(*text) < low || bellman.Units(*text) > high) {
		return nil, refuse(Invalid, "%s.%s must have %d to %d characters", f.path, name, low, high)
	}
	return text, nil
}

func (f itemFields) number(name string) (*json.Number, error) {
	raw, ok := f.given[name]
	if !ok || string(raw) == "null" {
		return nil, nil //nolint:nilnil // An absent optional field is no error.
	}
	var n float64
	if json.Unmarshal(raw, &n) != nil || math.IsInf(n, 0) {
		return nil, refuse(Invalid, "%s.%s must be a finite number", f.path, name)
	}
	number := json.Number(raw)
	return &number, nil
}

func (f itemFields) object(name string, keys ...string) (itemFields, bool, error) {
	raw, ok := f.given[name]
	if !ok || string(raw) == "null" {
		return itemFields{}, false, nil
	}
	o, err := readFields(f.path+"."+name, raw)
	if err != nil {
		return o, false, err
	}
	return o, true, o.only(keys...)
}
