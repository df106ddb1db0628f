package oauthtest

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
)

func answer(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func refuse(w http.ResponseWriter, status int, code, text string) {
	answer(w, status, map[string]string{"error": code, "error_description": text})
}

func or(s, fallback string) string {
	if s != "" {
		return s
	}
	return fallback
}

func (s *Server) resourceMetadata(w http.ResponseWriter, path string, sw Switches) {
	root := path == "/.well-known/oauth-protected-resource"
	resource := s.Resource()
	if sw.RootOnly {
		if !root {
			http.Error(w, "not found", http.StatusNotFound)
			return
		}
		resource = s.URL
	}
	doc := map[string]any{
		"resource":                 or(sw.Resource, resource),
		"authorization_servers":    []string{or(sw.Issuer, s.URL)},
		"bearer_methods_supported": []string{"header"},
	}
	if !sw.NoScopes {
		doc["scopes_supported"] = []string{"bellman"}
	}
	answer(w, http.StatusOK, doc)
}

func (s *Server) issuerMetadata(w http.ResponseWriter, sw Switches) {
	if sw.MetaStatus != 0 {
		http.Error(w, "<html>no</html>", sw.MetaStatus)
		return
	}
	doc := map[string]any{
		"issuer":                                or(sw.MetaIssuer, s.URL),
		"authorization_endpoint":                or(sw.Authorize, s.URL+"/authorize"),
		"token_endpoint":                        or(sw.Token, s.URL+"/token"),
		"registration_endpoint":                 s.URL + "/register",
		"response_types_supported":              []string{"code"},
		"grant_types_supported":                 []string{"authorization_code", "refresh_token"},
		"code_challenge_methods_supported":      []string{"S256"},
		"token_endpoint_auth_methods_supported": []string{"none"},
		"scopes_supported":                      []string{"bellman"},
	}
	if sw.NoPKCE {
		delete(doc, "code_challenge_methods_supported")
	}
	if sw.NoRegister {
		delete(doc, "registration_endpoint")
	}
	if sw.IssPromised {
		doc["authorization_response_iss_parameter_supported"] = true
	}
	if sw.HugeMetadata {
		doc["padding"] = strings.Repeat("x", 2<<20)
	}
	answer(w, http.StatusOK, doc)
}

// resource is the protected /mcp: 200 with who is asking, or a challenge.
func (s *Server) resource(w http.ResponseWriter, r *http.Request, sw Switches) {
	if r.Method != http.MethodPost {
		http.Error(w, "method not allowed", http.StatusMethodNotAllowed)
		return
	}
	bearer, sent := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	who := s.verify(bearer)
	good := sent && who != "" && !sw.RefuseAll
	s.mu.Lock()
	switch {
	case good:
		s.ledger.Served++
	case sent:
		s.ledger.Refused++
	}
	s.mu.Unlock()
	if good {
		answer(w, http.StatusOK, map[string]any{"jsonrpc": "2.0", "id": 1, "result": map[string]string{"who": who}})
		return
	}
	h := "Bearer"
	if !sw.NoHeader {
		h += fmt.Sprintf(" resource_metadata=%q", or(sw.HeaderURL, s.URL+"/.well-known/oauth-protected-resource"))
		if sw.Scope != "" {
			h += fmt.Sprintf(", scope=%q", sw.Scope)
		}
	}
	w.Header().Set("WWW-Authenticate", h)
	answer(w, http.StatusUnauthorized, map[string]any{"jsonrpc": "2.0", "id": nil, "error": map[string]any{"code": -32001, "message": "unauthorized"}})
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var body map[string]any
	if json.NewDecoder(r.Body).Decode(&body) != nil || body == nil {
		refuse(w, http.StatusBadRequest, "invalid_client_metadata", "not JSON")
		return
	}
	var redirects []string
	list, _ := body["redirect_uris"].([]any)
	for _, v := range list {
		raw, _ := v.(string)
		u, err := url.Parse(raw)
		if err != nil || u.Scheme != "https" && !(u.Scheme == "http" && slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())) {
			refuse(w, http.StatusBadRequest, "invalid_redirect_uri", "must be https or loopback")
			return
		}
		redirects = append(redirects, raw)
	}
	if len(redirects) == 0 {
		refuse(w, http.StatusBadRequest, "invalid_redirect_uri", "none given")
		return
	}
	id := token(16)
	s.mu.Lock()
	s.ledger.Registrations++
	s.ledger.LastClient = body
	s.clients[id] = &client{redirects: redirects, at: s.now()}
	s.mu.Unlock()
	answer(w, http.StatusCreated, map[string]any{
		"client_id": id, "redirect_uris": redirects, "token_endpoint_auth_method": "none", "client_id_issued_at": time.Now().Unix(),
	})
}

func (s *Server) known(id string) *client {
	c := s.clients[id]
	if c == nil || !c.used && s.now().Sub(c.at) > 24*time.Hour {
		return nil
	}
	return c
}

func (c *client) allows(redirect string, anyPort bool) bool {
	if slices.Contains(c.redirects, redirect) {
		return true
	}
	u, err := url.Parse(redirect)
	return anyPort && err == nil && u.Hostname() == "127.0.0.1" && slices.ContainsFunc(c.redirects, func(r string) bool {
		have, err := url.Parse(r)
		return err == nil && have.Hostname() == u.Hostname() && have.Path == u.Path
	})
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request, sw Switches) {
	q := r.URL.Query()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Authorized = append(s.ledger.Authorized, q)
	c := s.known(q.Get("client_id"))
	if c == nil || !c.allows(q.Get("redirect_uri"), sw.AnyPort) {
		w.Header().Set("Content-Type", "text/html")
		w.WriteHeader(http.StatusBadRequest)
		_, _ = w.Write([]byte("<h1>unknown client or redirect</h1>"))
		return
	}
	back := func(code string) {
		s.redirect(w, r, q.Get("redirect_uri"), url.Values{"error": {code}, "error_description": {"refused"}, "state": {q.Get("state")}}, sw)
	}
	switch {
	case q.Get("response_type") != "code":
		back("unsupported_response_type")
		return
	case q.Get("code_challenge_method") != "S256" || len(q.Get("code_challenge")) < 43:
		back("invalid_request")
		return
	case q.Get("resource") != "" && q.Get("resource") != s.Resource() && q.Get("resource") != s.URL && q.Get("resource") != sw.Resource:
		back("invalid_target")
		return
	}
	req := token(16)
	s.requests[req] = &grant{
		client: q.Get("client_id"), redirect: q.Get("redirect_uri"), challenge: q.Get("code_challenge"), resource: q.Get("resource"), state: q.Get("state"),
	}
	w.Header().Set("Content-Type", "text/html")
	fmt.Fprintf(w, `<!DOCTYPE html><title>Choose</title><h1>Sign in to Bellman</h1><p><a id="approve" href="/authorize/test?req=%s">Continue</a>`, html.EscapeString(req))
}

// provider stands for the identity provider's hop: whoever the browser says
// is there (X-Test-Person, else jesse) has approved.
func (s *Server) provider(w http.ResponseWriter, r *http.Request, sw Switches) {
	s.mu.Lock()
	defer s.mu.Unlock()
	req := r.URL.Query().Get("req")
	g := s.requests[req]
	if g == nil {
		http.Error(w, "this sign-in has expired", http.StatusBadRequest)
		return
	}
	delete(s.requests, req)
	if sw.Deny {
		s.redirect(w, r, g.redirect, url.Values{"error": {"access_denied"}, "error_description": {"the person said no"}, "state": {g.state}}, sw)
		return
	}
	g.person = or(r.Header.Get("X-Test-Person"), "jesse")
	code := token(32)
	s.issued = append(s.issued, code)
	s.codes[code] = g
	s.redirect(w, r, g.redirect, url.Values{"code": {code}, "state": {g.state}}, sw)
}

func (s *Server) redirect(w http.ResponseWriter, r *http.Request, to string, q url.Values, sw Switches) {
	switch sw.Iss {
	case "":
	case "right":
		q.Set("iss", s.URL)
	default:
		q.Set("iss", sw.Iss)
	}
	http.Redirect(w, r, to+"?"+q.Encode(), http.StatusFound)
}

func (s *Server) token(w http.ResponseWriter, r *http.Request, sw Switches) {
	_ = r.ParseForm()
	form := r.PostForm
	s.mu.Lock()
	s.ledger.TokenForms = append(s.ledger.TokenForms, form)
	s.mu.Unlock()
	time.Sleep(sw.TokenDelay)
	kind := form.Get("grant_type")
	switch {
	case sw.TokenMoved != "":
		s.enter(kind, http.StatusTemporaryRedirect)
		http.Redirect(w, r, sw.TokenMoved, http.StatusTemporaryRedirect)
		return
	case sw.TokenStatus != 0:
		s.enter(kind, sw.TokenStatus)
		if sw.RetryAfter != "" {
			w.Header().Set("Retry-After", sw.RetryAfter)
		}
		if sw.TokenHTML {
			w.Header().Set("Content-Type", "text/html")
			w.WriteHeader(sw.TokenStatus)
			_, _ = w.Write([]byte("<html>gateway</html>"))
			return
		}
		refuse(w, sw.TokenStatus, "server_error", "busy")
		return
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

func (s *Server) enter(kind string, status int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ledger.Grants = append(s.ledger.Grants, kind+":"+strconv.Itoa(status))
}

// grant consumes first and checks afterwards, like the service.
func (s *Server) grant(kind string, form url.Values) (status int, body any, drop bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	sw := &s.switches
	bad := func(code string) (int, any, bool) {
		return http.StatusBadRequest, map[string]string{"error": code, "error_description": "refused"}, false
	}
	var g *grant
	switch kind {
	case "authorization_code":
		code := form.Get("code")
		if g = s.codes[code]; g == nil {
			return bad("invalid_grant")
		}
		delete(s.codes, code)
		sum := sha256.Sum256([]byte(form.Get("code_verifier")))
		if n := len(form.Get("code_verifier")); n < 43 || n > 128 || base64.RawURLEncoding.EncodeToString(sum[:]) != g.challenge ||
			form.Get("client_id") != g.client || form.Get("redirect_uri") != g.redirect {
			return bad("invalid_grant")
		}
		if res := form.Get("resource"); res != "" && res != g.resource {
			return bad("invalid_target")
		}
		if sw.Restore503 > 0 {
			sw.Restore503--
			s.codes[code] = g
			return http.StatusServiceUnavailable, map[string]string{"error": "temporarily_unavailable"}, false
		}
		s.family++
		g.family = s.family
		if c := s.clients[g.client]; c != nil {
			c.used = true
		}
	case "refresh_token":
		old := form.Get("refresh_token")
		g = s.refresh[old]
		if was := s.spent[old]; g == nil && was != nil {
			switch {
			case sw.ReuseGrace > 0 && s.now().Sub(was.spentAt) < sw.ReuseGrace:
				g = was
			case sw.RevokeFamily:
				s.dead[was.family] = true
			}
		}
		if g == nil || s.dead[g.family] {
			return bad("invalid_grant")
		}
		if id := form.Get("client_id"); id != "" && id != g.client {
			delete(s.refresh, old)
			return bad("invalid_grant")
		}
		if sw.Restore503 > 0 {
			sw.Restore503--
			return http.StatusServiceUnavailable, map[string]string{"error": "temporarily_unavailable"}, false
		}
		if !sw.NoRotation {
			delete(s.refresh, old)
			was := *g
			was.spentAt = s.now()
			s.spent[old] = &was
		}
		if sw.DropRotation > 0 {
			sw.DropRotation--
			drop = true
		}
	default:
		return bad("unsupported_grant_type")
	}
	status = http.StatusOK
	if sw.Success201 {
		status = http.StatusCreated
	}
	return status, s.pair(g, kind, sw), drop
}

func (s *Server) pair(g *grant, kind string, sw *Switches) map[string]any {
	lifetime := sw.Lifetime
	if lifetime == 0 {
		lifetime = 600 * time.Second
	}
	access := s.sign(g, lifetime, sw)
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
