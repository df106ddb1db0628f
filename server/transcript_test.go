package main

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/rogpeppe/go-internal/txtar"

	"bellman.sh/desktop/internal/hub/hubtest"
)

var update = flag.Bool("update", false, "write the transcripts anew")

// What the program and a host say to each other, line by line, with a hub
// behind it. Each file holds what is to happen and what was exchanged.
func TestTranscripts(t *testing.T) {
	files, err := filepath.Glob("testdata/transcript/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatalf("no transcripts: %v", err)
	}
	for _, path := range files {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive, err := txtar.ParseFile(path)
			if err != nil || len(archive.Files) == 0 || archive.Files[0].Name != "script" {
				t.Fatalf("read %s: %v", path, err)
			}
			got := play(t, string(archive.Files[0].Data))
			if *update {
				archive.Files = []txtar.File{archive.Files[0], {Name: "exchange", Data: []byte(got)}}
				if err := os.WriteFile(path, txtar.Format(archive), 0o644); err != nil {
					t.Fatal(err)
				}
				return
			}
			if diff := cmp.Diff(string(archive.Files[len(archive.Files)-1].Data), got); diff != "" {
				t.Errorf("%s (-want +got; -update writes it anew):\n%s", path, diff)
			}
		})
	}
}

// player plays a script: a line of JSON is the host's, any other tells what the
// peer does.
type player struct {
	t        *testing.T
	hub      *hubtest.Server
	peer     *hubtest.Seat
	in       io.Writer
	out      *bufio.Scanner
	exchange strings.Builder
	names    []string // pairs of a value and what stands for it
}

func play(t *testing.T, script string) string {
	t.Helper()
	p := &player{t: t, hub: hubtest.Start(t)}
	home := newProfile(t, p.hub.URL+"/mcp", hubtest.Jesse)
	if err := os.WriteFile(filepath.Join(home.dir, "notes.md"), []byte("# Notes\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	home.env = append(home.env, "BELLMAN_UPLOAD_ROOT="+home.dir)
	p.name(home.dir, "${home}")
	p.name(p.hub.URL, "${hub}")
	p.name(`"version":"`+currentVersion()+`"`, `"version":"${version}"`)
	cmd := home.command(t)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stuck := time.AfterFunc(time.Minute, func() { _ = cmd.Process.Kill() })
	defer stuck.Stop()
	p.in, p.out = in, bufio.NewScanner(out)
	p.out.Buffer(nil, 16<<20)
	for line := range strings.Lines(script) {
		if line = strings.TrimSpace(line); line != "" && line[0] != '#' {
			p.step(line)
		}
	}
	_ = in.Close()
	for p.out.Scan() {
		p.note("bridge", p.out.Text())
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the bridge ended with %v", err)
	}
	return p.exchange.String()
}

func (p *player) step(line string) {
	p.t.Helper()
	switch verb, rest, _ := strings.Cut(line, " "); verb {
	case "peer-joins":
		p.peer = p.hub.As(hubtest.Peer).Join(p.t, p.value("${code}"))
		p.name(p.peer.Member, "${peer}")
	case "peer-says":
		p.peer.Say(p.t, rest)
	case "peer-asks":
		p.peer.Send(p.t, "action_request", hubtest.Args{"ask": rest})
	case "peer-leaves":
		p.peer.OK(p.t, "bellman_leave", p.peer.Ref(), nil)
	default:
		p.say(line)
		return
	}
	p.note("peer", strings.TrimPrefix(line, "peer-"))
}

// say sends a line and reads what comes until it is answered, if it will be.
func (p *player) say(line string) {
	p.t.Helper()
	p.note("host", line)
	for i := 0; i < len(p.names); i += 2 {
		line = strings.ReplaceAll(line, p.names[i+1], p.names[i])
	}
	if _, err := fmt.Fprintln(p.in, line); err != nil {
		p.t.Fatal(err)
	}
	var asked, answer struct {
		ID     json.RawMessage
		Result struct {
			Data struct {
				Session string `json:"session_id"`
				Member  string `json:"member_id"`
				Code    string `json:"join_code"`
				Blob    string `json:"blob_id"`
			} `json:"structuredContent"`
		}
	}
	if err := json.Unmarshal([]byte(line), &asked); err == nil && asked.ID == nil {
		return // a notification
	}
	if asked.ID == nil {
		asked.ID = json.RawMessage("null")
	}
	for string(answer.ID) != string(asked.ID) {
		answer.ID = nil
		if !p.out.Scan() {
			p.t.Fatalf("no answer to %s: %v\n%s", line, p.out.Err(), p.exchange.String())
		}
		if err := json.Unmarshal(p.out.Bytes(), &answer); err != nil {
			p.t.Fatalf("the bridge says %s: %v", p.out.Text(), err)
		}
		d := answer.Result.Data
		p.name(d.Session, "${room}")
		p.name(d.Member, "${me}")
		p.name(d.Code, "${code}")
		p.name(d.Blob, "${blob}")
		p.note("bridge", p.out.Text())
	}
}

// name lets a value that differs from run to run stand by a name.
func (p *player) name(value, name string) {
	if value != "" && p.value(name) == "" {
		p.names = append(p.names, value, name)
	}
}

func (p *player) value(name string) string {
	for i := 0; i < len(p.names); i += 2 {
		if p.names[i+1] == name {
			return p.names[i]
		}
	}
	return ""
}

var (
	aTime = regexp.MustCompile(`\d{4}-\d\d-\d\dT[\d:.]+Z`)
	anAge = regexp.MustCompile(`(_seconds\\?": ?)\d+`)
)

func (p *player) note(who, line string) {
	line = strings.NewReplacer(p.names...).Replace(line)
	line = anAge.ReplaceAllString(aTime.ReplaceAllString(line, "TIME"), "${1}N")
	fmt.Fprintf(&p.exchange, "%s> %s\n", who, line)
}
