package oauth

import (
	"context"
	"slices"
	"sync"
)

// Store keeps one secret item. Its methods may be called from several
// goroutines, may block until ctx ends and must return soon after it has.
type Store interface {
	// Get returns the item, or nil and no error when there is none.
	Get(ctx context.Context) ([]byte, error)
	// Set replaces the item. It returns nil only when the item is known to be
	// stored, read back where the place cannot be trusted to say so.
	Set(ctx context.Context, item []byte) error
	// Delete removes the item; there being none is no error.
	Delete(ctx context.Context) error
	// Name says in one word where the item is kept, "keychain" for one.
	Name() string
}

// maxItem is the size every keychain takes: Windows holds 2,560 bytes and the
// macOS tool a command of 4,096 with the value in base64.
const maxItem = 2300

// volatile is a Store whose items end with the process, so that nothing
// about them may be promised to another one in the state file.
type volatile interface{ volatile() }

// memoryStore implements Store.
type memoryStore struct {
	mu   sync.Mutex
	item []byte
}

// MemoryStore returns a Store that forgets everything when the process ends:
// the person signs in again at every start, and nothing is ever written.
func MemoryStore() Store { //nolint:ireturn // A Store is what the caller chooses between; there is nothing more to see.
	return &memoryStore{}
}

func (m *memoryStore) Get(context.Context) ([]byte, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.item), nil
}

func (m *memoryStore) Set(_ context.Context, item []byte) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.item = slices.Clone(item)
	return nil
}

func (m *memoryStore) Delete(context.Context) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	clear(m.item)
	m.item = nil
	return nil
}

func (m *memoryStore) Name() string { return "memory" }
func (m *memoryStore) volatile()    {}
