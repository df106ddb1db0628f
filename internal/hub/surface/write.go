package surface

import (
	"encoding/json"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"bellman.sh/desktop/internal/hub/manifest"
)

var (
	kinds    = []string{KindText, KindLink, KindDiagram, KindConnector, KindFile, KindImage, KindHTML, KindShape}
	forms    = []string{"rect", "ellipse", "diamond", "arrow", "line"}
	colors   = []string{"slate", "blue", "green", "amber", "red", "violet"}
	hexColor = regexp.MustCompile(`^#[0-9a-fA-F]{6}$`)
	blobForm = regexp.MustCompile(`^[0-9a-f]{32}$`)
)

// Write is a write to the surface, checked as far as it can be without the
// room: an item, or the removal of the one under Item.Key.
type Write struct {
	Item   Item
	Remove bool
}

// Read reads the payload of a write. Nothing is accepted that is not named in
// protocol.md 5.1; errors are written for the sender.
func Read(raw json.RawMessage) (Write, error) {
	f, err := readObject("payload", raw)
	if err != nil {
		return Write{}, err
	}
	key, err := f.text("key", 1, 31)
	if err != nil {
		return Write{}, err
	}
	if key == nil || !manifest.Slug(*key) {
		return Write{}, errors.New("payload.key: surface keys are lower-case letters, digits and underscores, begin with a letter and have at most 31 characters")
	}
	if _, ok := f.given["remove"]; ok {
		var on bool
		if json.Unmarshal(f.given["remove"], &on) != nil || !on {
			return Write{}, errors.New("payload.remove can only be true")
		}
		if len(f.given) != 2 {
			return Write{}, errors.New("a removal is {key, remove: true} and nothing else")
		}
		return Write{Item: Item{Key: *key}, Remove: true}, nil
	}
	i, err := readItem(f)
	if err != nil {
		return Write{}, err
	}
	i.Key = *key
	return Write{Item: i}, checkKind(i)
}

func readItem(f object) (Item, error) {
	if err := f.only("key", "kind", "title", "body", "ends", "placement", "blob", "shape"); err != nil {
		return Item{}, err
	}
	kind, err := f.text("kind", 0, 31)
	if err != nil {
		return Item{}, err
	}
	if kind == nil || !slices.Contains(kinds, *kind) {
		return Item{}, fmt.Errorf("payload.kind must be one of %s", strings.Join(kinds, ", "))
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

func readEnds(f object) (*Ends, error) {
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
		return nil, errors.New("payload.ends must be {from, to} with two different keys")
	}
	return &Ends{From: *from, To: *to}, nil
}

func readPlacement(f object) (*Placement, error) {
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
		return nil, errors.New("payload.placement needs the numbers x and y")
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
			return nil, fmt.Errorf("payload.placement.%s must be greater than 0", name)
		}
	}
	return &place, nil
}

func readBlobRef(f object) (*Blob, error) {
	b, ok, err := f.object("blob", "id")
	if err != nil || !ok {
		return nil, err
	}
	id, err := b.text("id", 0, 64)
	if err != nil {
		return nil, err
	}
	if id == nil || !blobForm.MatchString(*id) {
		return nil, errors.New("payload.blob.id must be 32 lower-case hexadecimal digits")
	}
	return &Blob{ID: *id}, nil
}

func readShape(f object) (*Shape, error) {
	o, ok, err := f.object("shape", "form", "color", "flip")
	if err != nil || !ok {
		return nil, err
	}
	form, err := o.text("form", 0, 31)
	if err != nil {
		return nil, err
	}
	if form == nil || !slices.Contains(forms, *form) {
		return nil, fmt.Errorf("payload.shape.form must be one of %s", strings.Join(forms, ", "))
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
			return nil, fmt.Errorf("payload.shape.color must be one of %s, or #rrggbb", strings.Join(colors, ", "))
		}
	}
	if raw, ok := o.given["flip"]; ok && string(raw) != "null" {
		if json.Unmarshal(raw, &s.Flip) != nil {
			return nil, errors.New("payload.shape.flip must be true or false")
		}
	}
	if s.Flip && *form != "arrow" && *form != "line" {
		return nil, errors.New("payload.shape.flip is for arrow and line only")
	}
	return s, nil
}
