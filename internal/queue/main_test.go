package queue_test

import (
	"flag"
	"fmt"
	"os"
	"testing"

	"go.uber.org/goleak"
)

// soak makes the long tests as long as they are meant to be (make soak).
var soak = os.Getenv("BELLMAN_SOAK") != ""

// TestMain is also the child process of tests that need a real one, and fails
// the run when a goroutine outlives its queue.
func TestMain(m *testing.M) {
	if role := os.Getenv("BELLMAN_QUEUE_CHILD"); role != "" {
		os.Exit(child(role))
	}
	flag.Parse()
	steps, checks := "60", "50"
	if soak {
		steps, checks = "100", "1000"
	}
	for name, value := range map[string]string{"rapid.steps": steps, "rapid.checks": checks} {
		if f := flag.Lookup(name); f.Value.String() == f.DefValue {
			_ = f.Value.Set(value)
		}
	}
	code := m.Run()
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
