// Package surface holds the items of a room's working surface: their kinds,
// their form on the wire, and what a write of one may say. It knows nothing of
// the room they stand in. See protocol.md 5.1.
package surface

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/url"

	"bellman.sh/desktop/internal/bellman"
)

// Kinds of items.
const (
	KindText      = "text"
	KindLink      = "link"
	KindDiagram   = "diagram"
	KindConnector = "connector"
	KindFile      = "file"
	KindImage     = "image"
	KindHTML      = "html"
	KindShape     = "shape"
)

// Item is a surface item as read; what it lacks is null.
type Item struct {
	Key       string     `json:"key"`
	Kind      string     `json:"kind"`
	Title     *string    `json:"title"`
	Body      *string    `json:"body"`
	Ends      *Ends      `json:"ends"`
	Placement *Placement `json:"placement"`
	Blob      *Blob      `json:"blob"`
	Shape     *Shape     `json:"shape"`
	Cursor    int64      `json:"cursor"`
	At        string     `json:"at"`
}

// Ends are the two items a connector joins.
type Ends struct {
	From string `json:"from"`
	To   string `json:"to"`
}

// Placement is where an item lies.
type Placement struct {
	X json.Number  `json:"x"`
	Y json.Number  `json:"y"`
	W *json.Number `json:"w,omitempty"`
	H *json.Number `json:"h,omitempty"`
}

// Blob is the file behind an item, as the service stored it.
type Blob struct {
	ID    string `json:"id"`
	Bytes int64  `json:"bytes"`
	Type  string `json:"type"`
	Name  string `json:"name"`
}

// Shape is the form of a shape item.
type Shape struct {
	Form  string `json:"form"`
	Color string `json:"color"`
	Flip  bool   `json:"flip"`
}

// Event is the payload of the event that tells of the item: every optional
// field there, null when absent, and of a blob only the id.
func (i Item) Event() any {
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

// checkKind applies the rules of the item's kind.
func checkKind(i Item) error {
	wrong := func(rule string) error { return fmt.Errorf("a surface item of kind %s %s", i.Kind, rule) }
	if part := foreignPart(i); part != "" {
		return wrong("has no " + part)
	}
	switch i.Kind {
	case KindText, KindDiagram, KindLink:
		if i.Body == nil {
			return wrong("needs a body")
		}
		if i.Kind == KindLink {
			return checkLink(*i.Body)
		}
	case KindConnector:
		if i.Ends == nil {
			return wrong("needs ends {from, to}")
		}
		if i.Placement != nil {
			return wrong("has no placement: it goes where its ends are")
		}
	case KindFile, KindImage:
		if i.Blob == nil || i.Body != nil {
			return wrong("needs a blob and has no body")
		}
	case KindHTML:
		if (i.Body == nil) == (i.Blob == nil) {
			return wrong("needs exactly one of body and blob")
		}
	case KindShape:
		if i.Shape == nil || i.Placement == nil || i.Placement.W == nil || i.Placement.H == nil || i.Body != nil {
			return wrong("needs a shape and a placement {x, y, w, h}, and has no body: the title is its label")
		}
	}
	return nil
}

// foreignPart names a part of i that belongs to another kind, if any.
func foreignPart(i Item) string {
	switch {
	case i.Ends != nil && i.Kind != KindConnector:
		return "ends"
	case i.Blob != nil && i.Kind != KindFile && i.Kind != KindImage && i.Kind != KindHTML:
		return "blob"
	case i.Shape != nil && i.Kind != KindShape:
		return "shape"
	}
	return ""
}

func checkLink(body string) error {
	if bellman.Units(body) > 2048 {
		return errors.New("a link must have at most 2,048 characters")
	}
	u, err := url.Parse(body)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return errors.New("a link must be an absolute http: or https: URL")
	}
	return nil
}
