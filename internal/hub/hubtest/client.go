package hubtest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
)

// Client calls a hub's tools as one bearer.
type Client struct {
	Server *Server
	Token  string
}

// As returns a client with a key or an access token.
func (s *Server) As(token string) *Client { return &Client{Server: s, Token: token} }

// Result is what a tool call gave back.
type Result struct {
	Text       string
	Structured json.RawMessage
	IsError    bool
}

// Call calls a tool and returns whatever comes back. Anything that is not a
// tool result is an error.
func (c *Client) Call(ctx context.Context, tool string, args any) (Result, error) {
	body, err := json.Marshal(map[string]any{
		"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": map[string]any{"name": tool, "arguments": args},
	})
	if err != nil {
		return Result{}, err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, c.Server.URL+"/mcp", bytes.NewReader(body))
	if err != nil {
		return Result{}, err
	}
	request.Header.Set("Authorization", "Bearer "+c.Token)
	request.Header.Set("Content-Type", "application/json")
	request.Header.Set("Accept", "application/json, text/event-stream")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return Result{}, err
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		return Result{}, err
	}
	var answer struct {
		Result *struct {
			Content []struct {
				Type string `json:"type"`
				Text string `json:"text"`
			} `json:"content"`
			Structured json.RawMessage `json:"structuredContent"`
			IsError    bool            `json:"isError"`
		} `json:"result"`
	}
	if err := json.Unmarshal(raw, &answer); err != nil || answer.Result == nil || len(answer.Result.Content) != 1 {
		return Result{}, fmt.Errorf("%s: status %d, body %.300s", tool, response.StatusCode, raw)
	}
	r := answer.Result
	return Result{Text: r.Content[0].Text, Structured: r.Structured, IsError: r.IsError}, nil
}

// OK calls a tool that must succeed and decodes its structured content.
func (c *Client) OK(tb testing.TB, tool string, args, into any) Result {
	tb.Helper()
	r, err := c.Call(tb.Context(), tool, args)
	if err != nil {
		tb.Fatalf("call: %v", err)
	}
	if r.IsError {
		tb.Fatalf("%s: %s", tool, r.Text)
	}
	if into != nil {
		if err := json.Unmarshal(r.Structured, into); err != nil {
			tb.Fatalf("%s: decode %s: %v", tool, r.Structured, err)
		}
	}
	return r
}

// Refused calls a tool that must refuse, with every one of the words in what
// it says.
func (c *Client) Refused(tb testing.TB, tool string, args any, words ...string) {
	tb.Helper()
	r, err := c.Call(tb.Context(), tool, args)
	if err != nil {
		tb.Fatalf("call: %v", err)
	}
	if !r.IsError || len(r.Structured) > 0 || !strings.HasPrefix(r.Text, "Error: ") {
		tb.Fatalf("%s: got %.300s, want a refusal", tool, r.Text)
	}
	for _, word := range words {
		if !strings.Contains(r.Text, word) {
			tb.Errorf("%s: refusal %q lacks %q", tool, r.Text, word)
		}
	}
}
