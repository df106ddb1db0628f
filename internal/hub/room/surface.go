package room

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/manifest"
	"bellman.sh/desktop/internal/hub/payload"
	"bellman.sh/desktop/internal/hub/surface"
)

// maxItems is how many keys a surface holds.
const maxItems = 64

var imageTypes = map[string]bool{"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true}

// item is a surface item as it stands, and who wrote it last.
type item struct {
	surface.Item
	By bellman.Sender `json:"by"`
}

// wholeSurface is the surface as it stands; with a cut, only what was last
// written at or before it.
func (s *state) wholeSurface(cut int64) Surface {
	whole := Surface{Cursor: s.surfaceCursor, Items: []bellman.Envelope[surface.Item]{}}
	if cut > 0 {
		whole.Cursor = 0
	}
	for _, key := range slices.Sorted(maps.Keys(s.surface)) {
		i := s.surface[key]
		if cut > 0 {
			if i.Cursor > cut {
				continue
			}
			whole.Cursor = max(whole.Cursor, i.Cursor)
		}
		whole.Items = append(whole.Items, bellman.Untrusted(i.By.MemberID, i.By.Label, i.Item))
	}
	return whole
}

// surfaceIndex is the surface without any prose, for people outside.
func (s *state) surfaceIndex() SurfaceIndex {
	index := SurfaceIndex{Cursor: s.surfaceCursor, Items: []IndexItem{}}
	for _, key := range slices.Sorted(maps.Keys(s.surface)) {
		i := s.surface[key]
		chars := 0
		if i.Body != nil {
			chars = bellman.Units(*i.Body)
		}
		index.Items = append(index.Items, IndexItem{Key: key, Kind: i.Kind, Chars: chars, Cursor: i.Cursor, At: i.At, By: i.By})
	}
	return index
}

// SurfaceView is a room's surface and the room around it.
type SurfaceView struct {
	SessionID string  `json:"session_id"`
	Room      Preview `json:"room"`
	Surface   Surface `json:"surface"`
}

// Surface reads the surface for somebody who holds or held a seat. Looking
// counts as nothing. See protocol.md 1.8.
func (h *House) Surface(ctx context.Context, who account.Identity, id string) (SurfaceView, error) {
	stranger := refuse(NotFound, "no such room, or no member of yours in it")
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		if e := asRefusal(err); e != nil && e.Code == NotFound {
			return SurfaceView{}, stranger
		}
		return SurfaceView{}, err
	}
	defer leave()
	var view SurfaceView
	err = stranger
	r.look(func(s *state, _ int64) {
		mine := s.handles(who.UserID)
		if len(mine) == 0 {
			return
		}
		err = nil
		view = SurfaceView{SessionID: r.id, Room: s.preview(speaking(mine).Role), Surface: s.wholeSurface(cutOf(mine))}
	})
	return view, err
}

// handles lists every seat a person holds or held, in the order they joined.
func (s *state) handles(user string) []*member {
	return slices.DeleteFunc(slices.Clone(s.members), func(m *member) bool { return m.User != user })
}

// speaking is the first seat still held, else the first one.
func speaking(mine []*member) *member {
	for _, m := range mine {
		if m.left == 0 {
			return m
		}
	}
	return mine[0]
}

// cutOf is where the log ends for a person: nowhere (0) while one seat of
// theirs was not removed by the creator or they never had any, else at the
// last removal.
func cutOf(mine []*member) int64 {
	cut := int64(0)
	for _, m := range mine {
		if m.cut == 0 {
			return 0
		}
		cut = max(cut, m.cut)
	}
	return cut
}

// WriteItem stores a surface write that has no key and answers nothing. Unlike
// Send it tells a stranger nothing of the room, not even that it is closed.
func (h *House) WriteItem(ctx context.Context, who account.Identity, id, handle string, item json.RawMessage) (Sent, error) {
	err := h.lookAs(ctx, who, id, func(s *state, _ []*member, _ *room, _ int64) error {
		if _, err := s.own(who.UserID, handle); err != nil {
			return errNotFound()
		}
		return nil
	})
	if err != nil {
		return Sent{}, err
	}
	return h.writeSurface(ctx, who, id, Message{Handle: handle, Type: TypeSurface, Payload: item})
}

// writeSurface stores a surface write, with rules of its own beside the gate.
// See protocol.md 5.2.
func (h *House) writeSurface(ctx context.Context, who account.Identity, id string, msg Message) (Sent, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return Sent{}, err
	}
	defer leave()
	p, malformed := payload.Read(msg.Payload)
	if p.Deep {
		malformed = errors.New("payload nests deeper than a surface item does")
	}
	var w surface.Write
	if malformed == nil {
		w, malformed = surface.Read(p.Compact)
	}
	var sent Sent
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		m, rec, err := gate(s, who, msg.Handle, manifest.WriteSurface, now)
		if err != nil {
			return rec, err
		}
		sent = Sent{RoomMembers: labels(s.others(m.ID))}
		if malformed != nil {
			return rec, invalid(malformed)
		}
		print := fingerprint(msg.Type, m.ID, msg.RefID, p.Sorted)
		if old, ok := s.keys[keyRef{m.ID, msg.Key}]; ok && msg.Key != "" {
			return s.replay(rec, old, msg, print, &sent)
		}
		if err := s.place(rec, m, w, msg.RefID); err != nil {
			return rec, err
		}
		sent.Cursor = rec.Events[0].Cursor
		if msg.Key != "" {
			rec.Key = &kept{Member: m.ID, Key: msg.Key, Fingerprint: print, Cursor: sent.Cursor}
		}
		rec.note(s, who, "sent_surface", detail(w, rec.Write))
		return rec, nil
	})
	return sent, err
}

// place checks a write against what is on the surface and records it.
func (s *state) place(rec *record, m *member, w surface.Write, ref *string) error {
	if w.Remove {
		removal := map[string]any{"key": w.Item.Key, "remove": true}
		if _, err := rec.say(s, TypeSurface, m.sender(), removal, ref); err != nil {
			return err
		}
		rec.Erase = w.Item.Key
		return nil
	}
	i := w.Item
	if err := s.resolveBlob(&i); err != nil {
		return err
	}
	if _, replaces := s.surface[i.Key]; !replaces && len(s.surface) >= maxItems {
		return refuse(Conflict, "the surface is full (%d items): remove one first", maxItems)
	}
	if err := s.checkEnds(i); err != nil {
		return err
	}
	cursor, err := rec.say(s, TypeSurface, m.sender(), i.Event(), ref)
	if err != nil {
		return err
	}
	i.Cursor, i.At = cursor, wireTime(rec.At)
	rec.Write = &item{Item: i, By: m.sender()}
	return nil
}

// resolveBlob fills in the service's own facts about the file an item names.
func (s *state) resolveBlob(i *surface.Item) error {
	if i.Blob == nil {
		return nil
	}
	b, ok := s.blobs[i.Blob.ID]
	if !ok {
		return refuse(Invalid, "no blob %q in this room: upload it first", i.Blob.ID)
	}
	switch {
	case i.Kind == surface.KindImage && !imageTypes[b.Type]:
		return refuse(Invalid, "an image item needs a blob stored as png, jpeg, gif or webp, and this one is %s: place it as a file", b.Type)
	case i.Kind == surface.KindHTML && b.Type != "text/html":
		return refuse(Invalid, "an html item needs a blob stored as text/html, and this one is %s: place it as a file", b.Type)
	}
	i.Blob = &surface.Blob{ID: b.ID, Bytes: b.Bytes, Type: b.Type, Name: b.Name}
	return nil
}

// checkEnds wants both ends of a connector to be there and to be no connector.
func (s *state) checkEnds(i surface.Item) error {
	if i.Ends == nil {
		return nil
	}
	for _, end := range []string{i.Ends.From, i.Ends.To} {
		other, ok := s.surface[end]
		if !ok || end == i.Key {
			return refuse(Invalid, "connector end %q is not on the surface", end)
		}
		if other.Kind == surface.KindConnector {
			return refuse(Invalid, "connector end %q is a connector itself", end)
		}
	}
	return nil
}

// detail is what the audit log says of a write.
func detail(w surface.Write, stored *item) map[string]any {
	if stored == nil {
		return map[string]any{"key": w.Item.Key, "removed": true}
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
