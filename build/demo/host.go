package demo

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
	"time"

	"bellman.sh/desktop/build/mcpb"
)

// callLimit is how long the demo waits for anything.
const callLimit = 60 * time.Second

// host plays Claude Desktop for one bridge: it starts the process and talks
// MCP to it over its standard streams.
type host struct {
	name   string
	launch mcpb.Launch
	env    []string
	log    *logFile

	cmd   *exec.Cmd
	in    io.WriteCloser
	lines chan []byte // what the bridge wrote, read only while somebody wants it
	id    int
}

// logFile collects what processes say on stderr, shown only when a step fails.
type logFile struct {
	mu   sync.Mutex
	text strings.Builder
}

func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logFile) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// start starts the bridge and completes the handshake.
func (h *host) start(ctx context.Context) (tools []string, err error) {
	h.cmd = exec.CommandContext(ctx, h.launch.Command, h.launch.Args...)
	h.cmd.Env = h.env
	h.cmd.Stderr = h.log
	if h.in, err = h.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := h.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.cmd.Start(); err != nil {
		return nil, err
	}
	h.lines = make(chan []byte) // unbuffered: a host that does not read leaves the pipe full
	go read(out, h.lines)
	_, err = h.request(ctx, "initialize", map[string]any{
		"protocolVersion": "2025-06-18", "capabilities": map[string]any{},
		"clientInfo": map[string]string{"name": "demo host", "version": "1"},
	})
	if err != nil {
		return nil, err
	}
	if err := h.write(map[string]any{"jsonrpc": "2.0", "method": "notifications/initialized"}); err != nil {
		return nil, err
	}
	raw, err := h.request(ctx, "tools/list", nil)
	if err != nil {
		return nil, err
	}
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	for _, t := range list.Tools {
		tools = append(tools, t.Name)
	}
	return tools, nil
}

// read hands lines on one at a time and ends with the stream.
func read(out io.Reader, lines chan<- []byte) {
	defer close(lines)
	r := bufio.NewReaderSize(out, 4<<10)
	for {
		line, err := r.ReadBytes('\n')
		if err != nil {
			return
		}
		lines <- line
	}
}

func (h *host) write(message any) error {
	line, err := json.Marshal(message)
	if err != nil {
		return err
	}
	_, err = h.in.Write(append(line, '\n'))
	return err
}

// send writes a request and does not wait for its answer.
func (h *host) send(method string, params any) (id int, err error) {
	h.id++
	message := map[string]any{"jsonrpc": "2.0", "id": h.id, "method": method}
	if params != nil {
		message["params"] = params
	}
	return h.id, h.write(message)
}

func (h *host) request(ctx context.Context, method string, params any) (json.RawMessage, error) {
	id, err := h.send(method, params)
	if err != nil {
		return nil, err
	}
	return h.answer(ctx, id)
}

// answer reads until the reply to id. Notifications are passed over.
func (h *host) answer(ctx context.Context, id int) (json.RawMessage, error) {
	limit := time.NewTimer(callLimit)
	defer limit.Stop()
	for {
		select {
		case line, ok := <-h.lines:
			if !ok {
				return nil, errors.New("the bridge closed its output")
			}
			var m struct {
				ID     *int            `json:"id"`
				Result json.RawMessage `json:"result"`
				Error  *struct {
					Message string `json:"message"`
				} `json:"error"`
			}
			if err := json.Unmarshal(line, &m); err != nil {
				return nil, fmt.Errorf("the bridge wrote something that is not JSON-RPC: %.80q", line)
			}
			switch {
			case m.ID == nil || *m.ID != id:
			case m.Error != nil:
				return nil, errors.New(m.Error.Message)
			default:
				return m.Result, nil
			}
		case <-limit.C:
			return nil, fmt.Errorf("no answer in %s", callLimit)
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// result is a tool's answer.
type result struct {
	Content []struct {
		Text string `json:"text"`
	} `json:"content"`
	Structured json.RawMessage `json:"structuredContent"`
	IsError    bool            `json:"isError"`
}

func (r result) text() string {
	if len(r.Content) == 0 {
		return ""
	}
	return r.Content[0].Text
}

// call calls a tool and decodes what came back into into, unless that is nil.
// A tool that answers with an error is a failure, returned with the result.
func (h *host) call(ctx context.Context, tool string, args map[string]any, into any) (result, error) {
	raw, err := h.request(ctx, "tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return result{}, fmt.Errorf("%s: %w", tool, err)
	}
	var r result
	if err := json.Unmarshal(raw, &r); err != nil {
		return r, fmt.Errorf("%s: %w", tool, err)
	}
	if r.IsError {
		return r, fmt.Errorf("%s: %s", tool, r.text())
	}
	if into != nil {
		if err := json.Unmarshal(r.Structured, into); err != nil {
			return r, fmt.Errorf("%s: %w", tool, err)
		}
	}
	return r, nil
}

// kill ends the bridge as a crash or the task manager does.
func (h *host) kill() error {
	if err := h.cmd.Process.Kill(); err != nil {
		return err
	}
	for range h.lines { // what was in the pipe is lost with it
	}
	_ = h.cmd.Wait() // it reports the kill
	return nil
}

// stop closes the bridge's input, as a host does, and returns how long the
// bridge took to leave.
func (h *host) stop() (time.Duration, error) {
	began := time.Now()
	if err := h.in.Close(); err != nil {
		return 0, err
	}
	for range h.lines {
	}
	err := h.cmd.Wait()
	return time.Since(began), err
}

// abandon ends whatever is still running.
func (h *host) abandon() {
	if h.cmd != nil && h.cmd.Process != nil && h.cmd.ProcessState == nil {
		_ = h.cmd.Process.Kill()
	}
}

// command runs a subcommand of the same bridge in the same place.
func (h *host) command(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, h.launch.Command, append(append([]string{}, h.launch.Args...), name)...)
	cmd.Env = h.env
	cmd.Stderr = h.log
	out, err := cmd.Output()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && exit.ExitCode() == 4 {
		err = nil // nobody is signed in; the output says so
	}
	return string(out), err
}

// environment is ours with the host's additions, the last of a name winning.
func environment(add ...map[string]string) []string {
	env := os.Environ()
	for _, m := range add {
		for k, v := range m {
			env = append(env, k+"="+v)
		}
	}
	return env
}
