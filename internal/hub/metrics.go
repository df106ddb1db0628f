package hub

import (
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"bellman.sh/desktop/internal/hub/account"
)

// metrics are what an operator watches. No label holds anything a client
// chose.
type metrics struct {
	registry *prometheus.Registry
	requests *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	calls    *prometheus.CounterVec
	sockets  prometheus.Gauge
	limited  prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bellman_hub_requests_total", Help: "HTTP requests by route and status.",
		}, []string{"route", "code"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "bellman_hub_request_seconds", Help: "Time to answer an HTTP request, long polls included.",
			Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 5, 26},
		}, []string{"route"}),
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "bellman_hub_tool_calls_total", Help: "Tool calls by tool and outcome.",
		}, []string{"tool", "outcome"}),
		sockets: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "bellman_hub_sockets", Help: "Open room sockets.",
		}),
		limited: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "bellman_hub_rate_limited_total", Help: "Requests refused because a caller made too many.",
		}),
	}
	m.registry.MustRegister(m.requests, m.seconds, m.calls, m.sockets, m.limited,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// routeOf names a route without what a client put into it.
func routeOf(path string) string {
	first, _, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
	switch first {
	case "mcp", "ws", "healthz", "metrics", "account", "rooms", "presets", "public", "register", "authorize", "callback", "token", ".well-known":
		return first
	}
	return "other"
}

// counted notes how a request was answered.
type counted struct {
	http.ResponseWriter
	status int
}

func (c *counted) WriteHeader(status int) {
	if c.status == 0 {
		c.status = status
	}
	c.ResponseWriter.WriteHeader(status)
}

func (c *counted) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.status = http.StatusOK
	}
	return c.ResponseWriter.Write(b)
}

// Unwrap lets others reach the connection beneath.
func (c *counted) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// measure counts, times and logs every request. Neither says more of it than
// its route.
func (h *Hub) measure(next http.Handler) http.Handler {
	m := h.metrics
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c := &counted{ResponseWriter: w}
		start := time.Now()
		next.ServeHTTP(c, r)
		route := routeOf(r.URL.Path)
		m.requests.WithLabelValues(route, strconv.Itoa(c.status)).Inc()
		if route != "ws" {
			m.seconds.WithLabelValues(route).Observe(time.Since(start).Seconds())
		}
		h.log.DebugContext(r.Context(), "request", "route", route, "method", r.Method, "status", c.status, "took", time.Since(start))
	})
}

// serveMetrics is for whoever is on this machine, and for administrators.
func (h *Hub) serveMetrics(f *front) http.Handler {
	scrape := promhttp.HandlerFor(h.metrics.registry, promhttp.HandlerOpts{})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !f.loopback {
			who, ok, err := h.identify(r)
			if err != nil || !ok || who.Role != account.RoleAdmin {
				writeProblem(w, http.StatusForbidden, "forbidden", "metrics are for administrators")
				return
			}
		}
		scrape.ServeHTTP(w, r)
	})
}
