package budget_test

import (
	"testing"

	"bellman.sh/desktop/build/budget"
)

// A byte more than the budget is too much, a byte less is not.
func TestCheckRefusesWhatHasGrown(t *testing.T) {
	for name, limit := range map[string]int{
		"bellman.mcpb": 32e6, "bellman-darwin.mcpb": 12e6, "bellman-linux.mcpb": 12e6, "bellman-windows.mcpb": 12e6,
		"bellman-bridge.exe": 16e6, "bellman-bridge-linux-arm64": 16e6,
	} {
		if err := budget.Check(name, make([]byte, limit)); err != nil {
			t.Errorf("%s at its budget: %v", name, err)
		}
		if err := budget.Check(name, make([]byte, limit+1)); err == nil {
			t.Errorf("%s one byte beyond its budget was taken", name)
		}
	}
	for _, name := range []string{"bellman-hub-linux-amd64", "bellman-bridge.exe.cdx.json", "SHA256SUMS"} {
		if err := budget.Check(name, make([]byte, 40e6)); err != nil {
			t.Errorf("%s has no budget: %v", name, err)
		}
	}
	if err := budget.Check("bellman-bridge-darwin", make([]byte, 100)); err == nil {
		t.Error("what is no program was taken")
	}
}
