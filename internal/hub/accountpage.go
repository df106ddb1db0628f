package hub

import (
	"context"
	"fmt"
	"html/template"
	"net/http"
	"strconv"
)

var accountTemplate = template.Must(template.New("account").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Account - Bellman</title></head>
<body><h1>{{.Label}}</h1><p>Plan {{.Plan}}, {{.Role}}.</p></body></html>
`))

func accountPage(w http.ResponseWriter, who Identity) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	_ = accountTemplate.Execute(w, who) // The client has left; there is nobody to tell.
}

// createsThisMonth is how many rooms the caller has started since the month
// began.
func (h *Hub) createsThisMonth(ctx context.Context, who Identity) (int, error) {
	value, ok, err := h.creates.Get(ctx, monthKey(who, h.now()))
	if err != nil || !ok {
		return 0, err
	}
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return 0, fmt.Errorf("read count of rooms: %w", err)
	}
	return n, nil
}
