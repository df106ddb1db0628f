package hub_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	// The default client keeps idle connections to hubs that are gone.
	goleak.VerifyTestMain(m,
		goleak.IgnoreAnyFunction("net/http.(*persistConn).readLoop"), goleak.IgnoreAnyFunction("net/http.(*persistConn).writeLoop"))
}

// rawJSON is JSON to be sent exactly as it is written.
func rawJSON(text string) json.RawMessage { return json.RawMessage(text) }

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), into); err != nil {
		t.Fatalf("decode %s: %v", text, err)
	}
}

func equal(a, b any) bool { return cmp.Equal(a, b) }
