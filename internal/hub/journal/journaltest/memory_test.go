package journaltest_test

import (
	"sync"
	"testing"

	"bellman.sh/desktop/internal/hub/journal"
	"bellman.sh/desktop/internal/hub/journal/journaltest"
)

// The plainest engine passes the suite, so the suite asks for nothing that
// only SQLite has.
func TestMemory(t *testing.T) {
	var states sync.Map
	journaltest.Run(t, func(tb testing.TB, name string) (journal.Journal, func()) {
		tb.Helper()
		state, _ := states.LoadOrStore(tb.Name()+name, &journaltest.Memory{})
		m, ok := state.(*journaltest.Memory)
		if !ok {
			tb.Fatalf("state is a %T", state)
		}
		return m, func() {}
	})
}
