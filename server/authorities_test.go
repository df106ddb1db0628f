package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
)

// Where Go asks the system alone, the authorities named in SSL_CERT_FILE count
// beside it, and a file that is gone or names none takes nothing away.
func TestAuthoritiesOfAFileCountOnEverySystem(t *testing.T) {
	private := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
	private.Config.ErrorLog = log.New(io.Discard, "", 0)
	private.StartTLS()
	defer private.Close()
	dir := t.TempDir()
	path := filepath.Join(dir, "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: private.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, system := range []string{"darwin", "windows"} {
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: authorities(system, path)}}
		resp, err := client.Get(private.URL)
		if err != nil {
			t.Fatalf("%s: %v", system, err)
		}
		_ = resp.Body.Close()
		client.CloseIdleConnections()
		for _, file := range []string{"", filepath.Join(dir, "gone"), os.DevNull} {
			if authorities(system, file) != nil {
				t.Errorf("%s: %q changed something", system, file)
			}
		}
	}
	if authorities("linux", path) != nil {
		t.Error("on Linux the file is read twice")
	}
}
