//go:build unix

package room_test

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/remote"
)

// child is a bridge in a process of its own.
type child struct {
	*os.Process
	in  io.Writer
	out *bufio.Reader
}

// spawn runs a bridge in a process of its own on the profile in dir.
func spawn(tb testing.TB, server, dir string, change ...func(*exec.Cmd)) *child {
	tb.Helper()
	exe, err := os.Executable()
	if err != nil {
		tb.Fatal(err)
	}
	cmd := exec.CommandContext(tb.Context(), exe, server)
	cmd.Env = append(os.Environ(), childVar+"="+dir)
	for _, f := range change {
		f(cmd)
	}
	in, errIn := cmd.StdinPipe()
	out, errOut := cmd.StdoutPipe()
	if err := errors.Join(errIn, errOut, cmd.Start()); err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		_ = in.Close()
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	return &child{cmd.Process, in, bufio.NewReader(out)}
}

func (s *service) spawn(tb testing.TB, dir string) *child {
	tb.Helper()
	return spawn(tb, "http://"+s.Addr().String()+"/mcp", dir)
}

// A killed holder is replaced at once, by the bridge that shares its profile
// (failure table: two bridges, one profile; case 145).
func TestAKilledHolderIsReplaced(t *testing.T) {
	t.Parallel()
	s := startService(t)
	ours, peer := s.pair(t)
	dir := t.TempDir()
	b := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse))
	b.join(t, ours)
	holder := s.spawn(t, dir)
	b.eventually(t, "the other process watches", func() bool { return s.opens.Load() == 1 })
	b.start(t)
	peer.Say(t, "one")
	b.take(t, 2)
	if n := s.opens.Load(); n != 1 {
		t.Errorf("%d sockets for one room of one profile", n)
	}
	if err := holder.Kill(); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	peer.Say(t, "two")
	if diff := cmp.Diff([]string{"two"}, texts(t, b.take(t, 1))); diff != "" {
		t.Error(diff)
	}
	t.Logf("taken over after %v", time.Since(began).Round(10*time.Millisecond))
}

// A holder that is stopped past its lease is replaced, and what it does when it
// wakes has no effect: each event comes once, and its socket goes, also when
// nothing was said meanwhile that would have told it (failure table: a bridge
// stopped past its lease, then woken).
func TestAStoppedHolderIsReplacedAndDoublesNothing(t *testing.T) {
	t.Parallel()
	for _, events := range []int{10, 0} {
		t.Run(fmt.Sprint(events, " events meanwhile"), func(t *testing.T) {
			t.Parallel()
			s := startService(t)
			ours, peer := s.pair(t)
			dir := t.TempDir()
			b := s.bridgeOf(t, dir, remote.Key(hubtest.Jesse))
			b.join(t, ours)
			holder := s.spawn(t, dir)
			b.eventually(t, "the other process watches", func() bool { return s.opens.Load() == 1 })
			b.start(t)
			b.take(t, 1)
			if err := holder.Signal(syscall.SIGSTOP); err != nil {
				t.Fatal(err)
			}
			want := []string{}
			for i := range events {
				peer.Say(t, fmt.Sprint("stopped ", i))
				want = append(want, fmt.Sprint("stopped ", i))
			}
			b.eventually(t, "the room is taken over", func() bool { return s.opens.Load() == 2 })
			if diff := cmp.Diff(want, texts(t, b.take(t, events)), cmpopts.EquateEmpty()); diff != "" {
				t.Error(diff)
			}
			if err := holder.Signal(syscall.SIGCONT); err != nil {
				t.Fatal(err)
			}
			b.eventually(t, "the woken process gives its socket up", func() bool { return s.open() == 1 })
			peer.Say(t, "after")
			if diff := cmp.Diff([]string{"after"}, texts(t, b.take(t, 1))); diff != "" {
				t.Error(diff)
			}
		})
	}
}
