// Package hub is a Bellman service on one machine: rooms over MCP, the room
// socket, blobs, and its own authorization server. It is what a team hosts and
// what every test of the bridge talks to. See design.md 7, protocol.md.
//
// # Signing in by script
//
// GET /authorize, as the client builds it, answers with an HTML form that sets
// a cookie. Its fields are csrf (hidden, to be sent back as it came, with the
// cookie), req (hidden, likewise) and name (text, the name to go by). POST
// them form-encoded to /authorize/local; the answer is a 303 to the client's
// redirect_uri. The form exists only on a hub that is reached over loopback.
package hub

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"time"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/blob"
	"bellman.sh/desktop/internal/hub/room"
	"bellman.sh/desktop/internal/hub/signin"
	"bellman.sh/desktop/internal/hub/sqlite"
)

// Identity is who a bearer token is.
type Identity = account.Identity

// Provider is an OpenID Connect provider.
type Provider = signin.OIDC

// Config says what a hub is made of.
type Config struct {
	// Data is the directory of all state, or ":memory:" for none.
	Data string
	// Keys are the static bearer keys, as in BELLMAN_KEYS.
	Keys map[string]Identity
	// DevKeys adds the three development keys. Never on a hub others reach.
	DevKeys bool
	// PublicURL is the origin people reach the hub at, when it is not the one
	// it listens on. It fixes issuer and resource.
	PublicURL string
	// Version is what the hub calls itself to MCP clients.
	Version string
	// Provider signs people in. Without one they give a name, which works over
	// loopback alone.
	Provider *Provider
	// Rate is how many requests a second one credential may make; 0 is no
	// limit. An address may stand for twenty of them.
	Rate float64
	// BehindProxy says that the last address in X-Forwarded-For is the
	// client's.
	BehindProxy bool
	// Now is the clock of everything that is dated or expires; time.Now when
	// nil.
	Now func() time.Time
	// Log gets what the operator should see; never content or credentials.
	Log *slog.Logger
}

// Hub is an open hub. Its methods may be called from many goroutines.
type Hub struct {
	config  Config
	now     func() time.Time
	log     *slog.Logger
	db      *sqlite.DB
	blobs   *blob.Store
	house   *room.House
	signin  *signin.Server
	keys    keyring
	tools   map[string]tool
	metrics *metrics
	connect sqlite.Shelf // previews waiting for their confirmation
	presets sqlite.Shelf
	creates sqlite.Shelf

	public   *front // of Config.PublicURL, or nil
	sockets  sync.WaitGroup
	stopping chan struct{} // closed when polls and sockets are to end
	stop     sync.Once
	end      context.CancelFunc // ends the chores
	chores   sync.WaitGroup
}

// Open opens the state under cfg.Data, creating it when there is none. Errors
// name the path; a directory in use and a database that is not a hub's are
// among them.
func Open(ctx context.Context, cfg Config) (*Hub, error) {
	if cfg.Now == nil {
		cfg.Now = time.Now
	}
	if cfg.Data == "" {
		return nil, errors.New("open hub: no data directory given")
	}
	var public *front
	if cfg.PublicURL != "" {
		var err error
		if public, err = newFront(cfg.PublicURL); err != nil {
			return nil, err
		}
	}
	path := cfg.Data
	if path != memory {
		path = filepath.Join(cfg.Data, "hub.db")
	}
	db, err := sqlite.Open(ctx, sqlite.Options{Path: path, Now: cfg.Now, Log: cfg.Log})
	if err != nil {
		return nil, err
	}
	blobDir := ""
	if cfg.Data != memory {
		blobDir = filepath.Join(cfg.Data, "blobs")
	}
	blobs, err := blob.Open(blobDir)
	if err != nil {
		return nil, errors.Join(err, db.Close())
	}
	h := &Hub{
		config: cfg, now: cfg.Now, log: cfg.Log, db: db,
		blobs: blobs, house: room.NewHouse(db, cfg.Now, blobs.Remove),
		keys:    newKeyring(cfg, db),
		connect: db.Shelf("connects"), presets: db.Shelf("presets"), creates: db.Shelf("creates"),
		metrics: newMetrics(), public: public, stopping: make(chan struct{}),
	}
	if h.tools, err = h.toolTable(); err != nil {
		return nil, errors.Join(err, h.release())
	}
	if h.signin, err = signin.New(ctx, signin.Options{Shelves: db, Now: cfg.Now, Log: cfg.Log, Provider: cfg.Provider}); err != nil {
		return nil, errors.Join(fmt.Errorf("open authorization server: %w", err), h.release())
	}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	h.end = end
	h.chores.Go(func() { h.doChores(life) })
	h.log.InfoContext(ctx, "hub open", "data", cfg.Data)
	return h, nil
}

// memory is the Data of a hub that keeps nothing.
const memory = ":memory:"

// EndPolls lets every long poll answer at once and closes the sockets, so that
// a server can stop gracefully. Calls that do not wait go on working until
// Close.
func (h *Hub) EndPolls() {
	h.stop.Do(func() {
		close(h.stopping)
		h.house.Close()
	})
}

// Close ends polls and sockets, waits for them, and closes the state. The
// HTTP server should have stopped by then.
func (h *Hub) Close() error {
	h.EndPolls()
	h.sockets.Wait()
	h.end()
	h.chores.Wait()
	return h.release()
}

func (h *Hub) release() error { return errors.Join(h.blobs.Close(), h.db.Close()) }

// Handler serves the hub to clients that reach it at base, an origin such as
// http://127.0.0.1:3900. On loopback the other spellings of the same address
// work as well. Config.PublicURL takes the place of base when it is set. A
// handler for a base that is no origin refuses everything.
func (h *Hub) Handler(base string) http.Handler {
	f := h.public
	if f == nil {
		var err error
		if f, err = newFront(base); err != nil {
			h.log.Error("serve hub", "error", err)
			f = &front{}
		}
	}
	return h.measure(f.guard(h.limit(h.routes(f))))
}
