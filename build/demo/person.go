package demo

import (
	"context"
	"errors"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"time"
)

// person is somebody with a browser: it keeps cookies, follows redirects and
// fills in the hub's sign-in form.
type person struct {
	name    string
	browser *http.Client
}

func newPerson(name string) (*person, error) {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return nil, err
	}
	return &person{name: name, browser: &http.Client{Jar: jar, Timeout: 20 * time.Second}}, nil
}

var hiddenField = regexp.MustCompile(`<input[^>]*name="(csrf|req)"[^>]*value="([^"]*)"`)

// approve opens the link, gives the name, approves, and returns the title of
// the page it ends on.
func (p *person) approve(ctx context.Context, link string) (string, error) {
	page, at, err := p.open(ctx, http.MethodGet, link, nil)
	if err != nil {
		return "", err
	}
	form := url.Values{"name": {p.name}}
	for _, m := range hiddenField.FindAllStringSubmatch(page, -1) {
		form.Set(m[1], html.UnescapeString(m[2]))
	}
	if form.Get("csrf") == "" {
		return "", errors.New("the sign-in page has no form")
	}
	page, _, err = p.open(ctx, http.MethodPost, at.ResolveReference(&url.URL{Path: "/authorize/local"}).String(), form)
	if err != nil {
		return "", err
	}
	return title(page), nil
}

func (p *person) open(ctx context.Context, method, address string, form url.Values) (page string, at *url.URL, err error) {
	var body io.Reader
	if form != nil {
		body = strings.NewReader(form.Encode())
	}
	req, err := http.NewRequestWithContext(ctx, method, address, body)
	if err != nil {
		return "", nil, err
	}
	if form != nil {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	resp, err := p.browser.Do(req)
	if err != nil {
		return "", nil, err
	}
	defer func() { _ = resp.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	if err != nil {
		return "", nil, err
	}
	if resp.StatusCode != http.StatusOK {
		return "", nil, fmt.Errorf("%s: %s (%s)", resp.Request.URL.Path, resp.Status, title(string(text)))
	}
	return string(text), resp.Request.URL, nil
}

var titleTag = regexp.MustCompile(`(?s)<title>(.*?)</title>`)

func title(page string) string {
	if m := titleTag.FindStringSubmatch(page); m != nil {
		return html.UnescapeString(strings.TrimSpace(m[1]))
	}
	return "a page without a title"
}
