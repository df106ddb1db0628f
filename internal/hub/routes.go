package hub

import (
	"context"
	"net/http"
	"strings"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/account"
)

// routes is everything the hub answers, apart from the guard before it.
func (h *Hub) routes(f *front) http.Handler {
	mux := http.NewServeMux()
	mux.Handle("POST /mcp", h.authenticated(h.newMCP()))
	mux.HandleFunc("/mcp", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Allow", http.MethodPost)
		rpcError(w, http.StatusMethodNotAllowed, -32000, "only POST is served here: this server keeps no sessions and sends nothing unasked")
	})
	mux.HandleFunc("/ws", h.serveSocket)
	rooms := h.roomRoutes()
	for _, path := range []string{"/rooms", "/rooms/", "/presets", "/presets/"} {
		mux.Handle(path, rooms)
	}
	mux.Handle("/public/", h.publicRoutes())
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"ok": true, "service": "bellman", "at": bellman.FormatTime(h.now())})
	})
	mux.HandleFunc("GET /account", h.serveAccount)
	mux.Handle("GET /metrics", h.serveMetrics(f))
	h.signinRoutes(mux)
	return withoutSlash(mux)
}

// signinRoutes are those of the authorization server.
func (h *Hub) signinRoutes(mux *http.ServeMux) {
	for _, path := range []string{"/.well-known/oauth-protected-resource", "/.well-known/oauth-protected-resource/"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			h.signin.ServeResource(w, originOf(r.Context()))
		})
	}
	for _, path := range []string{"/.well-known/oauth-authorization-server", "/.well-known/oauth-authorization-server/"} {
		mux.HandleFunc("GET "+path, func(w http.ResponseWriter, r *http.Request) {
			h.signin.ServeMetadata(w, originOf(r.Context()))
		})
	}
	mux.HandleFunc("POST /register", h.register)
	for pattern, serve := range map[string]func(w http.ResponseWriter, r *http.Request, origin string){
		"GET /authorize":        h.signin.Authorize,
		"POST /authorize/local": h.signin.AuthorizeLocal,
		"POST /authorize/oidc":  h.signin.AuthorizeProvider,
		"GET /callback/oidc":    h.signin.Callback,
		"POST /token":           h.signin.Token,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) { serve(w, r, originOf(r.Context())) })
	}
}

// withoutSlash ignores slashes at the end of a path, as the service does.
func withoutSlash(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path := strings.TrimRight(r.URL.Path, "/"); path != "" && path != r.URL.Path {
			r = r.Clone(r.Context())
			r.URL.Path, r.URL.RawPath = path, ""
		}
		next.ServeHTTP(w, r)
	})
}

// authenticated lets only requests with a good credential through, and says
// who sent them.
func (h *Hub) authenticated(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		who, ok, err := h.identify(r)
		switch {
		case err != nil:
			h.log.ErrorContext(r.Context(), "look up credential", "error", err)
			rpcError(w, http.StatusInternalServerError, -32603, "the hub could not look up the credential")
		case !ok:
			challenge(w, r)
			rpcError(w, http.StatusUnauthorized, -32001, "Unauthorized: a valid access token or key is needed")
		default:
			next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), callerKey{}, who)))
		}
	})
}

// serveAccount says who an access token is. Static keys are not accepted.
// See auth.md 1.7.
func (h *Hub) serveAccount(w http.ResponseWriter, r *http.Request) {
	who, ok := h.signin.Verify(originOf(r.Context()), bearer(r))
	if !ok {
		challenge(w, r)
		http.Error(w, "Unauthorized: a valid access token is needed", http.StatusUnauthorized)
		return
	}
	if !strings.Contains(r.Header.Get("Accept"), "application/json") {
		accountPage(w, who)
		return
	}
	plan := account.PlanOf(who.Plan)
	used, err := h.createsThisMonth(r.Context(), who)
	if err != nil {
		h.log.ErrorContext(r.Context(), "count rooms", "error", err)
		http.Error(w, "the hub could not count your rooms", http.StatusInternalServerError)
		return
	}
	modes := []string{"pair"}
	seats := 2
	if plan.Swarm {
		modes, seats = append(modes, "swarm"), 100
	}
	writeJSON(w, http.StatusOK, map[string]any{
		"user_id": who.UserID, "label": who.Label, "plan": who.Plan, "role": who.Role, "org_id": who.OrgID,
		"plan_source": "default",
		"entitlements": map[string]any{
			"modes": modes, "maxMembers": seats, "sessionTtlMs": nil, "monthlyCreates": plan.MonthlyCreates,
			"orgScoping": plan.OrgOnly, "audit": plan.Audit,
		},
		"usage": map[string]any{
			"sessions_created_this_month": used, "monthly_limit": plan.MonthlyCreates,
			"remaining": max(plan.MonthlyCreates-used, 0),
		},
	})
}
