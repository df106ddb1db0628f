package tools

import (
	"crypto/rand"
	"encoding/json"
)

// withIdempotencyKey gives a bellman_send that has none a key of its own, so
// that it can be repeated when its answer is lost. It returns the params and
// the key they carry. Params that are no object pass on for the service to
// refuse.
func withIdempotencyKey(params json.RawMessage) (json.RawMessage, string) {
	p, args, err := arguments(params)
	if err != nil {
		return params, ""
	}
	if raw := args.get("idempotency_key"); raw != nil {
		return params, args.text("idempotency_key")
	}
	key := "bridge-" + rand.Text()
	args.set("idempotency_key", encode(key))
	p.set("arguments", args.raw())
	return p.raw(), key
}
