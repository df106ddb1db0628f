package keychain_test

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/godbus/dbus/v5"
)

// session is a desktop session without the desktop.
type session struct {
	home, address string
	env           []string
}

func need(tb testing.TB, tools ...string) {
	tb.Helper()
	if runtime.GOOS != "linux" {
		tb.Skip("only Linux has a Secret Service")
	}
	for _, tool := range tools {
		if _, err := exec.LookPath(tool); err != nil {
			if os.Getenv("BELLMAN_REAL_KEYRING") != "" {
				tb.Fatalf("%s is not installed, and BELLMAN_REAL_KEYRING is set", tool)
			}
			tb.Skipf("LOUD: %s is not installed; the real Secret Service is NOT tested", tool)
		}
	}
}

// start runs a session bus on home until the test ends.
func start(tb testing.TB, home string) *session {
	tb.Helper()
	need(tb, "dbus-daemon", "gnome-keyring-daemon")
	run, err := os.MkdirTemp("", "bus") //nolint:usetesting // A socket's path must be short, and tb.TempDir's is not.
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = os.RemoveAll(run) })
	s := &session{home: home}
	s.env = []string{"HOME=" + home, "XDG_RUNTIME_DIR=" + run, "PATH=" + os.Getenv("PATH"), "GNOME_KEYRING_TEST_PATH=", "LANG=C"}
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--print-address=1", "--address=unix:dir="+run)
	cmd.Env = s.env
	out, err := cmd.StdoutPipe()
	if err != nil {
		tb.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		tb.Fatalf("bus address: %v", err)
	}
	s.address = strings.TrimSpace(line)
	s.env = append(s.env, "DBUS_SESSION_BUS_ADDRESS="+s.address)
	return s
}

// unlock starts gnome-keyring with a password, as a login does.
func (s *session) unlock(tb testing.TB, password string) (stop func()) {
	tb.Helper()
	cmd := exec.Command("gnome-keyring-daemon", "--unlock", "--foreground", "--components=secrets")
	cmd.Env = s.env
	cmd.Stdin = strings.NewReader(password + "\n")
	if err := cmd.Start(); err != nil {
		tb.Fatal(err)
	}
	stop = sync.OnceFunc(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	tb.Cleanup(stop)
	conn := s.connect(tb)
	for end := time.Now().Add(10 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var owned bool
		if err := conn.BusObject().Call("org.freedesktop.DBus.NameHasOwner", 0, "org.freedesktop.secrets").Store(&owned); err == nil && owned {
			return stop
		}
	}
	tb.Fatal("gnome-keyring did not come up")
	return stop
}

func (s *session) connect(tb testing.TB, opts ...dbus.ConnOption) *dbus.Conn {
	tb.Helper()
	conn, err := dbus.Connect(s.address, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = conn.Close() })
	return conn
}

// use runs the item in a process of its own.
func (s *session) use(tb testing.TB, user, secret string) report {
	tb.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(slices.Clone(s.env), "KEYCHAIN_CHILD="+user, "KEYCHAIN_SECRET="+secret)
	var out strings.Builder
	cmd.Stderr = &out
	if err := cmd.Run(); err != nil {
		tb.Fatalf("child: %v, %s", err, out.String())
	}
	var r report
	if err := json.Unmarshal([]byte(out.String()), &r); err != nil {
		tb.Fatalf("child said %q", out.String())
	}
	return r
}

// refused checks that everything was refused, soon, in these words.
func refused(t *testing.T, r report, words string) {
	t.Helper()
	for op, err := range map[string]string{"Get": r.Get, "Set": r.Set} {
		if !strings.Contains(err, words) || strings.HasPrefix(err, "UNTYPED") {
			t.Errorf("%s: error %q, want one that says %q", op, err, words)
		}
	}
	if r.Seconds > 10 { // Three calls, each within five seconds.
		t.Errorf("it took %.1f s", r.Seconds)
	}
	if r.Back != "" {
		t.Errorf("something was stored: %q", r.Back)
	}
}
