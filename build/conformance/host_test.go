package conformance_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/cookiejar"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// host is a host's end of the pipe to one bridge, used by one goroutine.
type host struct {
	in   io.WriteCloser
	out  *bufio.Scanner
	last int
	// changed is set when the bridge has said that its tools are others.
	changed bool
}

// message is a line of either side.
type message struct {
	ID     json.RawMessage `json:"id"`
	Method string          `json:"method"`
	Result json.RawMessage `json:"result"`
	Error  json.RawMessage `json:"error"`
}

// callsOf are the tools the host calls in a scenario that is not about
// sign-in. Those of the others have one tool, test-tool.
var callsOf = map[string][]string{
	"initialize":                       {"test-tool"},
	"tools_call":                       {"add_numbers"},
	"sse-retry":                        {"test_reconnection"},
	"json-schema-2020-12-preservation": {"json_schema_2020_12_tool", "json_schema_echo"},
	"prime":                            {"test_simple_text"},
}

// playHost is the client the suite runs: it starts the bridge against url on a
// state of its own and makes the scenario's calls.
func playHost(ctx context.Context, url string) (err error) {
	ctx, cancel := context.WithTimeout(ctx, 100*time.Second)
	defer cancel()
	dir, err := os.MkdirTemp("", "host-")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	if err := putBrowser(dir); err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, os.Getenv("CONFORMANCE_BRIDGE"),
		"--url", url, "--state-dir", filepath.Join(dir, "state"), "--credential-store", "memory")
	scenario := os.Getenv("MCP_CONFORMANCE_SCENARIO")
	if !strings.HasPrefix(scenario, "auth/") {
		cmd.Args = append(cmd.Args, "--key", "qk_dev_conformance") // the server asks for none
	}
	cmd.Env = append(os.Environ(), "HOME="+dir, "DISPLAY=:99", "PATH="+dir+":"+os.Getenv("PATH"))
	cmd.Stderr = os.Stderr
	h := &host{}
	if h.in, err = cmd.StdinPipe(); err != nil {
		return err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return err
	}
	h.out = bufio.NewScanner(out)
	h.out.Buffer(nil, 16<<20)
	if err := cmd.Start(); err != nil {
		return fmt.Errorf("start the bridge: %w", err)
	}
	defer func() { err = errors.Join(err, h.in.Close(), cmd.Wait()) }()
	return h.converse(scenario)
}

func (h *host) converse(scenario string) error {
	if _, err := h.ask("initialize", json.RawMessage(`{"protocolVersion":"2025-11-25","capabilities":{"elicitation":{}},"clientInfo":{"name":"conformance","version":"1"}}`)); err != nil {
		return err
	}
	if err := h.tell(map[string]any{"method": "notifications/initialized"}); err != nil {
		return err
	}
	calls, ok := callsOf[scenario]
	if !ok {
		calls = []string{"test-tool"}
	}
	for _, tool := range calls {
		arguments := map[string]any{}
		switch tool {
		case "add_numbers":
			arguments = map[string]any{"a": 5, "b": 3}
		case "json_schema_echo":
			schema, err := h.schemaOf("json_schema_2020_12_tool")
			if err != nil {
				return err
			}
			arguments = map[string]any{"schema": schema}
		}
		if err := h.call(tool, arguments); err != nil {
			return err
		}
	}
	return nil
}

// call calls a tool, again when the answer was that it should be: a person
// who has been asked to sign in asks the agent once more.
func (h *host) call(tool string, arguments any) error {
	var answer json.RawMessage
	for range 2 {
		var err error
		if answer, err = h.ask("tools/call", map[string]any{"name": tool, "arguments": arguments}); err != nil {
			return err
		}
		var result struct {
			IsError bool `json:"isError"`
		}
		if err := json.Unmarshal(answer, &result); err != nil {
			return err
		}
		if !result.IsError {
			return nil
		}
		fmt.Fprintf(os.Stderr, "host: %s: %s\n", tool, answer)
	}
	return fmt.Errorf("%s was refused: %s", tool, answer)
}

// schemaOf returns a tool's schema as the bridge lists it, once it has read
// the service's list.
func (h *host) schemaOf(tool string) (json.RawMessage, error) {
	for !h.changed {
		if _, err := h.next(); err != nil {
			return nil, err
		}
	}
	listed, err := h.ask("tools/list", struct{}{})
	if err != nil {
		return nil, err
	}
	var list struct {
		Tools []struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"inputSchema"`
		} `json:"tools"`
	}
	if err := json.Unmarshal(listed, &list); err != nil {
		return nil, err
	}
	for _, t := range list.Tools {
		if t.Name == tool {
			return t.Schema, nil
		}
	}
	return nil, fmt.Errorf("%s is not listed", tool)
}

func (h *host) tell(m map[string]any) error {
	m["jsonrpc"] = "2.0"
	line, err := json.Marshal(m)
	if err != nil {
		return err
	}
	_, err = h.in.Write(append(line, '\n'))
	return err
}

// next reads one line of the bridge's.
func (h *host) next() (message, error) {
	var m message
	if !h.out.Scan() {
		return m, errors.Join(errors.New("the bridge has left"), h.out.Err())
	}
	if err := json.Unmarshal(h.out.Bytes(), &m); err != nil {
		return m, fmt.Errorf("the bridge wrote %q: %w", h.out.Text(), err)
	}
	h.changed = h.changed || m.Method == "notifications/tools/list_changed"
	return m, nil
}

// ask sends a request and returns its result.
func (h *host) ask(method string, params any) (json.RawMessage, error) {
	h.last++
	id := h.last
	if err := h.tell(map[string]any{"id": id, "method": method, "params": params}); err != nil {
		return nil, err
	}
	for {
		m, err := h.next()
		if err != nil {
			return nil, fmt.Errorf("%s: %w", method, err)
		}
		if m.Method != "" || string(m.ID) != fmt.Sprint(id) {
			continue
		}
		if m.Error != nil {
			return nil, fmt.Errorf("%s: %s", method, m.Error)
		}
		return m.Result, nil
	}
}

// putBrowser makes this program what opens links for programs that find dir
// first in their PATH.
func putBrowser(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	script := "#!/bin/sh\n" + roleVariable + "=browser exec '" + self + "' \"$@\"\n"
	for _, name := range []string{"xdg-open", "x-www-browser", "open"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(script), 0o700); err != nil {
			return err
		}
	}
	return nil
}

// approve is a browser and the person at it: it keeps cookies and follows
// every redirect, and whatever is asked has been approved before.
func approve(ctx context.Context, link string) error {
	if !strings.HasPrefix(link, "http") {
		return fmt.Errorf("asked to open %q", link)
	}
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, link, nil)
	if err != nil {
		return err
	}
	answer, err := (&http.Client{Jar: jar, Timeout: 30 * time.Second}).Do(request)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return errors.Join(err, answer.Body.Close())
}
