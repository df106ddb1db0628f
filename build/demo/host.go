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

	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader // read only while an answer is awaited
	id  int
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
	h.out = bufio.NewReaderSize(out, 4<<10)
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

// within runs one read, which cannot be interrupted, and gives up on it after
// a while: the process it reads from is ended when the demo fails.
func within[T any](ctx context.Context, read func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	done := make(chan outcome, 1)
	go func() {
		value, err := read()
		done <- outcome{value, err}
	}()
	limit := time.NewTimer(callLimit)
	defer limit.Stop()
	var none T
	select {
	case o := <-done:
		return o.value, o.err
	case <-limit.C:
		return none, fmt.Errorf("no answer in %s", callLimit)
	case <-ctx.Done():
		return none, ctx.Err()
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
	for {
		line, err := within(ctx, func() ([]byte, error) { return h.out.ReadBytes('\n') })
		if err != nil {
			return nil, fmt.Errorf("read from the bridge: %w", err)
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
	}
}

// answerBegins waits for the first bytes of a reply and reads no further: what
// does not fit into the pipe keeps the bridge writing.
func (h *host) answerBegins(ctx context.Context) error {
	_, err := within(ctx, func() ([]byte, error) { return h.out.Peek(1) })
	return err
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
	_ = h.cmd.Wait() // it reports the kill; what was in the pipe is lost with it
	return nil
}

// stop closes the bridge's input, as a host does, and returns how long the
// bridge took to leave.
func (h *host) stop() (time.Duration, error) {
	began := time.Now()
	if err := h.in.Close(); err != nil {
		return 0, err
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
	out, err := cmd.Output()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ok && exit.ExitCode() == 4 {
		return string(out), nil // nobody is signed in; the output says so
	}
	if ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
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
