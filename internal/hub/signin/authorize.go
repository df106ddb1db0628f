package signin

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// csrfCookie binds the name form to the browser that asked for it.
const csrfCookie = "bellman_csrf"

// asked is an authorization request that has been checked, on its way through
// the browser.
type asked struct {
	Client    string `json:"client"`
	Redirect  string `json:"redirect"`
	Challenge string `json:"challenge"`
	State     string `json:"state"`
	Origin    string `json:"origin"`
	Expires   int64  `json:"exp"`
}

// Authorize answers an authorization request with the page that asks for a
// name. What is wrong with the client or its redirect is told to the person
// and never to the redirect. See auth.md 1.4.
func (s *Server) Authorize(w http.ResponseWriter, r *http.Request, origin string) {
	q := r.URL.Query()
	c, ok, err := s.client(r.Context(), q.Get("client_id"))
	if err != nil {
		s.fault(w, r, "look up the client", err)
		return
	}
	if !ok {
		errorPage(w, http.StatusBadRequest, "Unknown client", "This sign-in was started by a program the hub does not know, or no longer knows. Start it again there.")
		return
	}
	redirect := q.Get("redirect_uri")
	if !slices.Contains(c.RedirectURIs, redirect) {
		errorPage(w, http.StatusBadRequest, "Wrong address", "This sign-in would end at an address that the program did not register. It was stopped.")
		return
	}
	state := q.Get("state")
	if code, text := checkRequest(q, origin); code != "" {
		redirectTo(w, r, redirect, url.Values{"error": {code}, "error_description": {text}}, state)
		return
	}
	if s.provider == nil && !s.forms(origin) {
		errorPage(w, http.StatusServiceUnavailable, "No sign-in here", "This hub has no sign-in page at this address. Ask its operator for a key.")
		return
	}
	req, err := s.sign(useState, asked{
		Client: q.Get("client_id"), Redirect: redirect, Challenge: q.Get("code_challenge"), State: state, Origin: origin,
		Expires: s.now().Add(stateLife).Unix(),
	})
	if err != nil {
		s.fault(w, r, "begin the sign-in", err)
		return
	}
	cookie := random(32)
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // Secure follows the scheme: on loopback there is only http.
		Name: csrfCookie, Value: cookie, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode,
		Secure: strings.HasPrefix(origin, "https:"), MaxAge: int(stateLife.Seconds()),
	})
	p := page{Title: "Sign in to this hub", Client: c.Name, CSRF: s.formToken(cookie, req), Req: req}
	if s.provider != nil {
		p.Provider = s.provider.name
	}
	formPage(w, p, redirect, s.provider)
}

// checkRequest returns the OAuth error of a request whose client and redirect
// are good, or nothing.
func checkRequest(q url.Values, origin string) (code, text string) {
	switch {
	case q.Get("response_type") != "code":
		return "unsupported_response_type", "only response_type=code is supported"
	case q.Get("code_challenge_method") != "S256":
		return "invalid_request", "code_challenge_method must be S256"
	case len(q.Get("code_challenge")) < 43:
		return "invalid_request", "code_challenge is missing or too short"
	case q.Has("resource") && canonical(q.Get("resource")) != Resource(origin):
		return "invalid_target", "the resource is not this server's"
	}
	return "", ""
}

// forms reports whether people reach this origin from this machine alone: a
// form that takes any name is for nobody else.
func (s *Server) forms(origin string) bool {
	u, err := url.Parse(origin)
	if err != nil {
		return false
	}
	name := u.Hostname()
	return name == "localhost" || name == "127.0.0.1" || name == "::1"
}

func (s *Server) formToken(cookie, req string) string {
	return s.derive(cookie+"\x00"+req, useForm)
}

// AuthorizeLocal takes the form of Authorize's page and sends the browser
// back to the client with a code.
func (s *Server) AuthorizeLocal(w http.ResponseWriter, r *http.Request, origin string) {
	if s.provider != nil || !s.forms(origin) {
		errorPage(w, http.StatusNotFound, "No such sign-in", "This hub does not sign people in by name.")
		return
	}
	a, ok := s.submitted(w, r, origin)
	if !ok {
		return
	}
	name, ok := cleanName(r.PostForm.Get("name"))
	if !ok {
		errorPage(w, http.StatusBadRequest, "No name", "Go back and give a name of 1 to 80 characters.")
		return
	}
	code, err := s.issueCode(r, a, localIdentity(name))
	if err != nil {
		s.fault(w, r, "finish the sign-in", err)
		return
	}
	redirectTo(w, r, a.Redirect, url.Values{"code": {code}}, a.State)
}

// submitted reads the form of Authorize's page and makes sure that it was
// shown in this very browser. When it returns false it has answered: the form
// was no good, or the person refused.
func (s *Server) submitted(w http.ResponseWriter, r *http.Request, origin string) (asked, bool) {
	var a asked
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		errorPage(w, http.StatusBadRequest, "Sign-in not understood", "Start the sign-in again.")
		return a, false
	}
	cookie, err := r.Cookie(csrfCookie)
	req := r.PostForm.Get("req")
	if err != nil || !hmac.Equal([]byte(r.PostForm.Get("csrf")), []byte(s.formToken(cookie.Value, req))) {
		errorPage(w, http.StatusForbidden, "Sign-in not yours", "This form was not filled in where it was opened. Start the sign-in again.")
		return a, false
	}
	if !s.open(useState, req, &a) || a.Origin != origin || s.now().Unix() >= a.Expires {
		errorPage(w, http.StatusBadRequest, "Sign-in expired", "This page was open too long. Start the sign-in again.")
		return a, false
	}
	if r.PostForm.Has("deny") {
		redirectTo(w, r, a.Redirect, url.Values{"error": {"access_denied"}, "error_description": {"the person refused"}}, a.State)
		return a, false
	}
	return a, true
}

func (s *Server) issueCode(r *http.Request, a asked, id account.Identity) (string, error) {
	value, err := pack(grant{Client: a.Client, Identity: id, Redirect: a.Redirect, Challenge: a.Challenge})
	if err != nil {
		return "", err
	}
	code := random(32)
	return code, s.codes.Put(r.Context(), shelfKey(code), value, s.now().Add(codeLife))
}

// cleanName takes out what no name has and what would mislead on a screen.
func cleanName(name string) (string, bool) {
	name = strings.TrimSpace(strings.Map(func(r rune) rune {
		if unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || r == unicode.ReplacementChar {
			return -1
		}
		return r
	}, name))
	n := bellman.Units(name)
	return name, n >= 1 && n <= 80
}

// localIdentity is who goes by a name on this machine. The same name is the
// same person, whatever its capitals.
func localIdentity(name string) account.Identity {
	org := "org_local"
	sum := sha256.Sum256([]byte(strings.ToLower(name)))
	return account.Identity{
		UserID: "u_local_" + hex.EncodeToString(sum[:8]), OrgID: &org, Plan: "team", Role: "member", Label: name,
	}
}

// redirectTo sends the browser back to a registered redirect.
func redirectTo(w http.ResponseWriter, r *http.Request, redirect string, answer url.Values, state string) {
	u, err := url.Parse(redirect)
	if err != nil {
		errorPage(w, http.StatusBadRequest, "Wrong address", "The program's address cannot be read.")
		return
	}
	if state != "" {
		answer.Set("state", state)
	}
	if u.RawQuery != "" {
		u.RawQuery += "&"
	}
	u.RawQuery += answer.Encode()
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Referrer-Policy", "no-referrer")
	http.Redirect(w, r, u.String(), http.StatusSeeOther) //nolint:gosec // One of the redirects the client registered.
}

// canonical writes a resource the way it is compared: scheme and host in
// lower case, no trailing slashes, no query, no fragment.
func canonical(resource string) string {
	u, err := url.Parse(resource)
	if err != nil {
		return ""
	}
	return strings.ToLower(u.Scheme) + "://" + strings.ToLower(u.Host) + strings.TrimRight(u.EscapedPath(), "/")
}
