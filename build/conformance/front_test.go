package conformance_test

import (
	"bufio"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os/exec"
	"sync"
	"testing"
)

// front serves programs that talk MCP on standard input and output over HTTP,
// one for each session, and changes no message. The suite can only judge what
// has an address.
type front struct {
	t     *testing.T
	start func() *exec.Cmd

	mu       sync.Mutex
	sessions map[string]*session
}

// session is one program and who waits for its lines.
type session struct {
	id   string
	in   io.WriteCloser
	gone chan struct{} // closed when the program has closed its output

	write   sync.Mutex
	mu      sync.Mutex
	waiting map[string]chan json.RawMessage // by request id
	newest  string
	loose   chan json.RawMessage // what nobody's request is open for
}

// serve returns the address of a front for what start gives.
func serve(t *testing.T, start func() *exec.Cmd) string {
	t.Helper()
	f := &front{t: t, start: start, sessions: map[string]*session{}}
	s := httptest.NewServer(f)
	t.Cleanup(func() {
		f.mu.Lock()
		open := f.sessions
		f.sessions = map[string]*session{}
		f.mu.Unlock()
		for _, each := range open {
			each.leave()
		}
		s.Close()
	})
	return s.URL + "/mcp"
}

// open starts a program for a new session.
func (f *front) open() (*session, error) {
	cmd := f.start()
	s := &session{
		id: rand.Text(), gone: make(chan struct{}),
		waiting: map[string]chan json.RawMessage{}, loose: make(chan json.RawMessage, 256),
	}
	var err error
	if s.in, err = cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("start: %w", err)
	}
	go func() {
		defer close(s.gone)
		s.read(out)
		_ = cmd.Wait()
	}()
	f.mu.Lock()
	f.sessions[s.id] = s
	f.mu.Unlock()
	return s, nil
}

// read hands each line to the request it answers, else to the newest open one.
func (s *session) read(out io.Reader) {
	lines := bufio.NewScanner(out)
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		line := json.RawMessage(append([]byte(nil), lines.Bytes()...))
		var m message
		if json.Unmarshal(line, &m) != nil {
			continue
		}
		s.mu.Lock()
		to, ok := s.waiting[string(m.ID)]
		if m.Method != "" || !ok {
			to, ok = s.waiting[s.newest]
		}
		if !ok {
			to = s.loose
		}
		s.mu.Unlock()
		select {
		case to <- line:
		default: // A reader that is 256 lines behind has left.
		}
	}
}

func (s *session) leave() {
	_ = s.in.Close()
	<-s.gone
}

func (s *session) say(line []byte) error {
	s.write.Lock()
	defer s.write.Unlock()
	_, err := s.in.Write(append(line, '\n'))
	return err
}

func (f *front) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	s := f.sessions[r.Header.Get("Mcp-Session-Id")]
	if r.Method == http.MethodDelete && s != nil {
		delete(f.sessions, s.id)
	}
	f.mu.Unlock()
	var m message
	body, err := io.ReadAll(r.Body)
	if r.Method == http.MethodPost {
		if err == nil {
			err = json.Unmarshal(body, &m)
		}
		if err == nil && m.Method == "initialize" {
			s, err = f.open()
		}
	}
	switch {
	case err != nil:
		http.Error(w, err.Error(), http.StatusBadRequest)
	case s == nil:
		http.Error(w, "no such session", http.StatusNotFound)
	case r.Method == http.MethodDelete:
		s.leave()
	case r.Method == http.MethodGet:
		s.stream(w, r, s.loose, "")
	case m.Method == "" || m.ID == nil:
		if err := s.say(body); err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.WriteHeader(http.StatusAccepted)
	default:
		s.request(w, r, string(m.ID), body)
	}
}

// request passes a request on and answers with what follows it, its result last.
func (s *session) request(w http.ResponseWriter, r *http.Request, id string, body []byte) {
	lines := make(chan json.RawMessage, 256)
	s.mu.Lock()
	s.waiting[id], s.newest = lines, id
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.waiting, id)
		s.mu.Unlock()
	}()
	if err := s.say(body); err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	s.stream(w, r, lines, id)
}

// stream writes lines as events until the one that answers id, if there is one.
func (s *session) stream(w http.ResponseWriter, r *http.Request, lines <-chan json.RawMessage, id string) {
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("Mcp-Session-Id", s.id)
	w.WriteHeader(http.StatusOK)
	for {
		_ = http.NewResponseController(w).Flush()
		select {
		case line := <-lines:
			_, _ = fmt.Fprintf(w, "event: message\ndata: %s\n\n", line)
			var m message
			if json.Unmarshal(line, &m) == nil && m.Method == "" && string(m.ID) == id {
				return
			}
		case <-s.gone:
			return
		case <-r.Context().Done():
			return
		}
	}
}
