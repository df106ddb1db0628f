package main

import (
	"bufio"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"io"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// certificate writes a certificate for this machine and returns its files and
// who trusts it.
func certificate(t *testing.T) (certFile, keyFile string, pool *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: "hub"}, NotAfter: time.Now().Add(time.Hour),
		IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}, IsCA: true, BasicConstraintsValid: true,
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	certFile, keyFile = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for name, block := range map[string]*pem.Block{certFile: {Type: "CERTIFICATE", Bytes: der}, keyFile: {Type: "PRIVATE KEY", Bytes: private}} {
		if err := os.WriteFile(name, pem.EncodeToMemory(block), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pool = x509.NewCertPool()
	pool.AppendCertsFromPEM(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}))
	return certFile, keyFile, pool
}

// serving runs serve in this process until the test ends.
func servingAt(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	read, write := io.Pipe()
	done := make(chan int, 1)
	go func() {
		done <- run(ctx, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", ":memory:"}, args...), func(string) string { return "" }, io.Discard, write)
		_ = write.Close()
	}()
	lines := bufio.NewScanner(read)
	if !lines.Scan() {
		t.Fatal("the hub said nothing")
	}
	first := lines.Text()
	go func() { _, _ = io.Copy(io.Discard, read) }()
	t.Cleanup(func() {
		cancel()
		if code := <-done; code != exitOK {
			t.Errorf("left with %d", code)
		}
	})
	_, url, ok := strings.Cut(first, "listening on ")
	if !ok {
		t.Fatalf("the hub said %q", first)
	}
	return url
}

// With a certificate the hub speaks TLS 1.2 and later, and says so in its
// metadata.
func TestServeTLS(t *testing.T) {
	cert, key, pool := certificate(t)
	url := servingAt(t, "--tls-cert", cert, "--tls-key", key)
	if !strings.HasPrefix(url, "https://") {
		t.Fatalf("listens on %s", url)
	}
	get := func(config *tls.Config) (string, error) {
		client := http.Client{Transport: &http.Transport{TLSClientConfig: config, DisableKeepAlives: true}}
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/.well-known/oauth-authorization-server", nil)
		if err != nil {
			t.Fatal(err)
		}
		response, err := client.Do(request)
		if err != nil {
			return "", err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		return string(body), err
	}
	body, err := get(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12})
	if err != nil || !strings.Contains(body, `"issuer":"`+url+`"`) {
		t.Errorf("metadata %s %v", body, err)
	}
	if _, err := get(&tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}); err == nil {
		t.Error("TLS 1.1 was spoken")
	}
}

// Connections beyond the bound wait until one is closed.
func TestServeLimitsConnections(t *testing.T) {
	url := servingAt(t, "--max-connections", "1")
	address := strings.TrimPrefix(url, "http://")
	dial := func() net.Conn {
		conn, err := (&net.Dialer{Timeout: 5 * time.Second}).DialContext(t.Context(), "tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		return conn
	}
	ask := func(conn net.Conn, patience time.Duration) error {
		if _, err := io.WriteString(conn, "GET /healthz HTTP/1.1\r\nHost: "+address+"\r\n\r\n"); err != nil {
			return err
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience))
		_, err := conn.Read(make([]byte, 1))
		return err
	}
	first := dial()
	if err := ask(first, 5*time.Second); err != nil {
		t.Fatal(err)
	}
	second := dial()
	if err := ask(second, 200*time.Millisecond); err == nil {
		t.Fatal("a second connection was served beside the first")
	}
	_ = first.Close()
	_ = second.SetReadDeadline(time.Now().Add(5 * time.Second))
	if _, err := second.Read(make([]byte, 1)); err != nil {
		t.Errorf("after the first was closed: %v", err)
	}
}
