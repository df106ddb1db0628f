package oauthtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"
)

func (s *Server) token(w http.ResponseWriter, r *http.Request, sw Switches) {
	_ = r.ParseForm()
	form := r.PostForm
	s.mu.Lock()
	s.ledger.TokenForms = append(s.ledger.TokenForms, form)
	if v := form.Get("code_verifier"); v != "" {
		s.issued = append(s.issued, v)
	}
	s.mu.Unlock()
	select {
	case <-time.After(sw.TokenDelay):
	case <-r.Context().Done():
	}
	kind := form.Get("grant_type")
	if s.fault(w, r, kind, sw) {
		return
	}
	if !s.shown(r, sw.ClientAuth) {
		s.enter(kind, http.StatusUnauthorized)
		refuse(w, http.StatusUnauthorized, "invalid_client", "who are you?")
		return
	}
	status, body, drop := s.grant(kind, form)
	s.enter(kind, status)
	if drop {
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			_ = conn.Close()
		}
		return
	}
	answer(w, status, body)
}

// fault answers in the way that was switched on, if any was.
func (s *Server) fault(w http.ResponseWriter, r *http.Request, kind string, sw Switches) bool {
	switch {
	case sw.TokenMoved != "":
		s.enter(kind, http.StatusTemporaryRedirect)
		http.Redirect(w, r, sw.TokenMoved, http.StatusTemporaryRedirect)
		return true
	case sw.TokenStatus != 0:
		s.enter(kind, sw.TokenStatus)
		if sw.RetryAfter != "" {
			w.Header().Set("Retry-After", sw.RetryAfter)
		}
		if sw.TokenHTML {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(sw.TokenStatus)
			_, _ = w.Write([]byte("<html>gateway</html>"))
			return true
		}
		refuse(w, sw.TokenStatus, or(sw.TokenCode, "server_error"), "busy")
		return true
	case sw.TokenError != "":
		status := http.StatusBadRequest
		if sw.TokenError == "invalid_client" {
			status = http.StatusUnauthorized
		}
		if sw.ErrorAs200 {
			status = http.StatusOK
		}
		s.enter(kind, status)
		refuse(w, status, sw.TokenError, "as switched")
		return true
	}
	return false
}

// shown reports whether the client shows its secret the way it must, and
// none in any other way.
func (s *Server) shown(r *http.Request, method string) bool {
	id, secret, basic := r.BasicAuth()
	if basic {
		id, _ = url.QueryUnescape(id)
		secret, _ = url.QueryUnescape(secret)
		if r.PostForm.Has("client_secret") {
			return false
		}
	} else {
		id, secret = r.PostForm.Get("client_id"), r.PostForm.Get("client_secret")
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.clients[id]
	switch method {
	case "":
		return !basic && secret == ""
	case "client_secret_basic":
		// x/oauth2 sends no client_id beside the header, so the grant takes it
		// from there.
		r.PostForm.Set("client_id", id)
		return basic && c != nil && secret == c.secret
	default:
		return !basic && c != nil && secret == c.secret
	}
}

func (s *Server) enter(kind string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Grants = append(s.ledger.Grants, kind+":"+strconv.Itoa(status))
}

// denied is a refused grant.
type denied struct {
	status int
	code   string
}

func invalid(code string) *denied { return &denied{http.StatusBadRequest, code} }

// grant consumes first and checks afterwards, like the service.
func (s *Server) grant(kind string, form url.Values) (status int, body any, drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var g *grant
	var no *denied
	switch kind {
	case "authorization_code":
		g, no = s.takeCode(form)
	case "refresh_token":
		g, no = s.takeRefresh(form)
		if no == nil && s.switches.DropRotation > 0 {
			s.switches.DropRotation--
			drop = true
		}
	default:
		no = invalid("unsupported_grant_type")
	}
	if no != nil {
		return no.status, map[string]string{"error": no.code, "error_description": "refused"}, false
	}
	status = http.StatusOK
	if s.switches.Success201 {
		status = http.StatusCreated
	}
	return status, s.pair(g, kind, &s.switches), drop
}

// putBack reports whether this grant is to be answered 503 and kept.
func (s *Server) putBack() *denied {
	if s.switches.Restore503 == 0 {
		return nil
	}
	s.switches.Restore503--
	return &denied{http.StatusServiceUnavailable, "temporarily_unavailable"}
}

func (s *Server) takeCode(form url.Values) (*grant, *denied) {
	code := form.Get("code")
	g := s.codes[code]
	if g == nil {
		return nil, invalid("invalid_grant")
	}
	delete(s.codes, code)
	verifier := form.Get("code_verifier")
	sum := sha256.Sum256([]byte(verifier))
	switch {
	case len(verifier) < 43, len(verifier) > 128, base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge,
		form.Get("client_id") != g.client, form.Get("redirect_uri") != g.redirect:
		return nil, invalid("invalid_grant")
	case form.Get("resource") != "" && form.Get("resource") != g.resource:
		return nil, invalid("invalid_target")
	}
	if no := s.putBack(); no != nil {
		s.codes[code] = g
		return nil, no
	}
	s.family++
	g.family = s.family
	if c := s.clients[g.client]; c != nil {
		c.used = true
	}
	return g, nil
}

func (s *Server) takeRefresh(form url.Values) (*grant, *denied) {
	old := form.Get("refresh_token")
	g := s.refresh[old]
	if was := s.spent[old]; g == nil && was != nil {
		switch {
		case s.switches.ReuseGrace > 0 && s.now().Sub(was.spentAt) < s.switches.ReuseGrace:
			g = was
		case s.switches.RevokeFamily:
			s.dead[was.family] = true
		}
	}
	if g == nil || s.dead[g.family] {
		return nil, invalid("invalid_grant")
	}
	if id := form.Get("client_id"); id != "" && id != g.client {
		delete(s.refresh, old)
		return nil, invalid("invalid_grant")
	}
	if no := s.putBack(); no != nil {
		return nil, no
	}
	if !s.switches.NoRotation {
		delete(s.refresh, old)
		was := *g
		was.spentAt = s.now()
		s.spent[old] = &was
	}
	return g, nil
}

func (s *Server) pair(g *grant, kind string, sw *Switches) map[string]any {
	lifetime := sw.Lifetime
	if lifetime == 0 {
		lifetime = 600 * time.Second
	}
	access := s.sign(g, lifetime, sw)
	if sw.BrokenToken {
		access += "\r\nX-More: 1"
	}
	out := map[string]any{"access_token": access, "token_type": "Bearer", "scope": "bellman"}
	s.issued = append(s.issued, access)
	if kind != "refresh_token" || !sw.NoRotation {
		next := token(32)
		fresh := *g
		s.refresh[next] = &fresh
		s.issued = append(s.issued, next)
		out["refresh_token"] = next
	}
	switch secs := int(lifetime / time.Second); {
	case sw.NoExpiry:
	case sw.OddExpiry != nil:
		out["expires_in"] = sw.OddExpiry
	case sw.StringExpiry:
		out["expires_in"] = strconv.Itoa(secs)
	default:
		out["expires_in"] = secs
	}
	return out
}

func (s *Server) sign(g *grant, lifetime time.Duration, sw *Switches) string {
	if sw.OpaqueToken {
		return token(40)
	}
	claim := sw.Claim
	if claim == nil {
		claim = map[string]any{"userId": "u_test_" + g.person, "orgId": nil, "plan": "free", "role": "member", "label": g.person + "@example.dev"}
	}
	enc := func(v any) string {
		b, _ := json.Marshal(v)
		return base64.RawURLEncoding.EncodeToString(b)
	}
	now := s.now()
	body := enc(map[string]string{"alg": "HS256", "typ": "JWT"}) + "." + enc(map[string]any{
		"iss": s.URL, "sub": "u_test_" + g.person, "aud": s.Resource(), "iat": now.Unix(), "exp": now.Add(lifetime).Unix(),
		"jti": token(16), "bellman": claim, "plan_source": "default", "pad": strings.Repeat("p", sw.PadToken),
	})
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(body))
	return body + "." + base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// verify returns the subject of a good access token, else nothing.
func (s *Server) verify(access string) string {
	parts := strings.Split(access, ".")
	if len(parts) != 3 {
		return ""
	}
	mac := hmac.New(sha256.New, s.key)
	mac.Write([]byte(parts[0] + "." + parts[1]))
	sig, err := base64.RawURLEncoding.DecodeString(parts[2])
	if err != nil || !hmac.Equal(sig, mac.Sum(nil)) {
		return ""
	}
	var claims struct {
		Subject string `json:"sub"`
		Expiry  int64  `json:"exp"`
	}
	payload, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil || json.Unmarshal(payload, &claims) != nil {
		return ""
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.now().Unix() >= claims.Expiry {
		return ""
	}
	return claims.Subject
}
