package hub

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"strings"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/sqlite"
)

// keyring knows the static keys: those given at the start, and those the
// operator added. Only digests are kept, so neither memory nor disk holds a
// key, and the look-up takes the same time for near misses.
type keyring struct {
	given map[string]Identity // by digest
	added sqlite.Shelf
}

func newKeyring(cfg Config, db *sqlite.DB) keyring {
	keys := maps.Clone(cfg.Keys)
	if keys == nil {
		keys = map[string]Identity{}
	}
	if cfg.DevKeys {
		maps.Copy(keys, account.DevKeys())
	}
	k := keyring{given: make(map[string]Identity, len(keys)), added: db.Shelf("keys")}
	for key, id := range keys {
		k.given[digest(key)] = id
	}
	return k
}

func digest(key string) string {
	sum := sha256.Sum256([]byte(key))
	return hex.EncodeToString(sum[:])
}

// find returns whose static key this is.
func (k keyring) find(ctx context.Context, key string) (Identity, bool, error) {
	d := digest(key)
	if id, ok := k.given[d]; ok {
		return id, true, nil
	}
	value, ok, err := k.added.Get(ctx, d)
	if err != nil || !ok {
		return Identity{}, false, err
	}
	var stored storedKey
	if err := json.Unmarshal(value, &stored); err != nil {
		return Identity{}, false, fmt.Errorf("read stored key: %w", err)
	}
	return stored.Identity, true, nil
}

// storedKey is a key the operator added, under its digest.
type storedKey struct {
	Name     string   `json:"name"`
	Identity Identity `json:"identity"`
}

// bearer returns the token of an Authorization header, empty when there is
// none.
func bearer(r *http.Request) string {
	scheme, token, ok := strings.Cut(r.Header.Get("Authorization"), " ")
	if !ok || !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(token)
}

// identify returns who sent the request: by access token first, then by
// static key.
func (h *Hub) identify(r *http.Request) (Identity, bool, error) {
	token := bearer(r)
	if token == "" {
		return Identity{}, false, nil
	}
	if id, ok := h.signin.Verify(originOf(r.Context()), token); ok {
		return id, true, nil
	}
	return h.keys.find(r.Context(), token)
}

type callerKey struct{}

// callerOf is who sent the request being handled.
func callerOf(ctx context.Context) Identity {
	id, _ := ctx.Value(callerKey{}).(Identity)
	return id
}

// challenge points a client without a valid token to the metadata it needs to
// get one.
func challenge(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("WWW-Authenticate",
		fmt.Sprintf("Bearer resource_metadata=%q", originOf(r.Context())+"/.well-known/oauth-protected-resource"))
}

// ParseKeys reads the JSON map from bearer key to identity that BELLMAN_KEYS
// holds. Errors never quote a key.
func ParseKeys(text string) (map[string]Identity, error) { return account.ParseKeys(text) }
