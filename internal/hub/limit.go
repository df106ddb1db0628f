package hub

import (
	"cmp"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// burst is how many seconds' worth of requests may come at once.
	burst = 5
	// crowd is how many callers one address may stand for.
	crowd = 20
	// maxCallers bounds the memory of the limiter.
	maxCallers = 20000
)

// limiter holds every credential, and every address, to a rate of requests.
type limiter struct {
	rate rate.Limit

	mu      sync.Mutex
	callers map[string]*caller
}

type caller struct {
	bucket *rate.Limiter
	seen   time.Time
}

func newLimiter(perSecond float64) *limiter {
	return &limiter{rate: rate.Limit(perSecond), callers: map[string]*caller{}}
}

// allow spends one request of a caller.
func (l *limiter) allow(key string, share float64) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	c := l.callers[key]
	if c == nil {
		if len(l.callers) >= maxCallers {
			l.forget(now)
		}
		limit := l.rate * rate.Limit(share)
		c = &caller{bucket: rate.NewLimiter(limit, max(1, int(float64(limit)*burst)))}
		l.callers[key] = c
	}
	c.seen = now
	return c.bucket.AllowN(now, 1)
}

// forget drops the callers whose buckets have filled up again, and everybody
// when there are none.
func (l *limiter) forget(now time.Time) {
	for key, c := range l.callers {
		if now.Sub(c.seen) > 2*burst*time.Second {
			delete(l.callers, key)
		}
	}
	if len(l.callers) >= maxCallers {
		clear(l.callers)
	}
}

// address is where a request came from. Behind a proxy it is what the proxy
// appended, in the last line of the header: anything before that the client
// could have written. Of an IPv6 address it is the network, for who has one
// address of a network has all of them.
func (h *Hub) address(r *http.Request) string {
	address, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		address = r.RemoteAddr
	}
	if lines := r.Header.Values("X-Forwarded-For"); h.config.BehindProxy && len(lines) > 0 {
		hops := strings.Split(lines[len(lines)-1], ",")
		address = cmp.Or(strings.TrimSpace(hops[len(hops)-1]), address)
	}
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return address
	}
	if ip = ip.Unmap(); ip.Is4() || ip.IsLoopback() {
		return ip.String()
	}
	return netip.PrefixFrom(ip.WithZone(""), 64).Masked().String()
}

// limit refuses requests beyond the rate.
func (h *Hub) limit(next http.Handler) http.Handler {
	if h.config.Rate <= 0 {
		return next
	}
	l := newLimiter(h.config.Rate)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ok := l.allow("address "+h.address(r), crowd)
		if token := bearer(r); ok && token != "" {
			ok = l.allow("token "+digest(token), 1)
		}
		if !ok {
			h.metrics.limited.Inc()
			w.Header().Set("Retry-After", "1")
			writeProblem(w, http.StatusTooManyRequests, "too_many_requests", "too many requests: wait a second")
			return
		}
		next.ServeHTTP(w, r)
	})
}

// register counts registrations by address, except those from this machine:
// everybody on it shares the one address.
func (h *Hub) register(w http.ResponseWriter, r *http.Request) {
	address := h.address(r)
	if ip, err := netip.ParseAddr(address); err == nil && ip.IsLoopback() && !h.config.BehindProxy {
		address = ""
	}
	h.signin.Register(w, r, address)
}
