package main

import "context"

// late is a value that is made in the background, so that the host is answered
// before it is there.
type late[T any] struct {
	done  chan struct{}
	value T
	err   error
}

// begin starts f, which must end by itself or with the ctx it holds.
func begin[T any](f func() (T, error)) *late[T] {
	l := &late[T]{done: make(chan struct{})}
	go func() {
		defer close(l.done)
		l.value, l.err = f()
	}()
	return l
}

// get waits for the value as long as ctx lasts.
func (l *late[T]) get(ctx context.Context) (T, error) {
	select {
	case <-l.done:
		return l.value, l.err
	case <-ctx.Done():
		var none T
		return none, ctx.Err()
	}
}
