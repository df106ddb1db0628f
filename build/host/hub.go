package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
)

// Person is somebody with a static key of a hub.
type Person struct{ ID, Label, Plan string }

// Hub is a running hub. The caller must call Stop or Kill.
type Hub struct {
	URL string // its origin

	cmd     *exec.Cmd
	said    said
	drained chan struct{}
}

// StartHub starts the hub program on a free port with its state in data and
// these people by their keys, and returns once it listens. The process is
// killed when ctx ends.
func StartHub(ctx context.Context, program, data string, people map[string]Person, args ...string) (*Hub, error) {
	identities := map[string]any{}
	for key, p := range people {
		identities[key] = map[string]any{"userId": p.ID, "orgId": nil, "plan": p.Plan, "role": "member", "label": p.Label}
	}
	keys, err := json.Marshal(identities)
	if err != nil {
		return nil, err
	}
	h := &Hub{drained: make(chan struct{})}
	h.cmd = exec.CommandContext(ctx, program, append([]string{"serve", "--listen", "127.0.0.1:0", "--data", data}, args...)...)
	h.cmd.Env = append(os.Environ(), "BELLMAN_KEYS="+string(keys))
	stderr, err := h.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", program, err)
	}
	r := bufio.NewReader(io.TeeReader(stderr, &h.said))
	for h.URL == "" {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, errors.Join(fmt.Errorf("the hub ended; it said: %s", line), h.cmd.Wait())
		}
		h.URL, _ = strings.CutPrefix(strings.TrimSpace(line), "bellman-hub: listening on ")
		if !strings.HasPrefix(h.URL, "http") {
			h.URL = ""
		}
	}
	go func() {
		defer close(h.drained)
		_, _ = io.Copy(io.Discard, r) // ends with the process
	}()
	return h, nil
}

// Stop ends the hub as an operator does and waits for it.
func (h *Hub) Stop() error {
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	<-h.drained
	return h.cmd.Wait()
}

// Kill ends a hub that still runs.
func (h *Hub) Kill() {
	if h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
	}
}

// Said is what the hub wrote to standard error.
func (h *Hub) Said() string { return h.said.String() }

// said collects what a process says while somebody else may be reading it.
type said struct {
	mu   sync.Mutex
	text strings.Builder
}

// Write implements io.Writer.
func (s *said) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(p)
}

// String returns all of it.
func (s *said) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}
