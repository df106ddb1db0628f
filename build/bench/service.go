package bench

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"syscall"

	"bellman.sh/desktop/build/host"
)

// Keys of the two people in every measurement. They open a hub that listens on
// loopback for as long as the run takes.
const (
	ada = "bench_ada_0123456789abcdef0123456789abcdef"
	ben = "bench_ben_0123456789abcdef0123456789abcdef"
)

// service is a hub and a plain HTTP client of it.
type service struct {
	cmd     *exec.Cmd
	drained chan struct{}
	url     string
	client  http.Client
	id      int
}

// startService starts the hub on a free port and returns once it listens.
func startService(ctx context.Context, program, data string) (*service, error) {
	people := map[string]any{}
	for key, name := range map[string]string{ada: "ada", ben: "ben"} {
		people[key] = map[string]any{"userId": "u_" + name, "orgId": nil, "plan": "team", "role": "member", "label": name}
	}
	keys, err := json.Marshal(people)
	if err != nil {
		return nil, err
	}
	s := &service{drained: make(chan struct{})}
	s.cmd = exec.CommandContext(ctx, program, "serve", "--listen", "127.0.0.1:0", "--data", data, "--rate", "0")
	s.cmd.Env = append(os.Environ(), "BELLMAN_KEYS="+string(keys))
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	r := bufio.NewReader(stderr)
	for s.url == "" {
		line, err := r.ReadString('\n')
		if err != nil {
			return nil, errors.Join(fmt.Errorf("it said %q", line), s.cmd.Wait())
		}
		s.url, _ = strings.CutPrefix(strings.TrimSpace(line), "bellman-hub: listening on ")
		if !strings.HasPrefix(s.url, "http") {
			s.url = ""
		}
	}
	go func() {
		defer close(s.drained)
		_, _ = io.Copy(io.Discard, r) // ends with the process
	}()
	return s, nil
}

func (s *service) stop() {
	s.client.CloseIdleConnections()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	<-s.drained
	_ = s.cmd.Wait()
}

func (s *service) endpoint() string { return s.url + "/mcp" }

// call calls a tool directly, as the plainest client there can be.
func (s *service) call(ctx context.Context, key, tool string, args, into any) error {
	s.id++
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": s.id, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args},
	})
	if err != nil {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, s.endpoint(), bytes.NewReader(body))
	if err != nil {
		return err
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Accept", "application/json, text/event-stream")
	req.Header.Set("MCP-Protocol-Version", "2025-06-18")
	res, err := s.client.Do(req)
	if err != nil {
		return err
	}
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		return fmt.Errorf("%s: %s: %s", tool, res.Status, answer)
	}
	if _, data, stream := bytes.Cut(answer, []byte("data: ")); stream {
		answer, _, _ = bytes.Cut(data, []byte("\n"))
	}
	var m struct {
		Result json.RawMessage `json:"result"`
		Error  json.RawMessage `json:"error"`
	}
	if err := json.Unmarshal(answer, &m); err != nil {
		return fmt.Errorf("read the answer to %s: %w", tool, err)
	}
	if m.Error != nil {
		return fmt.Errorf("%s: %s", tool, m.Error)
	}
	return host.ReadResult(tool, m.Result, into)
}
