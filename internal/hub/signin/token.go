package signin

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"

	"bellman.sh/desktop/internal/hub/sqlite"
)

// Token answers the token endpoint. What is presented is spent before it is
// checked, so that a second try with the same code or refresh token fails
// whatever the first one got wrong. Only a fault of the hub's own puts it
// back. See auth.md 1.6.
func (s *Server) Token(w http.ResponseWriter, r *http.Request, origin string) {
	r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
	if err := r.ParseForm(); err != nil {
		s.refuse(w, http.StatusBadRequest, "unsupported_grant_type", "the body is not form-encoded")
		return
	}
	switch r.PostForm.Get("grant_type") {
	case "authorization_code":
		s.redeem(w, r, origin, s.codes, r.PostForm.Get("code"), s.checkCode)
	case "refresh_token":
		s.redeem(w, r, origin, s.refresh, r.PostForm.Get("refresh_token"), checkRefresh)
	default:
		s.refuse(w, http.StatusBadRequest, "unsupported_grant_type", "grant_type must be authorization_code or refresh_token")
	}
}

// redeem takes a code or refresh token off its shelf, checks it and issues a
// new pair.
func (s *Server) redeem(w http.ResponseWriter, r *http.Request, origin string, shelf sqlite.Shelf, token string,
	check func(g grant, form url.Values, origin string) (code, text string),
) {
	value, ok, err := shelf.Take(r.Context(), shelfKey(token))
	if err != nil {
		s.fault(w, r, "look up the grant", err)
		return
	}
	var g grant
	if !ok || json.Unmarshal(value, &g) != nil {
		s.refuse(w, http.StatusBadRequest, "invalid_grant", "unknown, used or expired")
		return
	}
	if code, text := check(g, r.PostForm, origin); code != "" {
		s.refuse(w, http.StatusBadRequest, code, text)
		return
	}
	pair, err := s.issue(r.Context(), origin, g)
	if err != nil {
		s.log.ErrorContext(r.Context(), "sign-in", "doing", "issue tokens", "error", err)
		expires := s.now().Add(codeLife)
		if shelf == s.refresh {
			expires = s.now().Add(refreshLife)
		}
		// The person need not sign in again for a fault of ours.
		if err := shelf.Put(context.WithoutCancel(r.Context()), shelfKey(token), value, expires); err != nil {
			s.log.ErrorContext(r.Context(), "sign-in", "doing", "put the grant back", "error", err)
		}
		s.refuse(w, http.StatusServiceUnavailable, "temporarily_unavailable", "try again with the same grant")
		return
	}
	s.answer(w, http.StatusOK, pair)
}

func (s *Server) checkCode(g grant, form url.Values, origin string) (code, text string) {
	switch {
	case form.Get("client_id") != g.Client:
		return "invalid_grant", "the code was issued to another client"
	case form.Get("redirect_uri") != g.Redirect:
		return "invalid_grant", "redirect_uri is not the one the code was issued for"
	case !verifies(form.Get("code_verifier"), g.Challenge):
		return "invalid_grant", "code_verifier does not match"
	case form.Has("resource") && canonical(form.Get("resource")) != Resource(origin):
		return "invalid_target", "the resource is not this server's"
	}
	return "", ""
}

func checkRefresh(g grant, form url.Values, _ string) (code, text string) {
	if id := form.Get("client_id"); id != "" && id != g.Client {
		return "invalid_grant", "the refresh token was issued to another client"
	}
	return "", ""
}

// verifies reports whether a PKCE verifier matches its S256 challenge.
func verifies(verifier, challenge string) bool {
	if len(verifier) < 43 || len(verifier) > 128 {
		return false
	}
	return challengeOf(verifier) == challenge
}

// pair is a successful token response.
type pair struct {
	Access    string `json:"access_token"`
	Type      string `json:"token_type"`
	ExpiresIn int    `json:"expires_in"`
	Refresh   string `json:"refresh_token"`
	Scope     string `json:"scope"`
}

// issue makes a new pair and, in the same write, keeps the client's
// registration for good.
func (s *Server) issue(ctx context.Context, origin string, g grant) (pair, error) {
	access, err := s.access(origin, g.Identity)
	if err != nil {
		return pair{}, err
	}
	kept, err := pack(grant{Client: g.Client, Identity: g.Identity})
	if err != nil {
		return pair{}, err
	}
	token := random(32)
	placements := []sqlite.Placement{{Shelf: s.refresh, Key: shelfKey(token), Value: kept, Expires: s.now().Add(refreshLife)}}
	registration, ok, err := s.clients.Get(ctx, g.Client)
	if err != nil {
		return pair{}, err
	}
	if ok {
		placements = append(placements, sqlite.Placement{Shelf: s.clients, Key: g.Client, Value: registration})
	}
	if err := s.db.PutAll(ctx, placements...); err != nil {
		return pair{}, err
	}
	return pair{Access: access, Type: "Bearer", ExpiresIn: int(accessLife.Seconds()), Refresh: token, Scope: "bellman"}, nil
}
