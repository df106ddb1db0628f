package room

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/manifest"
)

// state is a room folded up to a position of its log.
type state struct {
	position int64
	charter  charter
	openedAt int64
	lastAt   int64 // of the newest record; time in a room does not go back
	status   string
	closedAt int64
	public   bool

	members  []*member
	codes    map[string]code // by role
	events   []bellman.Event // the cursor of events[i] is i+1
	bytes    int64           // about what the events take
	keys     map[keyRef]kept
	requests []*request
	answered map[string]*request // by cursor, in decimal

	surface       map[string]*item
	surfaceCursor int64
	blobs         map[string]Blob
	blobBytes     int64

	lastTick int64
	found    map[string]finding
}

type keyRef struct{ member, key string }

// request is an action request and what became of it.
type request struct {
	cursor   int64
	from     bellman.Sender
	at       int64
	answered string // label of who answered first, empty while open
	closed   bool
}

func newState() *state {
	return &state{
		status: StatusActive,
		codes:  map[string]code{}, keys: map[keyRef]kept{}, answered: map[string]*request{},
		surface: map[string]*item{}, blobs: map[string]Blob{}, found: map[string]finding{},
	}
}

// last is the cursor of the newest event, 0 in a room without one.
func (s *state) last() int64 { return int64(len(s.events)) }

func (s *state) manifest() *manifest.Manifest { return &s.charter.Manifest }

func (s *state) closed() bool { return s.status == bellman.StatusClosed }

// applyEntry folds one entry of the log in.
func (s *state) applyEntry(position int64, body []byte) error {
	var r record
	if err := json.Unmarshal(body, &r); err != nil {
		return fmt.Errorf("read record %d: %w", position, err)
	}
	s.apply(position, &r)
	return nil
}

// apply folds r in. It never fails and never decides: everything that needed
// deciding stands in r.
func (s *state) apply(position int64, r *record) {
	s.position, s.lastAt = position, max(s.lastAt, r.At)
	if r.Open != nil {
		s.charter, s.openedAt, s.public, s.lastTick = *r.Open, r.At, r.Open.Manifest.Public, r.At
	}
	if r.Seat != nil {
		m := *r.Seat
		m.joined, m.seen, m.reported = r.At, r.At, r.At
		s.members = append(s.members, &m)
	}
	s.applyMembers(r)
	for _, role := range r.Retire {
		delete(s.codes, role)
	}
	for _, c := range r.Codes {
		s.codes[c.Role] = c
	}
	if r.Key != nil {
		s.keys[keyRef{r.Key.Member, r.Key.Key}] = *r.Key
	}
	if r.Public != nil {
		s.public = *r.Public
	}
	if r.Tick {
		s.lastTick = r.At
	}
	for _, f := range r.Found {
		s.found[f.Key] = f
	}
	for _, e := range r.Events {
		s.applyEvent(e, r.At)
	}
	s.applySurface(r)
	s.applyStatus(r)
}

func (s *state) applyMembers(r *record) {
	for _, d := range r.Depart {
		if m := s.member(d.Member); m != nil {
			m.left, m.cut = r.At, d.Cut
		}
	}
	for _, id := range r.Seen {
		if m := s.member(id); m != nil {
			m.seen = r.At
		}
	}
	if m := s.member(r.Report); m != nil {
		m.reported = r.At
	}
	if r.Brief != nil {
		if m := s.member(r.Brief.Member); m != nil {
			m.Brief = r.Brief.Brief
		}
	}
}

func (s *state) applyEvent(e bellman.Event, at int64) {
	s.events = append(s.events, e)
	s.bytes += int64(len(e.Payload)) + 256
	switch e.Type {
	case TypeActionRequest:
		q := &request{cursor: e.Cursor, from: e.From, at: at}
		s.requests = append(s.requests, q)
		s.answered[strconv.FormatInt(e.Cursor, 10)] = q
	case TypeActionResponse:
		if e.RefID == nil {
			return
		}
		if q := s.answered[*e.RefID]; q != nil && !q.closed {
			q.closed, q.answered = true, e.From.Label
		}
	}
}

func (s *state) applySurface(r *record) {
	if r.Write != nil {
		s.surface[r.Write.Key] = r.Write
		s.surfaceCursor = r.Write.Cursor
	}
	if _, ok := s.surface[r.Erase]; ok {
		delete(s.surface, r.Erase)
		s.surfaceCursor = s.last()
	}
	if r.Blob != nil {
		s.blobs[r.Blob.ID] = *r.Blob
		s.blobBytes += r.Blob.Bytes
	}
	for _, id := range r.Drop {
		s.blobBytes -= s.blobs[id].Bytes
		delete(s.blobs, id)
	}
}

func (s *state) applyStatus(r *record) {
	switch r.Status {
	case "":
		return
	case StatusClosed:
		s.closedAt = r.At
	case StatusActive:
		// A thaw: nobody is to be found quiet for the time of the freeze.
		for _, m := range s.members {
			if m.left == 0 {
				m.seen, m.reported = r.At, r.At
			}
		}
		s.lastTick = r.At
	}
	s.status = r.Status
}

func (s *state) member(id string) *member {
	for _, m := range s.members {
		if m.ID == id {
			return m
		}
	}
	return nil
}

// own returns the seat of that handle when it is the user's.
func (s *state) own(user, handle string) (*member, error) {
	if m := s.member(handle); m != nil && m.User == user {
		return m, nil
	}
	return nil, errNoMember(handle)
}

// seated lists the members who have not left.
func (s *state) seated() []*member {
	return slices.DeleteFunc(slices.Clone(s.members), func(m *member) bool { return m.left != 0 })
}

// others lists the seated members but one.
func (s *state) others(handle string) []*member {
	return slices.DeleteFunc(s.seated(), func(m *member) bool { return m.ID == handle })
}

func labels(members []*member) []string {
	names := make([]string, len(members))
	for i, m := range members {
		names[i] = m.Label
	}
	return names
}

func (m *member) sender() bellman.Sender { return bellman.Sender{MemberID: m.ID, Label: m.Label} }

func (m *member) stored() StoredMember {
	return StoredMember{
		MemberID: m.ID, Label: m.Label, OrgID: m.Org, Agent: m.Brief.Agent,
		Capabilities: m.Capabilities, Role: m.Role, Active: m.left == 0,
	}
}

// liveCodes lists the codes that work at now, by role.
func (s *state) liveCodes(now int64) []code {
	var live []code
	for _, role := range slices.Sorted(maps.Keys(s.codes)) {
		if c := s.codes[role]; now < c.Expires {
			live = append(live, c)
		}
	}
	return live
}

// system is the service itself, speaking under a label.
func system(label string) bellman.Sender {
	return bellman.Sender{MemberID: bellman.SystemMember, Label: label}
}

// creator is the room's first member, whose prose the room's is.
func (s *state) creator() *member { return s.members[0] }
