package remote_test

import (
	"context"
	"encoding/pem"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/remote"
)

// childVar makes the test binary call the service it names, once. Proxies and
// certificates are read once in a process, so each case needs its own.
const childVar = "BELLMAN_TEST_CALL"

func callOnce(server string) int {
	u, err := url.Parse(server)
	if err != nil {
		return 2
	}
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	c := remote.New(remote.Options{Server: u, Tokens: remote.Key(secret), Log: slog.New(slog.DiscardHandler)})
	defer c.Close()
	if _, err := c.Call(ctx, "tools/list", nil); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "call:", err)
		return 1
	}
	s, err := c.OpenSocket(ctx, "qs_1", 0)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "socket:", err)
		return 1
	}
	defer s.Close()
	if _, _, err := s.Read(ctx); err != nil {
		_, _ = fmt.Fprintln(os.Stderr, "read:", err)
		return 1
	}
	return 0
}

// run calls the service from a process with an environment.
func run(t *testing.T, server string, env ...string) (string, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), exe)
	for _, e := range os.Environ() {
		if name, _, _ := strings.Cut(e, "="); !strings.HasSuffix(strings.ToLower(name), "_proxy") {
			cmd.Env = append(cmd.Env, e)
		}
	}
	cmd.Env = append(cmd.Env, append(env, childVar+"="+server)...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// friendly answers calls and says one event on its socket.
func friendly(w http.ResponseWriter, r *http.Request, m request) {
	switch {
	case r.URL.Path == "/ws":
		c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
		if err != nil {
			return
		}
		defer func() { _ = c.CloseNow() }()
		_ = c.Write(r.Context(), websocket.MessageText, []byte(`{"cursor":1,"type":"message","from":{"member_id":"m","label":"l"},"payload":{},"ref_id":null,"at":"2026-01-01T00:00:00Z"}`))
		_, _, _ = c.Read(r.Context())
	case m.Method == "initialize":
		welcome(w, m)
	default:
		reply(w, m, `{}`)
	}
}

// trust writes the server's certificate where SSL_CERT_FILE can name it.
func trust(t *testing.T, s *httptest.Server) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ca.pem")
	block := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw})
	if err := os.WriteFile(path, block, 0o600); err != nil {
		t.Fatal(err)
	}
	return "SSL_CERT_FILE=" + path
}

// A certificate authority of the company is trusted when the environment names
// it, and only then, for calls (over HTTP/2 where offered) and for the socket.
func TestACertificateAuthorityOfTheEnvironment(t *testing.T) {
	s := &service{answer: friendly}
	s.Server = httptest.NewUnstartedServer(s)
	s.EnableHTTP2 = true
	s.StartTLS()
	t.Cleanup(s.Close)
	out, err := run(t, s.URL+"/mcp")
	if err == nil || !strings.Contains(out, "certificate") || strings.Contains(out, secret) {
		t.Errorf("an unknown authority: %v, %s", err, out)
	}
	if out, err := run(t, s.URL+"/mcp", trust(t, s.Server)); err != nil {
		t.Errorf("a known one: %v, %s", err, out)
	}
}

// Proxies of the environment are used for calls and for the socket: a plain
// one for http, a tunnel for https, here with a certificate of the company's
// own, as TLS interception has it.
func TestProxiesOfTheEnvironment(t *testing.T) {
	t.Run("http", func(t *testing.T) {
		s := start(t, friendly)
		target, err := url.Parse(s.URL)
		if err != nil {
			t.Fatal(err)
		}
		var through atomic.Int64
		forward := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
			through.Add(1)
			r.SetURL(target)
		}}
		p := httptest.NewServer(forward)
		defer p.Close()
		if out, err := run(t, "http://bellman.test/mcp", "HTTP_PROXY="+p.URL); err != nil {
			t.Errorf("%v, %s", err, out)
		}
		if through.Load() < 3 {
			t.Errorf("%d requests went through the proxy", through.Load())
		}
	})
	t.Run("https", func(t *testing.T) {
		s := &service{answer: friendly}
		s.Server = httptest.NewTLSServer(s) // its certificate is for example.com
		t.Cleanup(s.Close)
		p := httptest.NewServer(tunnel(s.Listener.Addr().String()))
		defer p.Close()
		if out, err := run(t, "https://example.com/mcp", "HTTPS_PROXY="+p.URL, trust(t, s.Server)); err != nil {
			t.Errorf("%v, %s", err, out)
		}
	})
	t.Run("refused", func(t *testing.T) {
		p := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusProxyAuthRequired)
		}))
		defer p.Close()
		address := strings.TrimPrefix(p.URL, "http://")
		out, err := run(t, "https://example.com/mcp", "HTTPS_PROXY=http://user:"+secret+"@"+address)
		if err == nil || !strings.Contains(out, "Proxy Authentication Required") || strings.Contains(out, secret) {
			t.Errorf("%v, %s", err, out)
		}
	})
}

// tunnel answers CONNECT with a connection to address, whatever was asked for.
func tunnel(address string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodConnect {
			w.WriteHeader(http.StatusMethodNotAllowed)
			return
		}
		far, err := net.Dial("tcp", address)
		if err != nil {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		defer func() { _ = far.Close() }()
		near, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			return
		}
		defer func() { _ = near.Close() }()
		_, _ = io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n")
		go func() {
			_, _ = io.Copy(far, near)
			_ = far.Close()
		}()
		_, _ = io.Copy(near, far)
	})
}
