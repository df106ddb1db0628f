package stdio

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// JSON-RPC 2.0 error codes used by the loop itself.
const (
	CodeParse          = -32700
	CodeInvalidRequest = -32600
	CodeMethodNotFound = -32601
	CodeInvalidParams  = -32602
	CodeInternal       = -32603
)

// Request is a request or, when ID is nil, a notification of the host.
type Request struct {
	ID       json.RawMessage // as it came: a JSON string or number
	Method   string
	Params   json.RawMessage
	Tool     string          // params.name of a tools/call
	Progress json.RawMessage // params._meta.progressToken, nil when the host wants none
	Raw      json.RawMessage // the whole message
}

// Error is a JSON-RPC error.
type Error struct {
	Code    int             `json:"code"`
	Message string          `json:"message"`
	Data    json.RawMessage `json:"data,omitempty"`
}

func (e *Error) Error() string { return fmt.Sprintf("%s (%d)", e.Message, e.Code) }

// Reply answers a request with Result or, when Error is set, with that.
//
// Leaving, when set, is called right before the first byte is written, when
// nothing can withdraw the reply any more; it must not block. Settle, when set,
// is told what became of the reply; see Fate. It may block: no lock is held
// while it runs.
type Reply struct {
	Result  json.RawMessage
	Error   *Error
	Leaving func()
	Settle  func(Fate)
}

// Fate is what became of a reply. Settle is called once with Written, Failed
// or Cancelled; after Written it may be called a second time, with Recalled.
type Fate int

const (
	// Written means the whole reply was taken by the host's pipe.
	Written Fate = iota
	// Failed means it could not be written, or not be known to have been.
	Failed
	// Cancelled means that nothing of it was written: the host gave up first,
	// or the connection ended before its turn came.
	Cancelled
	// Recalled means it was written, but the host's cancellation crossed it, or
	// the input ended so soon after it that it was probably not read.
	Recalled
)

type wireReply struct {
	JSONRPC string          `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"`
	Result  json.RawMessage `json:"result,omitempty"`
	Error   *Error          `json:"error,omitempty"`
}

func (r Reply) wire(id json.RawMessage) wireReply {
	w := wireReply{JSONRPC: "2.0", ID: id, Result: r.Result, Error: r.Error}
	if w.Result == nil && w.Error == nil {
		w.Result = json.RawMessage("{}")
	}
	return w
}

type wireRequest struct {
	JSONRPC string `json:"jsonrpc"`
	ID      string `json:"id"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

type wireNotification struct {
	JSONRPC string `json:"jsonrpc"`
	Method  string `json:"method"`
	Params  any    `json:"params,omitempty"`
}

// encode writes v as one line of UTF-8. HTML characters are left as they are,
// so that what passes through keeps its bytes.
func encode(v any) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(v); err != nil {
		return nil, err
	}
	if line := b.Bytes(); !utf8.Valid(line) {
		return bytes.ToValidUTF8(line, []byte(string(utf8.RuneError))), nil
	}
	return b.Bytes(), nil
}

// decode reads what the loop needs of one line. reply is set for an answer to a
// request of ours; of req only the ID counts then.
func decode(line []byte) (req *Request, reply *answer, fault *Error) {
	var m struct {
		JSONRPC json.RawMessage `json:"jsonrpc"`
		ID      json.RawMessage `json:"id"`
		Method  json.RawMessage `json:"method"`
		Params  json.RawMessage `json:"params"`
		answer
	}
	var method string
	if !json.Valid(line) {
		return nil, nil, &Error{Code: CodeParse, Message: "parse error: the line is not JSON"}
	}
	if err := json.Unmarshal(line, &m); err != nil {
		return nil, nil, &Error{Code: CodeInvalidRequest, Message: "invalid request: one JSON-RPC object a line, no batches"}
	}
	req = &Request{ID: m.ID, Params: m.Params, Raw: line}
	switch {
	// Answering an answer, a broken one too, would be the start of a quarrel.
	case m.Method == nil && (m.Result != nil || m.Error != nil):
		return req, &m.answer, nil
	case m.ID != nil && !validID(m.ID):
		req.ID = nil
		return req, nil, &Error{Code: CodeInvalidRequest, Message: "invalid request: id must be a string or a number"}
	case string(m.JSONRPC) != `"2.0"`:
		return req, nil, &Error{Code: CodeInvalidRequest, Message: `invalid request: jsonrpc must be "2.0"`}
	case m.Method == nil:
		return req, nil, &Error{Code: CodeInvalidRequest, Message: "invalid request: no method"}
	case json.Unmarshal(m.Method, &method) != nil:
		return req, nil, &Error{Code: CodeInvalidRequest, Message: "invalid request: method must be a string"}
	}
	req.Method = method
	req.readParams()
	return req, nil, nil
}

// readParams reads the tool's name and the progress token, each by itself:
// params of another shape are for the method's own handler to complain of.
func (r *Request) readParams() {
	var p struct {
		Name json.RawMessage `json:"name"`
		Meta json.RawMessage `json:"_meta"`
	}
	if json.Unmarshal(r.Params, &p) != nil {
		return
	}
	if r.Method == "tools/call" && json.Unmarshal(p.Name, &r.Tool) != nil {
		r.Tool = ""
	}
	var meta struct {
		ProgressToken json.RawMessage `json:"progressToken"`
	}
	if json.Unmarshal(p.Meta, &meta) == nil && meta.ProgressToken != nil && validID(meta.ProgressToken) {
		r.Progress = meta.ProgressToken
	}
}

// validID reports whether raw is a JSON string or number: what MCP allows as a
// request id and as a progress token.
func validID(raw json.RawMessage) bool {
	c := raw[0]
	return c == '"' || c == '-' || (c >= '0' && c <= '9')
}
