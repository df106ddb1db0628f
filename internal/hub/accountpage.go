package hub

import (
	"html/template"
	"net/http"
)

var accountTemplate = template.Must(template.New("account").Parse(`<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>Account - Bellman</title></head>
<body><h1>{{.Label}}</h1><p>Plan {{.Plan}}, {{.Role}}.</p></body></html>
`))

// accountPage says in HTML who the caller is.
func accountPage(w http.ResponseWriter, who Identity) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Cache-Control", "no-store")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	_ = accountTemplate.Execute(w, who) // The client has left; there is nobody to tell.
}
