package room_test

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// namespaceVar tells the test binary that it is in a network namespace that is
// its own to change.
const namespaceVar = "BELLMAN_TEST_NAMESPACE"

// A bridge with a network interface of its own, which loses its link, gets
// another address and loses its route: each time it is back in time, and every
// event comes once and in order.
func TestABridgeWhoseNetworkComesAndGoes(t *testing.T) {
	if os.Getenv(namespaceVar) == "" {
		t.Parallel()
		inNamespace(t)
		return
	}
	ip(t, "link set lo up")
	ip(t, "link add va type veth peer name vb")
	ip(t, "addr add 192.0.2.1/24 dev va")
	ip(t, "link set va up")
	s := startServiceOn(t, "192.0.2.1:0")
	ours, peer := s.pair(t)
	b := s.bridgeOf(t, t.TempDir(), remote.Key(hubtest.Jesse))
	t.Cleanup(func() { _ = b.queue.Close() })
	b.join(t, ours)
	c := spawn(t, "http://"+s.Addr().String()+"/mcp", b.dir, func(cmd *exec.Cmd) {
		cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNET}
	})
	inside := func(args string) {
		t.Helper()
		run(t, "nsenter", append([]string{"--net", "--target", strconv.Itoa(c.Pid), "ip"}, strings.Fields(args)...)...)
	}
	b.shows(t, ours.Room, queue.StateWaiting, "the service cannot be reached: ")
	said := []string{"member_joined"}
	expect := func(what string) {
		t.Helper()
		began := time.Now()
		if diff := cmp.Diff(said, texts(t, b.take(t, len(said)))); diff != "" {
			t.Errorf("%s: %s", what, diff)
		}
		t.Logf("%s: there after %v", what, time.Since(began).Round(10*time.Millisecond))
		said = nil
	}
	say := func(text string) {
		t.Helper()
		peer.Say(t, text)
		said = append(said, text)
	}

	say("before there was a network")
	ip(t, fmt.Sprintf("link set vb netns %d", c.Pid))
	inside("addr add 192.0.2.2/24 dev vb")
	inside("link set vb up")
	expect("joining a network")

	inside("link set vb down")
	say("without a link")
	time.Sleep(time.Second) // let it be missed
	inside("link set vb up")
	expect("the link is back")

	inside("addr del 192.0.2.2/24 dev vb")
	inside("addr add 192.0.2.3/24 dev vb")
	say("at another address")
	expect("another address")

	for _, away := range outages() {
		inside("route add unreachable 192.0.2.1/32")
		ip(t, "route add blackhole 192.0.2.3/32")
		say("without a route")
		time.Sleep(away)
		say("still without a route")
		inside("route del unreachable 192.0.2.1/32")
		ip(t, "route del blackhole 192.0.2.3/32")
		expect(fmt.Sprintf("a route that was lost for %v", away))
	}
	if end := b.membership(t, ours).Ended; end != "" {
		t.Errorf("the network ended the membership: %s", end)
	}
}

// outages are how long the route is lost: one that a connection survives, and
// in the long form one in which the socket is given up and polls fail.
func outages() []time.Duration {
	if os.Getenv(soakVar) != "" {
		return []time.Duration{time.Second, 80 * time.Second}
	}
	return []time.Duration{time.Second}
}

// inNamespace runs the test at hand once more in a network namespace, where
// nothing of the machine's network can be reached or changed.
func inNamespace(t *testing.T) {
	t.Helper()
	for _, tool := range []string{"ip", "nsenter"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("no network namespace can be set up: %v", err)
		}
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe, "-test.v", "-test.run", "^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), namespaceVar+"=1")
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Cloneflags:  syscall.CLONE_NEWUSER | syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{HostID: os.Getuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{HostID: os.Getgid(), Size: 1}},
	}
	out, err := cmd.CombinedOutput()
	_, ran := errors.AsType[*exec.ExitError](err)
	switch {
	case err != nil && !ran:
		t.Skipf("this machine gives no network namespace: %v", err)
	case err != nil:
		t.Errorf("in the namespace: %v\n%s", err, out)
	case bytes.Contains(out, []byte("--- SKIP")):
		t.Skipf("in the namespace:\n%s", out)
	default:
		t.Logf("in the namespace:\n%s", out)
	}
}

// ip changes the network of this process's namespace.
func ip(t *testing.T, args string) {
	t.Helper()
	run(t, "ip", strings.Fields(args)...)
}

func run(t *testing.T, name string, args ...string) {
	t.Helper()
	out, err := exec.CommandContext(t.Context(), name, args...).CombinedOutput()
	switch {
	case err == nil:
	case bytes.Contains(out, []byte("Operation not supported")), bytes.Contains(out, []byte("Operation not permitted")):
		t.Skipf("%s %s: %s", name, strings.Join(args, " "), out)
	default:
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
