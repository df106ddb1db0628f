package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"

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
	hub    *host.Hub
	url    string
	client http.Client
	id     int
}

// startService starts the hub and a client of it.
func startService(ctx context.Context, program, data string) (*service, error) {
	hub, err := host.StartHub(ctx, program, data, map[string]host.Person{
		ada: {ID: "u_ada", Label: "ada", Plan: "team"},
		ben: {ID: "u_ben", Label: "ben", Plan: "team"},
	}, "--rate", "0")
	if err != nil {
		return nil, err
	}
	return &service{hub: hub, url: hub.URL}, nil
}

func (s *service) stop() {
	s.client.CloseIdleConnections()
	_ = s.hub.Stop() // what was measured is measured
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
