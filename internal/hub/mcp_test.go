package hub_test

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// post sends a body to /mcp and returns the answer.
func post(t *testing.T, s *hubtest.Server, token, body string) (reply, string) {
	t.Helper()
	return do(t, s, http.MethodPost, "/mcp", body, map[string]string{
		"Authorization": "Bearer " + token, "Content-Type": "application/json", "Accept": "application/json, text/event-stream",
	})
}

func do(t *testing.T, s *hubtest.Server, method, path, body string, header map[string]string) (reply, string) {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for name, value := range header {
		if name == "Host" {
			request.Host = value
			continue
		}
		request.Header.Set(name, value)
	}
	client := http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	response, err := client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	raw, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return reply{response.StatusCode, response.Header}, string(raw)
}

// reply is what a response says beside its body.
type reply struct {
	StatusCode int
	Header     http.Header
}

// Case 53: without a session, a server lists exactly the eleven tools as they
// are defined, and claims tools and resources alone.
func TestMCPListsTheTools(t *testing.T) {
	s := hubtest.Start(t)
	_, body := post(t, s, hubtest.Peer, `{"jsonrpc":"2.0","id":"x","method":"tools/list"}`)
	var list struct {
		ID     string `json:"id"`
		Result struct {
			Tools []json.RawMessage `json:"tools"`
		} `json:"result"`
	}
	decode(t, body, &list)
	want := bellman.ServiceTools()
	if list.ID != "x" || len(list.Result.Tools) != len(want) {
		t.Fatalf("id %q, %d tools, want x and %d", list.ID, len(list.Result.Tools), len(want))
	}
	for i, tool := range want {
		published, err := json.Marshal(tool)
		if err != nil {
			t.Fatal(err)
		}
		var got, defined map[string]any
		decode(t, string(list.Result.Tools[i]), &got)
		decode(t, string(published), &defined)
		if !equal(got, defined) {
			t.Errorf("%s is listed as %s, want %s", tool.Name, list.Result.Tools[i], published)
		}
	}
	response, body := post(t, s, hubtest.Peer,
		`{"jsonrpc":"2.0","id":1,"method":"initialize","params":{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"t","version":"1"}}}`)
	var init struct {
		Result struct {
			Capabilities map[string]any `json:"capabilities"`
			ServerInfo   struct{ Name string }
			Instructions *string
		} `json:"result"`
	}
	decode(t, body, &init)
	names := make([]string, 0, 2)
	for name := range init.Result.Capabilities {
		names = append(names, name)
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"resources", "tools"}) || init.Result.ServerInfo.Name != "bellman-mcp-server" || init.Result.Instructions != nil {
		t.Errorf("initialize: %s", body)
	}
	if response.Header.Get("Mcp-Session-Id") != "" || !strings.HasPrefix(response.Header.Get("Content-Type"), "application/json") {
		t.Errorf("initialize: headers %v, want JSON and no session", response.Header)
	}
}

// Every misfit is a tool error that names the field, and never reaches the
// room; unknown arguments are ignored.
func TestMCPMisfits(t *testing.T) {
	s := hubtest.Start(t)
	a, _ := pair(t, s)
	brief := hubtest.Brief("x")
	pairManifest := args{"room": "r", "preset": "pair"}
	cases := []struct {
		tool  string
		args  args
		field string
	}{
		{bellman.ToolStart, args{"brief": brief}, "manifest"},
		{bellman.ToolStart, args{"manifest": "pair", "brief": brief}, "manifest"},
		{bellman.ToolStart, args{"manifest": pairManifest}, "brief"},
		{bellman.ToolStart, args{"manifest": pairManifest, "brief": brief.With(args{"goal": ""})}, "brief.goal"},
		{bellman.ToolStart, args{"manifest": pairManifest, "brief": brief.With(args{"goal": strings.Repeat("g", 501)})}, "brief.goal"},
		{bellman.ToolStart, args{"manifest": pairManifest, "brief": brief.With(args{"agent": args{"provider": "p"}})}, "brief.agent.model"},
		{bellman.ToolStart, args{"manifest": pairManifest, "brief": brief.With(args{"constraints": []int{1}})}, "brief.constraints[0]"},
		{bellman.ToolStart, args{"manifest": pairManifest, "brief": brief, "capabilities": []string{"all"}}, "capabilities[0]"},
		{bellman.ToolStart, args{"manifest": pairManifest, "brief": brief, "org_only": "yes"}, "org_only"},
		{bellman.ToolConnect, args{"join_code": "abc"}, "join_code"},
		{bellman.ToolConnect, args{}, "join_code"},
		{bellman.ToolConfirm, args{"connect_token": "short", "brief": brief}, "connect_token"},
		{bellman.ToolInvite, a.Ref().With(args{"role": ""}), "role"},
		{bellman.ToolSend, a.Ref().With(args{"type": "message"}), "payload"},
		{bellman.ToolSend, a.Ref().With(args{"type": "message", "payload": []int{}}), "payload"},
		{bellman.ToolSend, a.Ref().With(args{"type": "message", "payload": args{}, "ref_id": 7}), "ref_id"},
		{bellman.ToolSync, args{"session_id": a.Room}, "member_id"},
		{bellman.ToolSync, a.Ref().With(args{"member_id": nil}), "member_id"},
		{bellman.ToolSync, a.Ref().With(args{"surface": 1}), "surface"},
		{bellman.ToolAudit, args{"limit": 501}, "limit"},
	}
	for _, c := range cases {
		a.Refused(t, c.tool, c.args, c.field)
	}
	_, body := post(t, s, hubtest.Jesse, `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"bellman_rooms","arguments":[1]}}`)
	if !strings.Contains(body, "must be an object") || !strings.Contains(body, `"isError":true`) {
		t.Errorf("arguments in a list: %s", body)
	}
	// A name that is nearly a declared one is as unknown as any other, and
	// does not carry a value past the bounds of the declared one.
	a.OK(t, bellman.ToolSync, a.Ref().With(args{"wait_seconds": 0, "Wait_Seconds": 3600, "since_cursor": 99}), nil)
	a.Refused(t, bellman.ToolConnect, args{"JOIN_CODE": a.Code}, "join_code is required")
	a.OK(t, bellman.ToolSync, a.Ref().With(args{"colour": "blue", "since_cursor": 1.0}), nil)
}

// Case 53, continued: what is not a call of a known tool is a protocol error,
// whatever the bytes.
func TestMCPProtocolErrors(t *testing.T) {
	s := hubtest.Start(t)
	for _, body := range []string{"", "nonsense", "[]", "null", `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"no_such_tool"}}`, `{"jsonrpc":"2.0","id":1,"method":"no/such"}`} {
		response, answer := post(t, s, hubtest.Peer, body)
		if response.StatusCode >= 500 || !strings.Contains(answer, `"error"`) {
			t.Errorf("%q: status %d, %q", body, response.StatusCode, answer)
		}
	}
	if response, _ := post(t, s, hubtest.Peer, strings.Repeat(" ", 1<<20)+"{}"); response.StatusCode != http.StatusRequestEntityTooLarge {
		t.Errorf("a body over 1 MB: status %d, want 413", response.StatusCode)
	}
	for _, method := range []string{http.MethodGet, http.MethodDelete, http.MethodPut} {
		response, _ := do(t, s, method, "/mcp", "", map[string]string{"Authorization": "Bearer " + hubtest.Peer})
		if response.StatusCode != http.StatusMethodNotAllowed || response.Header.Get("Allow") != "POST" {
			t.Errorf("%s: status %d, Allow %q", method, response.StatusCode, response.Header.Get("Allow"))
		}
	}
}

// Without a valid credential the answer is the same whether it is missing or
// wrong, and leads to the metadata.
func TestMCPUnauthorized(t *testing.T) {
	s := hubtest.Start(t)
	for _, header := range []string{"", "Bearer wrong", "Bearer ", "Basic " + hubtest.Peer, hubtest.Peer} {
		response, body := do(t, s, http.MethodPost, "/mcp", `{}`, map[string]string{"Authorization": header, "Content-Type": "application/json"})
		want := `Bearer resource_metadata="` + s.URL + `/.well-known/oauth-protected-resource"`
		if response.StatusCode != http.StatusUnauthorized || response.Header.Get("WWW-Authenticate") != want ||
			!strings.Contains(body, "-32001") || !strings.Contains(body, `"id":null`) {
			t.Errorf("%q: status %d, challenge %q, %s", header, response.StatusCode, response.Header.Get("WWW-Authenticate"), body)
		}
	}
	if response, _ := do(t, s, http.MethodPost, "/mcp", `{"jsonrpc":"2.0","id":1,"method":"ping"}`,
		map[string]string{"Authorization": "bEARER " + hubtest.Peer, "Content-Type": "application/json"}); response.StatusCode != http.StatusOK {
		t.Errorf("scheme in odd case: status %d", response.StatusCode)
	}
}
