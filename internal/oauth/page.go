package oauth

import (
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html"
	"io"
	"net/http"
	"strings"
)

//go:embed page.html
var pageHTML string

//go:embed page.css
var pageCSS string

// What stands on the bell of a page: a tick and sound, or a cross.
const (
	goodMark    = `<path d="M31 48l6 6 12-13"/><path d="M14 26l-5-4M66 26l5-4M25 17l-2-6M55 17l2-6"/>`
	stoppedMark = `<path d="M34 44l12 10M46 44L34 54"/>`
)

// page is what the person reads when the browser comes back. It is fixed
// text: nothing of the request is ever in it.
type page struct {
	Title string
	Text  string
	Next  string
	Good  bool
}

// html fills the page in. It is not done by html/template, which reaches
// methods by name and so keeps the linker from leaving out what is never
// called: a sixth of the bridge.
func (p page) html() string {
	class, mark := "", goodMark
	if !p.Good {
		class, mark = ` class="stopped"`, stoppedMark
	}
	return strings.NewReplacer(
		"{style}", pageCSS, "{class}", class, "{mark}", mark,
		"{title}", html.EscapeString(p.Title), "{text}", html.EscapeString(p.Text), "{next}", html.EscapeString(p.Next),
	).Replace(pageHTML)
}

var (
	pageDone    = page{Good: true, Title: "You are signed in", Text: "Bellman for Claude Desktop is ready on this computer.", Next: "You can close this tab and go back to Claude."}
	pageDenied  = page{Title: "Nothing was signed in", Text: "The sign-in was declined, and Bellman has no access to your account.", Next: "If you want to sign in after all, go back to Claude and ask it to use Bellman again."}
	pageFailed  = page{Title: "The sign-in did not finish", Text: "The sign-in server and Bellman could not agree. Nothing was changed on this computer.", Next: "Go back to Claude and ask it to use Bellman again; it will tell what went wrong and give you a new link."}
	pageStray   = page{Title: "This is not an answer we asked for", Text: "The address does not belong to a sign-in that was started in this browser, so it was ignored. If somebody sent it to you, do not use it.", Next: "To sign in, use the link that Claude shows you, in this browser."}
	pageUsed    = page{Title: "This link no longer works", Text: "A sign-in link is for one browser, while Bellman waits for it. When a second browser opens it, neither can go on.", Next: "Go back to Claude and ask it to use Bellman again; it will give you a new link."}
	pageLate    = page{Title: "This sign-in is over", Text: "It has been finished already, or too much time has passed.", Next: "Go back to Claude. If it still asks you to sign in, use the new link it gives you."}
	pageForeign = page{Title: "Not from here", Text: "This address can be opened only by following the link that Claude shows you.", Next: "Go back to Claude and ask it to use Bellman again."}
	pageUnknown = page{Title: "Nothing here", Text: "Bellman waits on this address for your sign-in to come back, and for nothing else.", Next: "To sign in, use the link that Claude shows you."}
)

// pagePolicy allows the one style sheet and nothing else.
var pagePolicy = func() string {
	sum := sha256.Sum256([]byte(pageCSS))
	return "default-src 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
}()

func pageHeaders(h http.Header) {
	h.Set("Cache-Control", "no-store")
	h.Set("Referrer-Policy", "no-referrer")
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Connection", "close")
}

func showPage(w http.ResponseWriter, status int, p page) {
	pageHeaders(w.Header())
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = io.WriteString(w, p.html()) // A browser that has gone away needs no page.
}
