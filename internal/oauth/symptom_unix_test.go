//go:build unix

package oauth_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"bellman.sh/desktop/internal/oauth"
)

// A process that is stopped in the middle of a sign-in, as by a laptop that
// sleeps, keeps its turn however long that lasts: its age is no reason to open
// a second tab.
func TestASignInThatSleepsIsNotPushedAside(t *testing.T) {
	r := newRig(t)
	r.store = oauth.FileStore(oauth.CredentialFile(r.dir, r.as.Resource()))
	cmd, link := r.signInElsewhere(t)
	defer kill(t, cmd)
	if err := cmd.Process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	// What a rule of staleness would judge by says that it is long over.
	dir := filepath.Dir(oauth.CredentialFile(r.dir, r.as.Resource()))
	for _, name := range []string{"signin.lock", "signin.json"} {
		if err := os.Chtimes(filepath.Join(dir, name), time.Time{}, time.Now().Add(-48*time.Hour)); err != nil {
			t.Fatal(err)
		}
	}
	a := r.begun(t, r.open(t))
	waiting, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if err := a.Wait(waiting); err == nil || waiting.Err() == nil {
		t.Errorf("Wait: %v, want the sleeper's sign-in to go on", err)
	}
	if a.Link() != link || len(r.browser.Opened()) != 0 {
		t.Errorf("link %q, browsers %d; want the sleeper's %q and none", a.Link(), len(r.browser.Opened()), link)
	}
	if err := cmd.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	r.finishes(t, a)
}

// A disk that is full when the credential is written leaves the one that was
// there, and no half of the other.
func TestAFullDiskKeepsTheOldCredential(t *testing.T) {
	path := filepath.Join(t.TempDir(), "credential.json")
	if err := oauth.FileStore(path).Set(t.Context(), []byte("the old one")); err != nil {
		t.Fatal(err)
	}
	out, err := command(t, child{Do: "write", Dir: path}).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "write "+path) {
		t.Errorf("the write that cannot fit: %v, %s", err, out)
	}
	if got, err := oauth.FileStore(path).Get(t.Context()); err != nil || string(got) != "the old one" {
		t.Errorf("afterwards: %q, %v", got, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("left behind: %v, %v", entries, err)
	}
}

// writeWithoutRoom writes more than this process may put into a file.
func writeWithoutRoom(path string) error {
	if err := syscall.Setrlimit(syscall.RLIMIT_FSIZE, &syscall.Rlimit{Cur: 100, Max: 100}); err != nil {
		return err
	}
	return oauth.FileStore(path).Set(context.Background(), []byte(strings.Repeat("x", 4096)))
}
