package signin

import (
	"html/template"
	"net/http"
	"net/url"
	"strings"
)

// The pages carry no script and nothing from elsewhere.
var pages = template.Must(template.New("").Parse(`
{{define "head"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">
<title>{{.Title}} - Bellman</title>
<style>
:root{color-scheme:light dark;--ground:#f6f1e7;--card:#fffdf8;--ink:#2b2418;--soft:#6a5f4d;--line:#b7a987;--edge:#e4d9c3;--go:#2b2418;--on:#fffdf8;--brass:#a8771b}
@media (prefers-color-scheme:dark){:root{--ground:#17140f;--card:#211d16;--ink:#f1e9d9;--soft:#b8ab94;--line:#6b5f49;--edge:#3a3326;--go:#e0b155;--on:#17140f;--brass:#e0b155}}
*{box-sizing:border-box}
body{margin:0;min-height:100vh;display:grid;place-items:center;padding:1.5rem;font:17px/1.6 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif;color:var(--ink);background:var(--ground)}
main{width:100%;max-width:30rem;padding:2.25rem;background:var(--card);border:1px solid var(--edge);border-radius:1rem;box-shadow:0 1rem 3rem rgb(0 0 0/8%)}
h1{margin:0 0 .75rem;font-size:1.625rem;line-height:1.25;font-weight:600}
p{margin:0;color:var(--soft)}strong{color:var(--ink)}
label{display:block;margin:1.5rem 0 .35rem;font-weight:600}
input[type=text]{font:inherit;width:100%;padding:.6rem .75rem;color:inherit;background:var(--ground);border:1px solid var(--line);border-radius:.5rem}
button{font:inherit;margin:1.25rem .6rem 0 0;padding:.55rem 1.25rem;color:inherit;background:none;border:1px solid var(--line);border-radius:.5rem;cursor:pointer}
button.go{font-weight:600;color:var(--on);background:var(--go);border-color:var(--go)}
:focus-visible{outline:3px solid var(--brass);outline-offset:2px}
</style></head><body><main><h1>{{.Title}}</h1>{{end}}
{{define "form"}}{{template "head" .}}
<p><strong>{{.Client}}</strong> wants to take part in Bellman rooms for you. Others in a room see {{if .Provider}}the address or name that {{.Provider}} gives{{else}}your name{{end}}.</p>
<form method="post" action="{{if .Provider}}/authorize/oidc{{else}}/authorize/local{{end}}">
<input type="hidden" name="csrf" value="{{.CSRF}}"><input type="hidden" name="req" value="{{.Req}}">
{{if .Provider}}<button class="go" type="submit">Approve with {{.Provider}}</button>
{{else}}<label for="name">Your name</label><input type="text" id="name" name="name" maxlength="80" required autofocus autocomplete="nickname">
<button class="go" type="submit">Approve</button>{{end}}<button type="submit" name="deny" value="1" formnovalidate>Refuse</button>
</form></main></body></html>{{end}}
{{define "error"}}{{template "head" .}}<p>{{.Text}}</p></main></body></html>{{end}}
`))

// page is what the templates show.
type page struct{ Title, Text, Client, CSRF, Req, Provider string }

func formPage(w http.ResponseWriter, p page, redirect string, through *provider) {
	// The answer to the form redirects to the client, or to the provider, and
	// browsers hold that to form-action as well.
	targets := []string{"'self'"}
	addresses := []string{redirect}
	if through != nil {
		addresses = append(addresses, through.config.Endpoint.AuthURL)
	}
	for _, address := range addresses {
		if u, err := url.Parse(address); err == nil {
			targets = append(targets, u.Scheme+"://"+u.Host)
		}
	}
	render(w, http.StatusOK, "form", strings.Join(targets, " "), p)
}

func errorPage(w http.ResponseWriter, status int, title, text string) {
	render(w, status, "error", "'none'", page{Title: title, Text: text})
}

// render writes a page. Its referrer policy is same-origin, because with none
// at all browsers send the form with a null origin.
func render(w http.ResponseWriter, status int, name, formAction string, p page) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Content-Security-Policy",
		"default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'; form-action "+formAction)
	w.WriteHeader(status)
	_ = pages.ExecuteTemplate(w, name, p) // The person has left; there is nobody to tell.
}
