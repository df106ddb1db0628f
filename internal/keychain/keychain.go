// Package keychain keeps one secret item in the operating system's keychain
// and can be relied on to answer.
//
// go-keyring, which it stands on, has no context and no time limit, can wait
// for a prompt that nobody sees, and on Linux reports success for an item that
// was never stored when the person dismissed that prompt. So every call here
// has a deadline, every write is read back, an item too large for one of the
// systems is refused on all of them, and Linux is asked first, without ever
// launching a session bus, whether there is an unlocked keyring at all.
package keychain

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/zalando/go-keyring"
)

// MaxSize is the largest item every supported keychain takes, in bytes.
// Windows stops at 2,560, and the macOS tool at a command of 4,096 with the
// value in base64.
const MaxSize = 2300

const (
	// quickLimit bounds a call that no person is looking at.
	quickLimit = 3 * time.Second
	// promptLimit bounds a call that may be showing a prompt.
	promptLimit = time.Minute
	// promptNeeds is the least a person needs to answer a prompt; whoever has
	// less time, as a watch in the background, shows none.
	promptNeeds = 10 * time.Second
	// retryAfter is how long a read that was given up on keeps others from
	// being tried.
	retryAfter = time.Minute
	maxLost    = 3
	// slowProbe is how long a probe may take before its refusal is remembered
	// for probeMemory, so that a deaf service does not slow down every call.
	slowProbe   = time.Second
	probeMemory = 10 * time.Second
)

// ErrUnavailable means that no keychain can be used here and now. The text
// around it says why, in words for the person.
var ErrUnavailable = errors.New("keychain: unavailable")

// ErrLocked means that the keychain is there and would ask the person for a
// password, for which the caller's deadline leaves no time.
var ErrLocked = fmt.Errorf("%w: it is locked; the desktop's password manager can unlock it", ErrUnavailable)

var errLost = fmt.Errorf("%w: it did not answer", ErrUnavailable)

// Item is one secret in the keychain. Its methods may be called from several
// goroutines at once, and return within three seconds, or, where the system
// may be asking the person for a password, when ctx ends. A locked keychain
// asks only when ctx leaves ten seconds or more; else they return ErrLocked.
type Item struct {
	service, user string
	ring          ring
	ready         func(ctx context.Context) (prompts bool, err error)

	mu      sync.Mutex
	lost    int       // calls that were given up on and have not returned
	writing int       // those of them that may still change the item
	lostAt  time.Time // when the latest was given up on
	deaf    error     // what a slow probe found
	deafAt  time.Time
}

// ring is what go-keyring offers, and what a test can make slow, deaf or
// untruthful.
type ring interface {
	Get(service, user string) (string, error)
	Set(service, user, secret string) error
	Delete(service, user string) error
}

type system struct{}

func (system) Get(service, user string) (string, error) { return keyring.Get(service, user) }
func (system) Set(service, user, secret string) error   { return keyring.Set(service, user, secret) }
func (system) Delete(service, user string) error        { return keyring.Delete(service, user) }

// New returns the item of user under service. It does not touch the keychain.
func New(service, user string) *Item {
	return &Item{service: service, user: user, ring: system{}, ready: ready}
}

// Probe reports whether a keychain can be used here without asking the
// person: nil, or an error that is ErrUnavailable and says why. It reads no
// item, launches nothing and returns within about two seconds.
func Probe(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, quickLimit)
	defer cancel()
	_, err := ready(ctx)
	return err
}

// Name returns "keychain".
func (i *Item) Name() string { return "keychain" }

// Get returns the secret, or nil and no error when there is none.
func (i *Item) Get(ctx context.Context) ([]byte, error) {
	var secret string
	err := i.call(ctx, "read the keychain", false, func() (err error) {
		secret, err = i.ring.Get(i.service, i.user)
		return err
	})
	if errors.Is(err, keyring.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	return []byte(secret), nil
}

// Set stores the secret and reads it back. An error means that the keychain
// may hold the old secret, the new one, or none.
func (i *Item) Set(ctx context.Context, secret []byte) error {
	if len(secret) > MaxSize {
		return fmt.Errorf("write to the keychain: the secret has %d bytes, and not every keychain holds more than %d", len(secret), MaxSize)
	}
	var back string
	err := i.call(ctx, "write to the keychain", true, func() error {
		if err := i.ring.Set(i.service, i.user, string(secret)); err != nil {
			return errRefused // The tool's own words may repeat what it was given.
		}
		var err error
		back, err = i.ring.Get(i.service, i.user)
		return err
	})
	if errors.Is(err, keyring.ErrNotFound) || err == nil && !bytes.Equal([]byte(back), secret) {
		return fmt.Errorf("write to the keychain: %w: it took the secret and did not keep it", ErrUnavailable)
	}
	return err
}

var errRefused = errors.New("it refused to store the secret")

// Delete removes the secret; there being none is no error.
func (i *Item) Delete(ctx context.Context) error {
	err := i.call(ctx, "delete from the keychain", true, func() error {
		return i.ring.Delete(i.service, i.user)
	})
	if errors.Is(err, keyring.ErrNotFound) {
		return nil
	}
	return err
}

// call runs f, for as long as there may be an answer. A call that is given up
// on cannot be stopped: its goroutine is left to end by itself, few of them at
// a time, and while one of them may still write, nothing else is tried, so
// that an old secret never lands on a new one.
func (i *Item) call(ctx context.Context, doing string, writes bool, f func() error) error {
	if err := i.free(); err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	limit, err := i.probe(ctx)
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	done := make(chan error, 1)
	var mu sync.Mutex
	left := false
	go func() {
		err := f()
		mu.Lock()
		defer mu.Unlock()
		done <- err
		if left {
			i.found(writes)
		}
	}()
	select {
	case err := <-done:
		return plain(doing, err)
	case <-ctx.Done():
	}
	mu.Lock()
	defer mu.Unlock()
	select {
	case err := <-done:
		return plain(doing, err)
	default:
	}
	left = true
	i.lose(writes)
	return fmt.Errorf("%s: %w", doing, errLost)
}

// probe returns how long a call may take, or why there is no point in one.
func (i *Item) probe(ctx context.Context) (time.Duration, error) {
	i.mu.Lock()
	deaf, fresh := i.deaf, time.Since(i.deafAt) < probeMemory
	i.mu.Unlock()
	if deaf != nil && fresh {
		return 0, deaf
	}
	start := time.Now()
	quick, cancel := context.WithTimeout(ctx, quickLimit)
	defer cancel()
	prompts, err := i.ready(quick)
	i.mu.Lock()
	i.deaf = nil
	if time.Since(start) > slowProbe {
		i.deaf, i.deafAt = err, time.Now()
	}
	i.mu.Unlock()
	if !prompts || err != nil {
		return quickLimit, err
	}
	if end, ok := ctx.Deadline(); ok && time.Until(end) < promptNeeds {
		return 0, ErrLocked
	}
	return promptLimit, nil
}

// free returns an error while calls that were given up on stand in the way.
func (i *Item) free() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.writing > 0 || i.lost >= maxLost || i.lost > 0 && time.Since(i.lostAt) < retryAfter {
		return errLost
	}
	return nil
}

func (i *Item) lose(writes bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lost++
	i.lostAt = time.Now()
	if writes {
		i.writing++
	}
}

func (i *Item) found(writes bool) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.lost--
	if writes {
		i.writing--
	}
}

// plain turns go-keyring's error into ours. None of them but ErrNotFound is
// typed, and all others mean that this keychain cannot be used.
func plain(doing string, err error) error {
	switch {
	case err == nil, errors.Is(err, keyring.ErrNotFound):
		return err
	case errors.Is(err, errRefused):
		return fmt.Errorf("%s: %w: %w", doing, ErrUnavailable, err)
	case errors.Is(err, keyring.ErrUnsupportedPlatform):
		return fmt.Errorf("%s: %w: this system has none", doing, ErrUnavailable)
	}
	text := strings.Join(strings.FieldsFunc(err.Error(), func(r rune) bool { return !unicode.IsPrint(r) }), " ")
	if len(text) > 200 {
		text = text[:200]
	}
	return fmt.Errorf("%s: %w: it says %q", doing, ErrUnavailable, text)
}
