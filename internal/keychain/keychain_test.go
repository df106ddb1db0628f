package keychain_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/zalando/go-keyring"

	"bellman.sh/desktop/internal/keychain"
)

// fakeRing is a keychain in memory that can block, fail, or lose what it was
// given.
type fakeRing struct {
	mu     sync.Mutex
	item   string
	have   bool
	calls  int
	lossy  bool
	block  chan struct{}
	reject error
}

func (f *fakeRing) wait() error {
	f.mu.Lock()
	f.calls++
	block, reject := f.block, f.reject
	f.mu.Unlock()
	if block != nil {
		<-block
	}
	return reject
}

func (f *fakeRing) answer(block chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.block = block
}

func (f *fakeRing) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.calls
}

func (f *fakeRing) Get(_, _ string) (string, error) {
	if err := f.wait(); err != nil {
		return "", err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.have {
		return "", keyring.ErrNotFound
	}
	return f.item, nil
}

func (f *fakeRing) Set(_, _, secret string) error {
	if err := f.wait(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lossy {
		f.item, f.have = secret, true
	}
	return nil
}

func (f *fakeRing) Delete(_, _ string) error {
	if err := f.wait(); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.have {
		return keyring.ErrNotFound
	}
	f.item, f.have = "", false
	return nil
}

// What is stored comes back, and what is not there is no error.
func TestItem(t *testing.T) {
	i := keychain.NewOn(&fakeRing{}, false)
	if got, err := i.Get(t.Context()); got != nil || err != nil {
		t.Errorf("Get of nothing: %q, %v", got, err)
	}
	if err := i.Delete(t.Context()); err != nil {
		t.Errorf("Delete of nothing: %v", err)
	}
	if err := i.Set(t.Context(), []byte("a secret")); err != nil {
		t.Fatalf("Set: %v", err)
	}
	if got, err := i.Get(t.Context()); string(got) != "a secret" || err != nil {
		t.Errorf("Get: %q, %v", got, err)
	}
	if err := i.Delete(t.Context()); err != nil {
		t.Errorf("Delete: %v", err)
	}
	if got, _ := i.Get(t.Context()); got != nil {
		t.Errorf("Get after Delete: %q", got)
	}
}

// otdfctl#381: an item too large for Windows is refused everywhere, before
// the keychain sees it.
func TestSizeLimit(t *testing.T) {
	f := &fakeRing{}
	i := keychain.NewOn(f, false)
	if err := i.Set(t.Context(), bytes.Repeat([]byte("x"), keychain.MaxSize)); err != nil {
		t.Errorf("Set of %d bytes: %v", keychain.MaxSize, err)
	}
	before := f.count()
	for _, n := range []int{keychain.MaxSize + 1, 2560, 4000} {
		if err := i.Set(t.Context(), bytes.Repeat([]byte("x"), n)); err == nil {
			t.Errorf("Set of %d bytes succeeded", n)
		}
	}
	if f.count() != before {
		t.Error("a secret that is too large reached the keychain")
	}
}

// A dismissed prompt makes go-keyring report success for nothing: the
// read-back does not believe it.
func TestLostWriteIsNoticed(t *testing.T) {
	i := keychain.NewOn(&fakeRing{lossy: true}, false)
	if err := i.Set(t.Context(), []byte("x")); !errors.Is(err, keychain.ErrUnavailable) {
		t.Errorf("Set that stored nothing: %v, want ErrUnavailable", err)
	}
	i = keychain.NewOn(&fakeRing{lossy: true, item: "old", have: true}, false)
	if err := i.Set(t.Context(), []byte("new")); !errors.Is(err, keychain.ErrUnavailable) {
		t.Errorf("Set that kept the old secret: %v, want ErrUnavailable", err)
	}
}

// A refusal never repeats the secret, whatever the tool under it prints.
func TestErrorsHoldNoSecret(t *testing.T) {
	f := &fakeRing{reject: errors.New("cannot run: add-generic-password -w hunter2\x1b[31m")}
	i := keychain.NewOn(f, false)
	err := i.Set(t.Context(), []byte("hunter2"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("Set: %v", err)
	}
	if _, err := i.Get(t.Context()); err == nil || strings.Contains(err.Error(), "\x1b") || !errors.Is(err, keychain.ErrUnavailable) {
		t.Errorf("Get: %q", err)
	}
}

// gogcli#513: a keychain that never answers is given up on within three
// seconds, and no second call is stuck behind the first.
func TestSilentKeychain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRing{block: make(chan struct{})}
		i := keychain.NewOn(f, false)
		start := time.Now()
		for range 5 {
			if _, err := i.Get(t.Context()); !errors.Is(err, keychain.ErrUnavailable) {
				t.Errorf("Get: %v, want ErrUnavailable", err)
			}
		}
		if d := time.Since(start); d > 3*time.Second {
			t.Errorf("five calls took %v, want 3s for the first and nothing for the others", d)
		}
		if n := f.count(); n != 1 {
			t.Errorf("calls that reached the keychain: %d, want 1", n)
		}
		// It is tried again after a minute, but never by a crowd.
		for range 10 {
			time.Sleep(time.Minute)
			_, _ = i.Get(t.Context())
		}
		if n := f.count(); n > 3 {
			t.Errorf("calls stuck in the keychain: %d, want at most 3", n)
		}
		close(f.block)
		synctest.Wait()
		f.answer(nil)
		if _, err := i.Get(t.Context()); err != nil {
			t.Errorf("Get once the keychain answers again: %v", err)
		}
	})
}

// A write that was given up on may still land; until it has, no other is
// tried, or an old secret could replace a newer one.
func TestLateWriteBlocksOthers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRing{block: make(chan struct{})}
		i := keychain.NewOn(f, false)
		if err := i.Set(t.Context(), []byte("old")); !errors.Is(err, keychain.ErrUnavailable) {
			t.Fatalf("Set: %v, want ErrUnavailable", err)
		}
		time.Sleep(time.Hour)
		if err := i.Set(t.Context(), []byte("new")); !errors.Is(err, keychain.ErrUnavailable) {
			t.Errorf("Set beside a late one: %v, want ErrUnavailable", err)
		}
		close(f.block)
		synctest.Wait()
		f.answer(nil)
		if err := i.Set(t.Context(), []byte("new")); err != nil {
			t.Fatal(err)
		}
		if got, _ := i.Get(t.Context()); string(got) != "new" {
			t.Errorf("Get: %q, want the newer secret", got)
		}
	})
}

// Where the system may be asking the person for a password, the caller's own
// deadline counts.
func TestPromptMayTakeItsTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRing{block: make(chan struct{}), item: "x", have: true}
		i := keychain.NewOn(f, true)
		time.AfterFunc(20*time.Second, func() { close(f.block) })
		ctx, cancel := context.WithTimeout(t.Context(), 45*time.Second)
		defer cancel()
		if got, err := i.Get(ctx); string(got) != "x" || err != nil {
			t.Errorf("Get with a prompt of 20 s: %q, %v", got, err)
		}
		block := make(chan struct{})
		f.answer(block)
		patient, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		if _, err := i.Get(patient); !errors.Is(err, keychain.ErrUnavailable) || errors.Is(err, keychain.ErrLocked) {
			t.Errorf("Get whose prompt nobody answers: %v, want ErrUnavailable", err)
		}
		close(block)
		synctest.Wait()
	})
}

// A prompt that nobody could answer in time is not shown: the watch in the
// background asks for a token at every attempt, and must not ask the person.
func TestNoPromptWithoutTheTimeToAnswerIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := &fakeRing{item: "x", have: true}
		i := keychain.NewOn(f, true)
		short, cancel := context.WithTimeout(t.Context(), 3*time.Second)
		defer cancel()
		if got, err := i.Get(short); got != nil || !errors.Is(err, keychain.ErrLocked) || !errors.Is(err, keychain.ErrUnavailable) {
			t.Errorf("Get with a short deadline: %q, %v; want ErrLocked", got, err)
		}
		if err := i.Set(short, []byte("y")); !errors.Is(err, keychain.ErrLocked) || f.item != "x" {
			t.Errorf("Set with a short deadline: %v; want ErrLocked", err)
		}
		if n := f.count(); n != 0 {
			t.Errorf("the keychain was asked %d times", n)
		}
	})
}
