package keychain_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"

	"bellman.sh/desktop/internal/keychain"
)

// The states of a Linux session are real here: each test has a session bus of
// its own, a fresh home, gnome-keyring where the state has one, and the item
// is used from a process of its own, as go-keyring keeps one connection a
// process. Without the tools the tests skip, which CI forbids by setting
// BELLMAN_REAL_KEYRING.

// report is what one child process found.
type report struct {
	Probe, Get, Set, Back, Delete string // errors; Back is what was read
	Seconds                       float64
}

func TestMain(m *testing.M) {
	if os.Getenv("KEYCHAIN_CHILD") == "" {
		os.Exit(m.Run())
	}
	say := func(err error) string {
		switch {
		case err == nil:
			return ""
		case !errors.Is(err, keychain.ErrUnavailable):
			return "UNTYPED " + err.Error()
		}
		return err.Error()
	}
	ctx := context.Background()
	i := keychain.New("bellman-test", os.Getenv("KEYCHAIN_CHILD"))
	start := time.Now()
	var r report
	r.Probe = say(keychain.Probe(ctx))
	_, err := i.Get(ctx)
	r.Get = say(err)
	if item := os.Getenv("KEYCHAIN_SECRET"); item != "" {
		r.Set = say(i.Set(ctx, []byte(item)))
	}
	r.Seconds = time.Since(start).Seconds()
	back, _ := i.Get(ctx)
	r.Back = string(back)
	_ = json.NewEncoder(os.Stderr).Encode(r)
}

func TestStateNoBus(t *testing.T) {
	need(t)
	fake := t.TempDir()
	marker := filepath.Join(fake, "launched")
	script := fmt.Sprintf("#!/bin/sh\ntouch %s\necho DBUS_SESSION_BUS_ADDRESS=unix:path=/nowhere\n", marker)
	if err := os.WriteFile(filepath.Join(fake, "dbus-launch"), []byte(script), 0o755); err != nil {
		t.Fatal(err)
	}
	s := &session{env: []string{"HOME=" + t.TempDir(), "PATH=" + fake + ":" + os.Getenv("PATH")}}
	r := s.use(t, "u", "x")
	refused(t, r, "no D-Bus")
	if r.Probe == "" {
		t.Error("Probe finds a keychain")
	}
	if _, err := os.Stat(marker); err == nil {
		t.Error("a session bus was launched")
	}
}

func TestStateNoKeyring(t *testing.T) {
	r := start(t, t.TempDir()).use(t, "u", "x")
	refused(t, r, "no keyring has been created yet")
	if r.Probe == "" {
		t.Error("Probe finds a keychain")
	}
}

func TestStateUnlockedThenRestartedThenLocked(t *testing.T) {
	home := t.TempDir()
	s := start(t, home)
	stop := s.unlock(t, "correct horse")
	if r := s.use(t, "u", "kept"); r.Probe != "" || r.Get != "" || r.Set != "" || r.Back != "kept" {
		t.Fatalf("unlocked: %+v", r)
	}
	stop()
	t.Run("restarted with the same password", func(t *testing.T) {
		s := start(t, home)
		defer s.unlock(t, "correct horse")()
		if r := s.use(t, "u", "kept"); r.Get != "" || r.Back != "kept" {
			t.Errorf("after a restart: %+v", r)
		}
	})
	t.Run("locked", func(t *testing.T) {
		s := start(t, home)
		r := s.use(t, "u", "x")
		refused(t, r, "locked")
		if r.Probe == "" {
			t.Error("Probe finds a keychain")
		}
	})
	t.Run("wrong password", func(t *testing.T) {
		s := start(t, home)
		defer s.unlock(t, "battery staple")()
		refused(t, s.use(t, "u", "x"), "locked")
	})
	t.Run("not lost by any of it", func(t *testing.T) {
		s := start(t, home)
		defer s.unlock(t, "correct horse")()
		if r := s.use(t, "read", ""); r.Get != "" {
			t.Errorf("read: %+v", r)
		}
		if r := s.use(t, "u", "kept"); r.Back != "kept" {
			t.Errorf("after all: %+v", r)
		}
	})
}

func TestStateUnwritableHome(t *testing.T) {
	s := start(t, t.TempDir())
	// Root may write anywhere but here.
	s.env = append(s.env, "HOME=/proc/self", "XDG_DATA_HOME=/proc/self/none")
	defer s.unlock(t, "pw")()
	r := s.use(t, "u", "x")
	if r.Set == "" || strings.HasPrefix(r.Set, "UNTYPED") || r.Seconds > 10 {
		t.Errorf("unwritable home: %+v", r)
	}
}

// deaf owns the service's name and never answers a call.
type deaf struct{ until chan struct{} }

func (d deaf) LookupObject(dbus.ObjectPath) (dbus.ServerObject, bool) { //nolint:ireturn // What dbus.Handler asks for.
	<-d.until
	return nil, false
}

func TestStateServiceNeverAnswers(t *testing.T) {
	s := start(t, t.TempDir())
	d := deaf{until: make(chan struct{})}
	defer close(d.until)
	conn := s.connect(t, dbus.WithHandler(d))
	if _, err := conn.RequestName("org.freedesktop.secrets", 0); err != nil {
		t.Fatal(err)
	}
	r := s.use(t, "u", "x")
	refused(t, r, "does not answer")
	if r.Probe == "" {
		t.Error("Probe finds a keychain")
	}
}

// dismissing is a service whose every prompt the person has waved away.
type dismissing struct{ conn *dbus.Conn }

const (
	loginPath  = dbus.ObjectPath("/org/freedesktop/secrets/collection/login")
	promptPath = dbus.ObjectPath("/org/freedesktop/secrets/prompt/p1")
)

// Get answers the three properties that are asked for.
func (d dismissing) Get(_, name string) (dbus.Variant, *dbus.Error) {
	switch name {
	case "Collections":
		return dbus.MakeVariant([]dbus.ObjectPath{loginPath}), nil
	case "Locked":
		return dbus.MakeVariant(false), nil
	}
	return dbus.Variant{}, dbus.NewError("org.freedesktop.DBus.Error.UnknownProperty", nil)
}

func (d dismissing) OpenSession(string, dbus.Variant) (dbus.Variant, dbus.ObjectPath, *dbus.Error) {
	return dbus.MakeVariant(""), "/org/freedesktop/secrets/session/s1", nil
}

func (d dismissing) Close() *dbus.Error { return nil }

func (d dismissing) Unlock(paths []dbus.ObjectPath) ([]dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	return paths, "/", nil
}

func (d dismissing) SearchItems(map[string]string) ([]dbus.ObjectPath, *dbus.Error) {
	return nil, nil
}

type secret struct {
	Session           dbus.ObjectPath
	Parameters, Value []byte
	ContentType       string
}

func (d dismissing) CreateItem(map[string]dbus.Variant, secret, bool) (dbus.ObjectPath, dbus.ObjectPath, *dbus.Error) {
	return "/", promptPath, nil
}

func (d dismissing) Prompt(string) *dbus.Error {
	go func() {
		_ = d.conn.Emit(promptPath, "org.freedesktop.Secret.Prompt.Completed", true, dbus.MakeVariant(""))
	}()
	return nil
}

func TestStatePromptDismissed(t *testing.T) {
	s := start(t, t.TempDir())
	conn := s.connect(t)
	d := dismissing{conn: conn}
	for path, ifaces := range map[dbus.ObjectPath][]string{
		"/org/freedesktop/secrets":            {"org.freedesktop.DBus.Properties", "org.freedesktop.Secret.Service"},
		loginPath:                             {"org.freedesktop.DBus.Properties", "org.freedesktop.Secret.Collection"},
		promptPath:                            {"org.freedesktop.Secret.Prompt"},
		"/org/freedesktop/secrets/session/s1": {"org.freedesktop.Secret.Session"},
	} {
		for _, iface := range ifaces {
			if err := conn.Export(d, path, iface); err != nil {
				t.Fatal(err)
			}
		}
	}
	if _, err := conn.RequestName("org.freedesktop.secrets", 0); err != nil {
		t.Fatal(err)
	}
	r := s.use(t, "u", "x")
	if !strings.Contains(r.Set, "did not keep it") || r.Back != "" {
		t.Errorf("Set whose prompt was dismissed: %+v", r)
	}
}

// Eight processes on one item: no error, and every value read is one that was
// written, whole.
func TestStateUnlockedManyProcesses(t *testing.T) {
	s := start(t, t.TempDir())
	defer s.unlock(t, "pw")()
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			r := s.use(t, "u", strings.Repeat(fmt.Sprint(n), 2000))
			lost := strings.Contains(r.Set, "did not keep it") // Another one wrote between the write and the read-back.
			if r.Get != "" || r.Set != "" && !lost || len(r.Back) != 2000 || strings.Trim(r.Back, r.Back[:1]) != "" {
				t.Errorf("process %d: get %q, set %q, read %d bytes", n, r.Get, r.Set, len(r.Back))
			}
		})
	}
	wg.Wait()
}

// BenchmarkFirstRead is what a signed-in start pays for its token: a process of
// its own asks a real, unlocked Secret Service whether it can be used, and
// reads an item of the usual size.
func BenchmarkFirstRead(b *testing.B) {
	s := start(b, b.TempDir())
	defer s.unlock(b, "pw")()
	item := strings.Repeat("x", 1100)
	if r := s.use(b, "u", item); r.Set != "" {
		b.Fatalf("write the item: %s", r.Set)
	}
	var took []float64
	for b.Loop() {
		r := s.use(b, "u", "")
		if r.Probe != "" || r.Get != "" || r.Back != item {
			b.Fatalf("read the item: %+v", r)
		}
		took = append(took, r.Seconds)
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2]*1e9, "ns/op")
}
