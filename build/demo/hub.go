package demo

import (
	"bufio"
	"context"
	"errors"
	"io"
	"os/exec"
	"strings"
	"syscall"
)

// hub is the embedded service.
type hub struct {
	cmd *exec.Cmd
	url string
	key string
}

// startHub starts the hub on a free port and returns once it says that it
// listens.
func startHub(ctx context.Context, program, data, keys string, log *logFile) (*hub, error) {
	h := &hub{cmd: exec.CommandContext(ctx, program, "serve", "--listen", "127.0.0.1:0", "--data", data)}
	h.cmd.Env = environment(map[string]string{"BELLMAN_KEYS": keys})
	stderr, err := h.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	r := bufio.NewReader(stderr)
	for {
		line, err := r.ReadString('\n')
		if err != nil {
			return h, errors.Join(errors.New("the hub ended: "+line), h.cmd.Wait())
		}
		if url, ok := strings.CutPrefix(strings.TrimSpace(line), "bellman-hub: listening on "); ok {
			h.url = url
			break
		}
		_, _ = log.Write([]byte(line))
	}
	go func() { _, _ = io.Copy(log, r) }() // ends with the process
	return h, nil
}

// stop ends the hub as an operator does.
func (h *hub) stop() error {
	if err := h.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		return err
	}
	return h.cmd.Wait()
}

func (h *hub) abandon() {
	if h.cmd.ProcessState == nil && h.cmd.Process != nil {
		_ = h.cmd.Process.Kill()
	}
}
