package journaltest

import (
	"context"
	"slices"
	"sync"

	"bellman.sh/desktop/internal/hub/journal"
)

// Memory is the plainest engine that keeps every promise, for tests of what
// stands on one. The zero value is empty and ready.
type Memory struct {
	mu    sync.Mutex
	logs  map[string][]journal.Entry
	marks []journal.Mark // oldest first
	moved chan struct{}  // closed and replaced with every append
}

// Append implements journal.Log.
func (m *Memory) Append(ctx context.Context, room string, expected int64, e journal.Entry) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.logs == nil {
		m.logs = map[string][]journal.Entry{}
	}
	if int64(len(m.logs[room])) != expected {
		return journal.ErrConflict
	}
	m.logs[room] = append(m.logs[room], journal.Entry{Position: expected + 1, Body: slices.Clone(e.Body)})
	for _, mark := range e.Marks {
		if mark.Drop {
			m.marks = slices.DeleteFunc(m.marks, func(old journal.Mark) bool {
				return old.Room == room && old.Space == mark.Space && old.Key == mark.Key
			})
			continue
		}
		mark.Room, mark.Body = room, slices.Clone(mark.Body)
		m.marks = append(m.marks, mark)
	}
	if m.moved != nil {
		close(m.moved)
	}
	m.moved = make(chan struct{})
	return nil
}

// Read implements journal.Log.
func (m *Memory) Read(ctx context.Context, room string, from int64, limit int) ([]journal.Entry, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	log := m.logs[room]
	if from >= int64(len(log)) {
		return nil, nil
	}
	log = log[from:]
	return slices.Clone(log[:min(limit, len(log))]), nil
}

// Watch implements journal.Log.
func (m *Memory) Watch(ctx context.Context, room string, from int64) (int64, error) {
	for {
		m.mu.Lock()
		if m.moved == nil {
			m.moved = make(chan struct{})
		}
		last, moved := int64(len(m.logs[room])), m.moved
		m.mu.Unlock()
		if last > from {
			return last, nil
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// Find implements journal.Index.
func (m *Memory) Find(ctx context.Context, space, key string, limit int) ([]journal.Mark, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	var found []journal.Mark
	for _, mark := range slices.Backward(m.marks) {
		if mark.Space == space && mark.Key == key && (limit == 0 || len(found) < limit) {
			found = append(found, mark)
		}
	}
	return found, nil
}

// Forget implements journal.Log.
func (m *Memory) Forget(_ context.Context, room string, keep ...string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.logs, room)
	m.marks = slices.DeleteFunc(m.marks, func(mark journal.Mark) bool {
		return mark.Room == room && !slices.Contains(keep, mark.Space)
	})
	return nil
}
