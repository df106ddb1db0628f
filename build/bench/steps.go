package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"bellman.sh/desktop/build/host"
	"bellman.sh/desktop/build/mcpb"
)

// calls is how often a call is repeated for a median.
const calls = 300

// proxy measures what the bridge adds to a call that is also made directly,
// and what mcp-remote adds in the same run.
func (b *bench) proxy(ctx context.Context, s *service) error {
	direct, err := sample(calls, func() error { return s.call(ctx, ada, "bellman_rooms", struct{}{}, nil) })
	if err != nil {
		return err
	}
	bridge, err := b.bridge(ctx, s.endpoint(), ada)
	if err != nil {
		return err
	}
	ours, err := b.through(bridge)
	if err != nil {
		return err
	}
	base := quantile(direct, 0.5)
	added := quantile(ours, 0.5) - base
	b.report("proxy", "direct_p50", milliseconds(base), "ms")
	b.report("proxy", "added_p50", milliseconds(added), "ms")
	b.report("proxy", "p99", milliseconds(quantile(ours, 0.99)), "ms")
	if b.Remote == "" {
		return nil
	}
	remote, err := host.Start(ctx, mcpb.Launch{
		Command: b.Remote,
		Args:    []string{s.endpoint(), "--allow-http", "--transport", "http-only", "--header", "Authorization:Bearer " + ada},
		Env:     map[string]string{"MCP_REMOTE_CONFIG_DIR": filepath.Join(b.Work, "mcp-remote")},
	}, os.Environ())
	if err != nil {
		return err
	}
	theirs, err := b.through(remote)
	if err != nil {
		return fmt.Errorf("mcp-remote: %w", err)
	}
	b.report("proxy", "mcp_remote_added_p50", milliseconds(quantile(theirs, 0.5)-base), "ms")
	b.report("proxy", "ratio_to_mcp_remote", float64(added)/float64(quantile(theirs, 0.5)-base), "x")
	return nil
}

// through measures the call through a server on standard input and output,
// which it ends.
func (b *bench) through(s *host.Server) ([]time.Duration, error) {
	defer s.Kill()
	if err := s.Initialize(); err != nil {
		return nil, err
	}
	call := func() error { return s.Call("bellman_rooms", struct{}{}, nil) }
	if _, err := sample(20, call); err != nil { // connections, caches
		return nil, err
	}
	return sample(calls, call)
}

// seats are the two handles in a room.
type seats struct{ session, ada, ben string }

// meet lets the bridge of ada start a room and ben join it directly.
func (b *bench) meet(ctx context.Context, bridge *host.Server, s *service) (seats, error) {
	var started struct {
		SessionID string `json:"session_id"`
		MemberID  string `json:"member_id"`
		JoinCode  string `json:"join_code"`
	}
	brief := map[string]any{"goal": "measure", "state": "measuring", "agent": map[string]string{"provider": "bench", "model": "bench", "client": "bench"}}
	err := bridge.Call("bellman_start", map[string]any{
		"manifest": map[string]any{"room": "bench", "preset": "pair"}, "brief": brief,
		"capabilities": []string{"read_context", "receive_messages", "request_actions"},
	}, &started)
	if err != nil {
		return seats{}, err
	}
	var preview struct {
		ConnectToken string `json:"connect_token"`
	}
	if err := s.call(ctx, ben, "bellman_connect", map[string]any{"join_code": started.JoinCode}, &preview); err != nil {
		return seats{}, err
	}
	var joined struct {
		MemberID string `json:"member_id"`
	}
	if err := s.call(ctx, ben, "bellman_confirm", map[string]any{"connect_token": preview.ConnectToken, "brief": brief}, &joined); err != nil {
		return seats{}, err
	}
	return seats{started.SessionID, started.MemberID, joined.MemberID}, nil
}

// wait measures from the moment a peer sends to the return of a waiting
// bellman_wait, the hub's own work included; and a quick call while 64 waits
// are open.
func (b *bench) wait(ctx context.Context, s *service) error {
	bridge, err := b.bridge(ctx, s.endpoint(), ada)
	if err != nil {
		return err
	}
	defer bridge.Kill()
	if err := bridge.Initialize(); err != nil {
		return err
	}
	room, err := b.meet(ctx, bridge, s)
	if err != nil {
		return err
	}
	if err := drain(bridge); err != nil {
		return err
	}
	woken, err := b.wakeUps(ctx, bridge, s, room)
	if err != nil {
		return err
	}
	b.report("wait", "send_to_return_p50", milliseconds(quantile(woken, 0.5)), "ms")
	b.report("wait", "send_to_return_p99", milliseconds(quantile(woken, 0.99)), "ms")
	for range 64 {
		if err := bridge.Send("tools/call", map[string]any{"name": "bellman_wait", "arguments": map[string]any{"wait_seconds": 25}}); err != nil {
			return err
		}
	}
	quick, err := sample(50, func() error { return bridge.Call("bellman_whoami", struct{}{}, nil) })
	if err != nil {
		return err
	}
	b.report("wait", "quick_call_beside_64_p50", milliseconds(quantile(quick, 0.5)), "ms")
	return nil
}

// drain takes what is queued, such as that the peer has joined.
func drain(bridge *host.Server) error {
	for {
		var w struct{ Count int }
		if err := bridge.Call("bellman_wait", map[string]any{"wait_seconds": 1}, &w); err != nil || w.Count == 0 {
			return err
		}
	}
}

func (b *bench) wakeUps(ctx context.Context, bridge *host.Server, s *service, room seats) ([]time.Duration, error) {
	var list []time.Duration
	for i := range 200 {
		if err := bridge.Send("tools/call", map[string]any{"name": "bellman_wait", "arguments": map[string]any{"wait_seconds": 20}}); err != nil {
			return nil, err
		}
		// A call that is answered shows that the wait before it is waiting.
		if err := bridge.Call("bellman_whoami", struct{}{}, nil); err != nil {
			return nil, err
		}
		began := time.Now()
		sent := make(chan error, 1)
		go func() {
			sent <- s.call(ctx, ben, "bellman_send", map[string]any{
				"session_id": room.session, "member_id": room.ben, "type": "message", "payload": map[string]any{"text": strconv.Itoa(i)},
			}, nil)
		}()
		var w struct{ Count int }
		err := bridge.Await("bellman_wait", &w)
		took := time.Since(began)
		if err := errors.Join(err, <-sent); err != nil {
			return nil, err
		}
		if w.Count != 1 {
			return nil, fmt.Errorf("bellman_wait returned %d events, want 1", w.Count)
		}
		list = append(list, took)
	}
	return list, nil
}

// upload measures a large file on its way to a room.
func (b *bench) upload(ctx context.Context, s *service) error {
	root := filepath.Join(b.Work, "files")
	if err := os.MkdirAll(root, 0o700); err != nil {
		return err
	}
	const size = 20 << 20
	if err := os.WriteFile(filepath.Join(root, "large.bin"), make([]byte, size), 0o600); err != nil {
		return err
	}
	bridge, err := b.bridge(ctx, s.endpoint(), ada, "BELLMAN_UPLOAD_ROOT", root)
	if err != nil {
		return err
	}
	defer bridge.Kill()
	if err := bridge.Initialize(); err != nil {
		return err
	}
	room, err := b.meet(ctx, bridge, s)
	if err != nil {
		return err
	}
	took, err := sample(5, func() error {
		return bridge.Call("bellman_upload", map[string]any{"session_id": room.session, "member_id": room.ada, "path": "large.bin", "key": "large"}, nil)
	})
	if err != nil {
		return err
	}
	b.report("upload", "rate_20_mib", size/1e6/quantile(took, 0.5).Seconds(), "MB/s")
	return nil
}

// memory measures an idle bridge that watches ten rooms.
func (b *bench) memory(ctx context.Context, s *service) error {
	bridge, err := b.bridge(ctx, s.endpoint(), ada)
	if err != nil {
		return err
	}
	defer bridge.Kill()
	if err := bridge.Initialize(); err != nil {
		return err
	}
	for range 10 {
		if _, err := b.meet(ctx, bridge, s); err != nil {
			return err
		}
	}
	if err := drain(bridge); err != nil {
		return err
	}
	resident, err := residentMiB(bridge.PID())
	if err != nil {
		return err
	}
	b.report("memory", "idle_10_rooms", resident, "MiB")
	return nil
}

// residentMiB reads how much of a process is in memory. Only Linux tells.
func residentMiB(pid int) (float64, error) {
	data, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, err
	}
	for line := range strings.Lines(string(data)) {
		if value, ok := strings.CutPrefix(line, "VmRSS:"); ok {
			kib, err := strconv.ParseFloat(strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(value), "kB")), 64)
			return kib / 1024, err
		}
	}
	return 0, errors.New("the system does not tell how much memory a process has")
}
