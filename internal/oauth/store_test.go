//go:build unix

package oauth_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
)

// The credential file and its directory are the person's alone, whatever they
// were before.
func TestCredentialFileIsClosed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(dir, "credential.json")
	if err := os.WriteFile(path, []byte("old"), 0o644); err != nil {
		t.Fatal(err)
	}
	f := oauth.FileStore(path)
	if _, err := f.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 600") {
		t.Errorf("Get of a file that others can read: %v", err)
	}
	if err := f.Set(t.Context(), []byte("new")); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]os.FileMode{path: 0o600, dir: 0o700} {
		if info, err := os.Stat(name); err != nil || info.Mode().Perm() != want {
			t.Errorf("%s: mode %v, want %v", name, info.Mode().Perm(), want)
		}
	}
	if err := os.Chmod(dir, 0o777); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Get(t.Context()); err == nil || !strings.Contains(err.Error(), "chmod 700") {
		t.Errorf("Get from a directory that others can write to: %v", err)
	}
}

// A link in the file's or the directory's place is not followed, and a pipe is
// not waited for.
func TestCredentialFileIsNoLink(t *testing.T) {
	dir := t.TempDir()
	target := filepath.Join(dir, "target")
	if err := os.WriteFile(target, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	link := filepath.Join(dir, "link")
	if err := os.Symlink(target, link); err != nil {
		t.Fatal(err)
	}
	f := oauth.FileStore(link)
	if got, err := f.Get(t.Context()); err == nil {
		t.Errorf("Get through a link: %q", got)
	}
	if err := f.Set(t.Context(), []byte("mine")); err != nil {
		t.Fatal(err)
	}
	if b, _ := os.ReadFile(target); string(b) != "secret" {
		t.Errorf("Set wrote through the link: %q", b)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	if got, err := oauth.FileStore(pipe).Get(t.Context()); err == nil {
		t.Errorf("Get from a pipe: %q", got)
	}
	real := filepath.Join(dir, "real")
	if err := os.Mkdir(real, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(real, filepath.Join(dir, "dir")); err != nil {
		t.Fatal(err)
	}
	if err := oauth.FileStore(filepath.Join(dir, "dir", "c.json")).Set(t.Context(), []byte("x")); err == nil {
		t.Error("Set in a directory that is a link succeeded")
	}
}

// A write that fails leaves what was there, and no temporary file.
func TestFailedWriteLeavesNothingBehind(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "credential.json")
	if err := os.MkdirAll(filepath.Join(path, "in the way"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := oauth.FileStore(path).Set(t.Context(), []byte("x")); err == nil {
		t.Fatal("Set onto a directory succeeded")
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, err %v", entries, err)
	}
}

// Another store gets the item before the first one loses it, and what it
// already holds is never replaced by what is older.
func TestMigrate(t *testing.T) {
	dir := t.TempDir()
	from, to := oauth.FileStore(filepath.Join(dir, "a")), oauth.FileStore(filepath.Join(dir, "b"))
	if moved, err := oauth.Migrate(t.Context(), from, to); moved || err != nil {
		t.Errorf("Migrate of nothing: %v, %v", moved, err)
	}
	for i, want := range []string{"first", "first"} {
		if err := from.Set(t.Context(), []byte([]string{"first", "second"}[i])); err != nil {
			t.Fatal(err)
		}
		if moved, err := oauth.Migrate(t.Context(), from, to); !moved || err != nil {
			t.Errorf("Migrate: %v, %v", moved, err)
		}
		if got, _ := to.Get(t.Context()); string(got) != want {
			t.Errorf("moved to: %q, want %q", got, want)
		}
		if got, _ := from.Get(t.Context()); got != nil {
			t.Errorf("left behind: %q", got)
		}
	}
}

// A keychain that is locked asks the person only when they have the time to
// answer, and so for a call that signs in and never for the watch; once it is
// open the sign-in it holds is used, and nobody is sent to a browser.
func TestALockedKeychainIsOpenedBySigningInAlone(t *testing.T) {
	r := newRig(t)
	r.signIn(t, r.open(t))
	locked := &lockedStore{sharedStore: r.store.(*sharedStore)}
	s := r.open(t, func(c *oauth.Config) { c.Store = locked })
	changed := s.Changed()
	for range 3 {
		if _, err := s.Token(t.Context()); !errors.Is(err, errLocked) {
			t.Fatalf("Token: %v, want the store's error", err)
		}
	}
	if locked.prompts != 0 {
		t.Errorf("%d prompts for a token in the background", locked.prompts)
	}
	r.signIn(t, s)
	if n := len(r.browser.Opened()); n != 1 || locked.prompts != 1 {
		t.Errorf("%d browsers and %d prompts, want the first sign-in's browser and one prompt", n, locked.prompts)
	}
	mustToken(t, s)
	select {
	case <-changed:
	case <-time.After(10 * time.Second):
		t.Error("nobody who waited for a sign-in was told")
	}
}

var errLocked = errors.New("locked")

// lockedStore opens for whoever has the time for a prompt.
type lockedStore struct {
	*sharedStore

	open    bool
	prompts int
}

func (l *lockedStore) Get(ctx context.Context) ([]byte, error) {
	if end, bounded := ctx.Deadline(); !l.open && bounded && time.Until(end) < 10*time.Second {
		return nil, errLocked
	}
	if !l.open {
		l.open = true
		l.prompts++
	}
	return l.sharedStore.Get(ctx)
}
