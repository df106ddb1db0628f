package oauthtest

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"
)

// Browser is a person at a browser of their own: it keeps cookies, follows
// redirects and approves on the server's page.
type Browser struct {
	Person string

	server *Server
	client *http.Client
	wg     sync.WaitGroup

	mu     sync.Mutex
	opened []string
	pages  []Page
}

// Page is where a browser ended up.
type Page struct {
	Status int
	Header http.Header
	Body   string
	URL    string
}

// NewBrowser returns a browser of the person's.
func (s *Server) NewBrowser(tb testing.TB, person string) *Browser {
	tb.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		tb.Fatal(err)
	}
	b := &Browser{Person: person, server: s, client: &http.Client{
		Jar: jar, Timeout: 60 * time.Second, Transport: &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	tb.Cleanup(b.wg.Wait)
	return b
}

// Open counts a start of the browser on link and, in the background, goes
// through with the sign-in. It fits oauth.Config.Open.
func (b *Browser) Open(ctx context.Context, link string) error {
	b.Ignore(link)
	ctx = context.WithoutCancel(ctx)
	b.wg.Go(func() { _, _ = b.Finish(ctx, link) })
	return nil
}

// Ignore counts a start of the browser on link, and nobody looks at it.
func (b *Browser) Ignore(link string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.opened = append(b.opened, link)
}

// Opened returns the links that the browser was started on.
func (b *Browser) Opened() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.opened...)
}

// Pages returns the pages at which Finish ended.
func (b *Browser) Pages() []Page {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]Page(nil), b.pages...)
}

// Get gets one address without following redirects.
func (b *Browser) Get(ctx context.Context, link string) (Page, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return Page{}, err
	}
	if strings.HasPrefix(link, b.server.URL) {
		req.Header.Set("X-Test-Person", b.Person)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		return Page{}, err
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
	return Page{Status: resp.StatusCode, Header: resp.Header, Body: string(body), URL: link}, err
}

var approve = regexp.MustCompile(`href="(/authorize/test\?req=[^"]+)"`)

// Callback goes through the sign-in up to the address the server sends the
// browser back to, and returns that without going there.
func (b *Browser) Callback(ctx context.Context, link string) (string, error) {
	for range 10 {
		p, err := b.Get(ctx, link)
		if err != nil {
			return "", err
		}
		next := p.Header.Get("Location")
		if m := approve.FindStringSubmatch(p.Body); next == "" && m != nil {
			next = m[1]
		}
		if next == "" {
			return "", fmt.Errorf("stopped at %s with status %d", link, p.Status)
		}
		base, err := url.Parse(link)
		if err != nil {
			return "", err
		}
		to, err := base.Parse(next)
		if err != nil {
			return "", err
		}
		if link = to.String(); to.Path == "/callback" {
			return link, nil
		}
	}
	return "", fmt.Errorf("redirected too often at %s", link)
}

// Finish goes through the whole sign-in and returns the page the person
// lands on.
func (b *Browser) Finish(ctx context.Context, link string) (Page, error) {
	back, err := b.Callback(ctx, link)
	if err != nil {
		return Page{}, err
	}
	p, err := b.Get(ctx, back)
	b.mu.Lock()
	defer b.mu.Unlock()
	if err == nil {
		b.pages = append(b.pages, p)
	}
	return p, err
}
