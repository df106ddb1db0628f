package main

import (
	"crypto/tls"
	"crypto/x509"
	"os"
)

// authorities returns what connections are checked against where that is more
// than the system's own: macOS and Windows ask the system, and Go does not
// read the file named in SSL_CERT_FILE there, which people and their proxies
// count on. It is nil elsewhere, where Go reads the file itself, and when the
// file adds nothing; the doctor tells why.
func authorities(system, file string) *tls.Config {
	if system != "darwin" && system != "windows" || file == "" {
		return nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil
	}
	roots, err := x509.SystemCertPool()
	if err != nil || !roots.AppendCertsFromPEM(text) {
		return nil
	}
	return &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}
