package oauth

import (
	"context"
	"errors"
	"fmt"
)

// TakeFrom moves the sign-in from another store to the session's own, when the
// state file says that it is kept there: the person has chosen another store
// since. It reports whether it did. Unless the state file says so, neither
// store is asked. Call it before the session is used.
func (s *Session) TakeFrom(ctx context.Context, from Store) (moved bool, err error) {
	if st, _, err := readState(s.path("state.json")); err != nil || st.Backend != from.Name() || s.fleeting() {
		return false, nil
	}
	ctx, cancel := context.WithTimeout(ctx, 3*storeLimit)
	defer cancel()
	unlock, err := lock(ctx, s.path("refresh.lock"))
	if err != nil {
		return false, fmt.Errorf("move the sign-in: %w", err)
	}
	defer unlock()
	st, _, err := readState(s.path("state.json"))
	if err != nil || st.Backend != from.Name() {
		return false, err // another process has moved it
	}
	moved, err = Migrate(ctx, from, s.cfg.Store)
	if !moved {
		return false, err
	}
	st.Backend = s.cfg.Store.Name()
	return true, errors.Join(err, writeState(s.path("state.json"), st))
}
