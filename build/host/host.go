// Package host plays Claude Desktop for one MCP server on standard input and
// output, as far as checks and measurements need it: one conversation, from
// one goroutine.
package host

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strconv"
	"strings"

	"bellman.sh/desktop/build/mcpb"
)

// Server is a running process and the conversation with it. It is not safe
// for concurrent use.
type Server struct {
	cmd    *exec.Cmd
	in     io.WriteCloser
	out    *bufio.Reader
	stderr said
	id     int
}

// Start starts what launch says with the environment env and the launch's own
// on top. The process is killed when ctx ends, which also ends every call that
// waits for it. The caller must call Leave or Kill.
func Start(ctx context.Context, launch mcpb.Launch, env []string) (*Server, error) {
	s := &Server{cmd: exec.CommandContext(ctx, launch.Command, launch.Args...)}
	s.cmd.Env = env
	for key, value := range launch.Env {
		s.cmd.Env = append(s.cmd.Env, key+"="+value)
	}
	s.cmd.Stderr = &s.stderr
	var err error
	if s.in, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := s.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	s.out = bufio.NewReaderSize(out, 64<<10)
	if err := s.cmd.Start(); err != nil {
		return nil, fmt.Errorf("start %s: %w", launch.Command, err)
	}
	return s, nil
}

// PID is the number of the process.
func (s *Server) PID() int { return s.cmd.Process.Pid }

// Initialize completes the handshake.
func (s *Server) Initialize() error {
	_, err := s.Request("initialize", json.RawMessage(
		`{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"build","version":"1"}}`))
	if err != nil {
		return err
	}
	_, err = io.WriteString(s.in, `{"jsonrpc":"2.0","method":"notifications/initialized"}`+"\n")
	return err
}

// Tools returns the names of the tools in the order they are listed.
func (s *Server) Tools() ([]string, error) {
	result, err := s.Request("tools/list", struct{}{})
	if err != nil {
		return nil, err
	}
	var list struct {
		Tools []struct {
			Name string `json:"name"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(result, &list); err != nil {
		return nil, fmt.Errorf("read tools/list: %w", err)
	}
	names := make([]string, len(list.Tools))
	for i, t := range list.Tools {
		names[i] = t.Name
	}
	return names, nil
}

// Call calls a tool and reads its structured content into the value into,
// unless that is nil. A result that is an error is returned as one.
func (s *Server) Call(tool string, args, into any) error {
	result, err := s.Request("tools/call", map[string]any{"name": tool, "arguments": args})
	if err != nil {
		return err
	}
	return ReadResult(tool, result, into)
}

// ReadResult reads the result of a call as Call does.
func ReadResult(tool string, result json.RawMessage, into any) error {
	var r struct {
		IsError           bool            `json:"isError"`
		StructuredContent json.RawMessage `json:"structuredContent"`
		Content           json.RawMessage `json:"content"`
	}
	if err := json.Unmarshal(result, &r); err != nil {
		return fmt.Errorf("read the result of %s: %w", tool, err)
	}
	if r.IsError {
		return fmt.Errorf("%s: %s", tool, r.Content)
	}
	if into == nil {
		return nil
	}
	if err := json.Unmarshal(r.StructuredContent, into); err != nil {
		return fmt.Errorf("read the result of %s: %w", tool, err)
	}
	return nil
}

// Send sends a request without waiting for its answer, which Request passes
// over.
func (s *Server) Send(method string, params any) error {
	s.id++
	line, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": s.id, "method": method, "params": params})
	if err != nil {
		return err
	}
	if _, err := s.in.Write(append(line, '\n')); err != nil {
		return fmt.Errorf("send %s: %w", method, err)
	}
	return nil
}

// Request sends a request and returns its result. Other messages that arrive
// before it are passed over; a line that is not JSON is an error.
func (s *Server) Request(method string, params any) (json.RawMessage, error) {
	if err := s.Send(method, params); err != nil {
		return nil, err
	}
	return s.answer(method, s.id)
}

// Receive returns the result of the last request that was sent.
func (s *Server) Receive() (json.RawMessage, error) { return s.answer("the last request", s.id) }

// Begins waits until something of an answer is there and reads no further than
// one pipe's worth: what does not fit behind it keeps the server writing.
func (s *Server) Begins() error {
	_, err := s.out.Peek(1)
	return err
}

// Said is what the server wrote to standard error.
func (s *Server) Said() string { return s.stderr.String() }

// Await reads the answer to the call of tool that was sent before the last
// request, as Call does. That call must not have been answered yet.
func (s *Server) Await(tool string, into any) error {
	result, err := s.answer(tool, s.id-1)
	if err != nil {
		return err
	}
	return ReadResult(tool, result, into)
}

func (s *Server) answer(method string, id int) (json.RawMessage, error) {
	for {
		line, err := s.out.ReadBytes('\n')
		if err != nil {
			return nil, fmt.Errorf("read the answer to %s: %w", method, err)
		}
		var m struct {
			ID     json.RawMessage `json:"id"`
			Result json.RawMessage `json:"result"`
			Error  json.RawMessage `json:"error"`
		}
		if err := json.Unmarshal(line, &m); err != nil {
			return nil, fmt.Errorf("read the answer to %s: %w", method, err)
		}
		if string(m.ID) != strconv.Itoa(id) || m.Result == nil && m.Error == nil {
			continue
		}
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, m.Error)
		}
		return m.Result, nil
	}
}

// Leave closes the server's input and waits for it to go by itself. What it
// said on standard error is in the error.
func (s *Server) Leave() error {
	closed := s.in.Close()
	if err := errors.Join(closed, s.cmd.Wait()); err != nil {
		return fmt.Errorf("%w; it said: %s", err, strings.TrimSpace(s.stderr.String()))
	}
	return nil
}

// Kill ends the process at once and waits for it.
func (s *Server) Kill() {
	_ = s.cmd.Process.Kill()
	_ = s.cmd.Wait() // it was killed, which is no news
}
