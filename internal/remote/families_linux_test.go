package remote_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"syscall"
	"testing"
	"time"

	"bellman.sh/desktop/internal/remote"
)

// IPv6 that goes nowhere: a name with an IPv6 address that swallows
// everything and an IPv4 address that works is reached within a moment, by
// calls and by the room socket, and not only once a connect has timed out.
func TestAnAddressFamilyThatGoesNowhereHoldsNothingUp(t *testing.T) {
	s := start(t, friendly)
	u, err := url.Parse(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	at, err := netip.ParseAddrPort(u.Host)
	if err != nil {
		t.Fatal(err)
	}
	swallow(t, int(at.Port()))
	resolve(t)
	c := client(t, fmt.Sprintf("http://bellman.test:%d", at.Port()), remote.Key(secret))
	ctx, cancel := context.WithTimeout(t.Context(), 4*time.Second) // a connect may take 10 s
	defer cancel()
	if _, err := c.Call(ctx, "tools/list", nil); err != nil {
		t.Errorf("call: %v", err)
	}
	socket, err := c.OpenSocket(ctx, "qs_1", 0)
	if err != nil {
		t.Fatalf("socket: %v", err)
	}
	socket.Close()
}

// swallow makes connects to a port of ::1 hang: its listener accepts nothing
// and its queue is full.
func swallow(t *testing.T, port int) {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET6, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	t.Cleanup(func() { _ = syscall.Close(fd) })
	_ = syscall.SetsockoptInt(fd, syscall.IPPROTO_IPV6, syscall.IPV6_V6ONLY, 1) // the default, unless somebody changed it
	if err := syscall.Bind(fd, &syscall.SockaddrInet6{Port: port, Addr: netip.IPv6Loopback().As16()}); err != nil {
		t.Skipf("this machine has no IPv6: %v", err)
	}
	if err := syscall.Listen(fd, 0); err != nil {
		t.Fatal(err)
	}
	for range 64 {
		c, err := net.DialTimeout("tcp", fmt.Sprintf("[::1]:%d", port), 300*time.Millisecond)
		if err != nil {
			return // as it should be
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	t.Skip("this system's queue of connections has no end")
}

// resolve makes every name resolve to ::1 and to 127.0.0.1.
func resolve(t *testing.T) {
	t.Helper()
	server, err := (&net.ListenConfig{}).ListenPacket(t.Context(), "udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for buf := make([]byte, 1500); ; {
			n, from, err := server.ReadFrom(buf)
			if err != nil {
				return
			}
			_, _ = server.WriteTo(answerName(buf[:n]), from)
		}
	}()
	before := net.DefaultResolver
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "udp", server.LocalAddr().String())
	}}
	t.Cleanup(func() {
		net.DefaultResolver = before
		_ = server.Close()
		<-done
	})
}

// answerName answers one question of the domain name system.
func answerName(query []byte) []byte {
	end := 12
	for end < len(query) && query[end] != 0 {
		end += 1 + int(query[end])
	}
	end += 5 // the root, type and class
	if end > len(query) {
		return nil
	}
	kind := binary.BigEndian.Uint16(query[end-4:])
	data := netip.AddrFrom4([4]byte{127, 0, 0, 1}).AsSlice()
	if kind == 28 {
		data = netip.IPv6Loopback().AsSlice()
	}
	reply := append([]byte{query[0], query[1], 0x81, 0x80, 0, 1, 0, 1, 0, 0, 0, 0}, query[12:end]...)
	reply = append(reply, 0xc0, 12) // the name in the question
	reply = binary.BigEndian.AppendUint16(reply, kind)
	reply = append(reply, 0, 1, 0, 0, 0, 60, 0, byte(len(data)))
	return append(reply, data...)
}
