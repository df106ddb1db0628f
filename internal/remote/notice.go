package remote

import (
	"bytes"
	"encoding/json"
	"io"
	"mime"
	"net/http"
)

// maxNotice bounds one event of a stream that is looked into; the largest
// notification is a progress message. A longer event passes unread.
const maxNotice = 256 << 10

// noticing gives the notifications in streamed answers to notify, each before
// the answer that follows it is read, and with its bytes: mcp-go hands them on
// decoded, which rounds large numbers. What a service sends behind its answer
// passes to nobody: mcp-go would wait for ever to hand a third answer over.
type noticing struct {
	http.RoundTripper

	notify func(method string, params json.RawMessage)
}

// RoundTrip implements http.RoundTripper.
func (t *noticing) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := t.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	if kind, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type")); kind == "text/event-stream" {
		resp.Body = &stream{ReadCloser: resp.Body, notify: t.notify}
	}
	return resp, nil
}

// stream is the body of a streamed answer, looked into while it is read.
type stream struct {
	io.ReadCloser

	notify func(method string, params json.RawMessage)
	line   []byte // the line that is being read
	data   []byte // the data of the event that is being read
	begun  bool   // the line has a byte
	long   bool   // the event is longer than a notification; its bytes are not kept
	cr     bool   // the last byte was a carriage return, whose line feed may follow
	unread int    // events that were longer than a notification
	spent  bool   // the answer has passed
}

// Read implements io.Reader.
func (s *stream) Read(p []byte) (int, error) {
	for {
		n, err := s.ReadCloser.Read(p)
		if n = s.look(p[:n]); n > 0 || err != nil || len(p) == 0 {
			return n, err
		}
	}
}

// look looks into what was read and returns how much of it may pass.
func (s *stream) look(part []byte) int {
	rest := part
	for len(rest) > 0 {
		if s.cr && rest[0] == '\n' {
			rest = rest[1:]
		}
		s.cr = false
		if s.spent {
			break
		}
		at := bytes.IndexAny(rest, "\r\n")
		if at < 0 {
			s.keep(rest)
			return len(part)
		}
		s.keep(rest[:at])
		s.endLine()
		s.cr = rest[at] == '\r'
		rest = rest[at+1:]
	}
	return len(part) - len(rest)
}

func (s *stream) keep(part []byte) {
	s.begun = s.begun || len(part) > 0
	if s.long = s.long || len(s.line)+len(s.data)+len(part) > maxNotice; !s.long {
		s.line = append(s.line, part...)
	}
}

// endLine takes the line as a field of the event or, when it is empty, as the
// event's end.
func (s *stream) endLine() {
	if !s.begun {
		s.endEvent()
	} else if value, ok := bytes.CutPrefix(s.line, []byte("data:")); ok {
		s.data = append(append(s.data, bytes.TrimPrefix(value, []byte(" "))...), '\n')
	}
	s.line, s.begun = s.line[:0], false
}

func (s *stream) endEvent() {
	var m struct {
		ID     json.RawMessage `json:"id"`
		Method json.RawMessage `json:"method"`
		Params json.RawMessage `json:"params"`
	}
	var method string
	switch {
	case s.long:
		s.unread++
		s.spent = s.unread > 1 // one of them may have been a notification
	case json.Unmarshal(s.data, &m) != nil:
	case json.Unmarshal(m.Method, &method) != nil || method == "":
		s.spent = m.ID != nil && string(m.ID) != "null"
	case m.ID == nil:
		s.notify(method, m.Params)
	}
	s.data, s.long = s.data[:0], false
}
