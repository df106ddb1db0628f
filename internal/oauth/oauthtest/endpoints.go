package oauthtest

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"net/url"
	"slices"
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
	if sw.FirstIssuer != "" {
		doc["authorization_servers"] = []string{sw.FirstIssuer, or(sw.Issuer, s.URL)}
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
	if sw.ClientAuth != "" {
		doc["token_endpoint_auth_methods_supported"] = []string{sw.ClientAuth}
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
		if err != nil || u.Scheme != "https" && (u.Scheme != "http" || !slices.Contains([]string{"localhost", "127.0.0.1", "::1"}, u.Hostname())) {
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
	c := &client{redirects: redirects, at: s.now()}
	s.clients[id] = c
	got := map[string]any{
		"client_id": id, "redirect_uris": redirects, "token_endpoint_auth_method": or(s.switches.ClientAuth, "none"), "client_id_issued_at": time.Now().Unix(),
	}
	if s.switches.ClientAuth != "" {
		c.secret = token(24)
		s.issued = append(s.issued, c.secret)
		got["client_secret"] = c.secret
	}
	s.mu.Unlock()
	answer(w, http.StatusCreated, got)
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
	http.Redirect(w, r, to+"?"+q.Encode(), http.StatusFound) //nolint:gosec // Only to what a client has registered.
}
