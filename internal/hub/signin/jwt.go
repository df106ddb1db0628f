package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"strings"

	"bellman.sh/desktop/internal/hub/account"
)

// header is the one header this server signs, and so the only one it accepts:
// there is no algorithm to be talked into.
var header = base64.RawURLEncoding.EncodeToString([]byte(`{"alg":"HS256","typ":"JWT"}`))

// claims of an access token. See auth.md 1.7.
type claims struct {
	Issuer     string           `json:"iss"`
	Subject    string           `json:"sub"`
	Audience   string           `json:"aud"`
	IssuedAt   int64            `json:"iat"`
	Expires    int64            `json:"exp"`
	ID         string           `json:"jti"`
	Identity   account.Identity `json:"bellman"`
	PlanSource string           `json:"plan_source"`
}

// sign packs v into a signed token. Use says what it is for, so that one kind
// of token never passes for another.
func (s *Server) sign(use string, v any) (string, error) {
	body, err := json.Marshal(v)
	if err != nil {
		return "", fmt.Errorf("sign token: %w", err)
	}
	text := header + "." + base64.RawURLEncoding.EncodeToString(body)
	return text + "." + base64.RawURLEncoding.EncodeToString(s.mac(use, text)), nil
}

func (s *Server) mac(use, text string) []byte {
	h := hmac.New(sha256.New, s.secret)
	_, _ = h.Write([]byte(use + "\x00" + text))
	return h.Sum(nil)
}

// open unpacks a token that sign made for the same use.
func (s *Server) open(use, token string, v any) bool {
	parts := strings.Split(token, ".")
	if len(parts) != 3 || parts[0] != header {
		return false
	}
	given, err := base64.RawURLEncoding.Strict().DecodeString(parts[2])
	if err != nil || !hmac.Equal(given, s.mac(use, parts[0]+"."+parts[1])) {
		return false
	}
	body, err := base64.RawURLEncoding.Strict().DecodeString(parts[1])
	return err == nil && json.Unmarshal(body, v) == nil
}

const (
	useAccess = "access"
	useState  = "state"
	useForm   = "form"
)

// access makes an access token for somebody at an origin.
func (s *Server) access(origin string, id account.Identity) (string, error) {
	now := s.now()
	return s.sign(useAccess, claims{
		Issuer: origin, Subject: id.UserID, Audience: Resource(origin),
		IssuedAt: now.Unix(), Expires: now.Add(accessLife).Unix(), ID: random(16),
		Identity: id, PlanSource: "default",
	})
}

// Verify returns whose access token this is, when it was issued at this very
// origin, for its resource, and has not expired.
func (s *Server) Verify(origin, token string) (account.Identity, bool) {
	var c claims
	if !s.open(useAccess, token, &c) {
		return account.Identity{}, false
	}
	ok := c.Issuer == origin && c.Audience == Resource(origin) && s.now().Unix() < c.Expires
	return c.Identity, ok
}
