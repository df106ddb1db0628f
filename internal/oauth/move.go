package oauth

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	moved, err = migrate(ctx, from, s.cfg.Store)
	if !moved {
		return false, err
	}
	st.Backend = s.cfg.Store.Name()
	return true, errors.Join(err, writeState(s.path("state.json"), st))
}

// migrate moves the item of one store to another: it writes, reads back, and
// deletes the old one last, so that there is never none and never for long
// two. It reports whether there was an item to move. An item that to already
// holds stays, and from's is deleted.
func migrate(ctx context.Context, from, to Store) (bool, error) {
	old, err := from.Get(ctx)
	if err != nil {
		return false, fmt.Errorf("read the sign-in in the %s: %w", from.Name(), err)
	}
	if old == nil {
		return false, nil
	}
	have, err := to.Get(ctx)
	if err != nil {
		return false, fmt.Errorf("read the sign-in in the %s: %w", to.Name(), err)
	}
	if have == nil {
		if err := to.Set(ctx, old); err != nil {
			return false, fmt.Errorf("write the sign-in to the %s: %w", to.Name(), err)
		}
		back, err := to.Get(ctx)
		if err != nil {
			return false, fmt.Errorf("read the sign-in back from the %s: %w", to.Name(), err)
		}
		if !slices.Equal(back, old) {
			return false, fmt.Errorf("the %s did not keep the sign-in as it was written", to.Name())
		}
	}
	if err := from.Delete(ctx); err != nil {
		return true, fmt.Errorf("delete the sign-in in the %s: %w", from.Name(), err)
	}
	return true, nil
}
