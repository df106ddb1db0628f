package hub

import (
	"cmp"
	"context"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// front is the address people reach the hub at. Everything else that arrives
// was meant for somebody else, or sent here by a web page that rebinds a name
// of its own to this machine. See design.md 7.
type front struct {
	scheme   string
	hosts    map[string]bool
	loopback bool
}

// CheckPublicURL reports why base cannot be Config.PublicURL: it is not an
// origin, a scheme and a host with nothing behind them, or it is a name for
// this machine while others reach the hub. What is open to whoever is on this
// machine would be open to them.
func CheckPublicURL(base string, others bool) error {
	f, err := newFront(base)
	if err != nil {
		return err
	}
	if others && f.loopback {
		return fmt.Errorf("public URL %q is this machine's name for itself, and others reach the hub", base)
	}
	return nil
}

func newFront(base string) (*front, error) {
	u, err := url.Parse(base)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil ||
		u.RawQuery != "" || u.Fragment != "" || strings.Trim(u.Path, "/") != "" {
		return nil, fmt.Errorf("public URL %q is not an origin such as https://bellman.example.com", base)
	}
	f := &front{scheme: u.Scheme, loopback: isLoopback(u.Hostname())}
	f.hosts = map[string]bool{f.plain(u.Host): true}
	if f.loopback {
		port := cmp.Or(u.Port(), defaultPorts[f.scheme])
		for _, name := range []string{"127.0.0.1", "localhost", "::1"} {
			f.hosts[f.plain(net.JoinHostPort(name, port))] = true
		}
	}
	return f, nil
}

var defaultPorts = map[string]string{"http": "80", "https": "443"}

// plain writes a host as browsers do: in lower case, without the port that
// the scheme implies.
func (f *front) plain(host string) string {
	return strings.TrimSuffix(strings.ToLower(host), ":"+defaultPorts[f.scheme])
}

// isLoopback reports whether a host name can only mean this machine.
func isLoopback(name string) bool {
	if strings.EqualFold(name, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(name)
	return err == nil && ip.IsLoopback()
}

type originKey struct{}

// originOf is the origin the request was sent to: issuer, and base of the
// resource, of every token that is asked for through it.
func originOf(ctx context.Context) string {
	origin, _ := ctx.Value(originKey{}).(string)
	return origin
}

// guard refuses what was not sent to the hub's own address, and what a page
// of another origin sent. Rooms that are public may be read from any page.
func (f *front) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := f.plain(r.Host)
		if !f.hosts[host] {
			http.Error(w, "this hub is not reached by that name", http.StatusMisdirectedRequest)
			return
		}
		origin := f.scheme + "://" + host
		if sent, ok := r.Header["Origin"]; ok && !strings.HasPrefix(r.URL.Path, "/public/") {
			if len(sent) != 1 || !strings.EqualFold(sent[0], origin) {
				http.Error(w, "this hub takes no requests from pages of another origin", http.StatusForbidden)
				return
			}
		}
		w.Header().Set("X-Content-Type-Options", "nosniff")
		next.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), originKey{}, origin)))
	})
}
