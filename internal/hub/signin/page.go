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
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<title>{{.Title}} - Bellman</title>
<style>
body{font:16px/1.5 system-ui,sans-serif;max-width:26rem;margin:12vh auto;padding:0 1rem;color:#1f2937;background:#fafaf9}
h1{font-size:1.4rem}label{display:block;margin:1rem 0 .3rem}
input[type=text]{font:inherit;width:100%;box-sizing:border-box;padding:.5rem;border:1px solid #9ca3af;border-radius:.4rem}
button{font:inherit;margin:1rem .5rem 0 0;padding:.5rem 1rem;border-radius:.4rem;border:1px solid #9ca3af;background:#fff}
button.go{background:#1f2937;color:#fff;border-color:#1f2937}
</style></head><body><h1>{{.Title}}</h1>{{end}}
{{define "form"}}{{template "head" .}}
<p><strong>{{.Client}}</strong> wants to take part in Bellman rooms for you. Others in a room see {{if .Provider}}the address or name that {{.Provider}} gives{{else}}your name{{end}}.</p>
<form method="post" action="{{if .Provider}}/authorize/oidc{{else}}/authorize/local{{end}}">
<input type="hidden" name="csrf" value="{{.CSRF}}"><input type="hidden" name="req" value="{{.Req}}">
{{if .Provider}}<button class="go" type="submit">Approve with {{.Provider}}</button>
{{else}}<label for="name">Your name</label><input type="text" id="name" name="name" maxlength="80" required autofocus autocomplete="nickname">
<button class="go" type="submit">Approve</button>{{end}}<button type="submit" name="deny" value="1" formnovalidate>Refuse</button>
</form></body></html>{{end}}
{{define "error"}}{{template "head" .}}<p>{{.Text}}</p></body></html>{{end}}
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
