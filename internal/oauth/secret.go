package oauth

import (
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"io"
	"log/slog"
)

// secret is a token that shows nothing of itself to a format verb, a logger
// or an encoder. Only string(s) at the place of use gives it away.
type secret string

const masked = "[secret]"

// Format writes a mask, whatever the verb.
func (secret) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// LogValue returns a mask.
func (secret) LogValue() slog.Value { return slog.StringValue(masked) }

// MarshalJSON returns a mask: what is meant to be stored says so by
// converting to string.
func (secret) MarshalJSON() ([]byte, error) { return []byte(`"` + masked + `"`), nil }

// Format writes a mask: fmt does not ask the fields of a struct for theirs
// when they are not exported.
func (credential) Format(f fmt.State, _ rune) { _, _ = io.WriteString(f, masked) }

// LogValue returns a mask.
func (credential) LogValue() slog.Value { return slog.StringValue(masked) }

// fingerprint names a token without giving anything of it away.
func fingerprint(s secret) string {
	if s == "" {
		return ""
	}
	sum := sha256.Sum256([]byte("bellman token " + string(s)))
	return hex.EncodeToString(sum[:8])
}

// random returns n random bytes in base64url.
func random(n int) string {
	b := make([]byte, n)
	_, _ = rand.Read(b) // It never fails; the runtime ends the process instead.
	return base64.RawURLEncoding.EncodeToString(b)
}

// same compares in constant time. Empty values are never the same: a value
// that was not sent must not match one that was not set.
func same(a, b string) bool {
	return a != "" && subtle.ConstantTimeCompare([]byte(a), []byte(b)) == 1
}
