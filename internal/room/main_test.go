package room_test

import (
	"testing"

	"go.uber.org/goleak"
)

// No test leaves a goroutine behind, whatever became of its network.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
