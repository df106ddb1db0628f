package room_test

import (
	"context"
	"sync"

	"bellman.sh/desktop/internal/remote"
)

// tokens are a credential that can be taken away and given back.
type tokens struct {
	mu    sync.Mutex
	token string
	asked int
}

func (t *tokens) set(token string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.token = token
}

func (t *tokens) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.asked
}

// Token implements remote.Tokens.
func (t *tokens) Token(context.Context) (string, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.asked++
	if t.token == "" {
		return "", remote.ErrSignInNeeded
	}
	return t.token, nil
}

// Replace implements remote.Tokens.
func (t *tokens) Replace(ctx context.Context, refused string) (string, error) {
	token, err := t.Token(ctx)
	if err == nil && token == refused {
		return "", remote.ErrSignInNeeded
	}
	return token, err
}

// renewing are tokens of which the next replaces a refused one.
type renewing struct {
	tokens
	next  string
	count int
}

// Replace implements remote.Tokens.
func (r *renewing) Replace(context.Context, string) (string, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count++
	r.token = r.next
	return r.token, nil
}

func (r *renewing) renewals() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}
