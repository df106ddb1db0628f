package sqlite

import "sync"

// heads knows the last position of every room that is being watched.
type heads struct {
	mu    sync.Mutex
	rooms map[string]*head
}

type head struct {
	position int64
	known    bool          // position is the log's, and is being kept
	moved    chan struct{} // closed and replaced when position rises
	watchers int
}

// hold returns the head of a room and keeps it until drop.
func (s *heads) hold(room string) *head {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.rooms[room]
	if h == nil {
		h = &head{moved: make(chan struct{})}
		s.rooms[room] = h
	}
	h.watchers++
	return h
}

func (s *heads) drop(room string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.rooms[room]
	if h.watchers--; h.watchers == 0 {
		delete(s.rooms, room)
	}
}

// at returns the position of h and what closes when it rises.
func (s *heads) at(h *head) (int64, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.position, h.moved
}

// raise wakes the watchers of a room. Positions only rise.
func (s *heads) raise(room string, position int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	h := s.rooms[room]
	if h == nil || position <= h.position {
		return
	}
	h.position = position
	close(h.moved)
	h.moved = make(chan struct{})
}

// isKnown reports whether the position of h is that of the log.
func (s *heads) isKnown(h *head) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return h.known
}

// know takes in the position of a room that was read while it is watched.
func (s *heads) know(room string, position int64) {
	s.raise(room, position)
	s.mu.Lock()
	defer s.mu.Unlock()
	if h := s.rooms[room]; h != nil {
		h.known = true
	}
}

// held lists the rooms that are being watched.
func (s *heads) held() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	rooms := make([]string, 0, len(s.rooms))
	for room := range s.rooms {
		rooms = append(rooms, room)
	}
	return rooms
}
