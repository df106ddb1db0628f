// Package demo shows the main job end to end, on this machine and with what
// ships: two hosts start the packed bridge the way Claude Desktop does, a
// person signs in, two agents meet in a room of the embedded hub, a bridge is
// killed with events in its mouth, and nothing is lost.
package demo

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"bellman.sh/desktop/build/host"
	"bellman.sh/desktop/build/mcpb"
)

// Config says what is shown and where. Work is an empty directory that the
// caller removes; the transcript goes to Out.
type Config struct {
	Bundle, Hub string // the packed bridge and the hub's program
	Platform    string // as a manifest names this system
	Version     string
	Work        string
	Out         io.Writer
}

// Run shows everything and returns which step failed, if one did. It starts
// processes of its own and leaves none behind.
func Run(ctx context.Context, cfg Config) error {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	s := &stage{cfg: cfg, began: time.Now()}
	defer s.clear()
	for _, step := range []struct {
		name string
		run  func(context.Context) error
	}{
		{"install the bundle", s.install},
		{"start the hub", s.startHub},
		{"start two bridges", s.startBridges},
		{"sign in", s.signIn},
		{"start a room and join it", s.meet},
		{"exchange messages", s.exchange},
		{"kill a bridge at the worst moment", s.kill},
		{"restart it and take what was waiting", s.restart},
		{"ask for an action and answer it", s.action},
		{"upload a file to the surface", s.upload},
		{"leave and stop", s.leave},
	} {
		fmt.Fprintf(cfg.Out, "\n== %s\n", step.name)
		if err := step.run(ctx); err != nil {
			fmt.Fprintf(cfg.Out, "\nWhat the programs said:\n%s\ndemo: failed: %s: %v\n", s.said(), step.name, err)
			return fmt.Errorf("%s: %w", step.name, err)
		}
	}
	fmt.Fprintf(cfg.Out, "\nelapsed %.1f s\ndemo: ok\n", time.Since(s.began).Seconds())
	return nil
}

// stage is everything that is on during the demo.
type stage struct {
	cfg     Config
	began   time.Time
	dir     string // where the bundle was unpacked
	hub     *host.Hub
	key     string // Ben's
	ada     *actor // signs in with the browser
	ben     *actor // has a key
	human   *person
	room    string
	adaSeat string
	benSeat string
}

func (s *stage) say(who, format string, args ...any) {
	fmt.Fprintf(s.cfg.Out, "%-5s %s\n", who, fmt.Sprintf(format, args...))
}

// clear ends what a failed step left running.
func (s *stage) clear() {
	for _, a := range []*actor{s.ada, s.ben} {
		if a != nil && a.running {
			a.Kill()
		}
	}
	if s.hub != nil {
		s.hub.Kill()
	}
}

// said is what the programs wrote to standard error.
func (s *stage) said() string {
	var all strings.Builder
	for _, a := range []*actor{s.ada, s.ben} {
		if a != nil && a.Server != nil {
			all.WriteString(a.Said())
		}
	}
	if s.hub != nil {
		all.WriteString(s.hub.Said())
	}
	return all.String()
}

// install unpacks the bundle into a folder whose name is as awkward as the
// real one's.
func (s *stage) install(context.Context) error {
	s.dir = filepath.Join(s.cfg.Work, "Claude Extensions", "bellman")
	manifest, err := mcpb.Unpack(s.cfg.Bundle, s.dir)
	if err != nil {
		return err
	}
	s.say("host", "unpacked %s %s: %d tools announced", manifest.DisplayName, manifest.Version, len(manifest.Tools))
	return nil
}

func (s *stage) startHub(ctx context.Context) (err error) {
	s.key = "demo-" + rand.Text()
	s.hub, err = host.StartHub(ctx, s.cfg.Hub, filepath.Join(s.cfg.Work, "hub"),
		map[string]host.Person{s.key: {ID: "u_ben", Label: "ben@example.com", Plan: "free"}})
	if err == nil {
		s.say("hub", "listening on %s", s.hub.URL)
	}
	return err
}

func (s *stage) startBridges(ctx context.Context) (err error) {
	if s.ada, err = s.cast("ada", ""); err != nil {
		return err
	}
	if err := s.chooseStore(ctx); err != nil {
		return err
	}
	if s.ben, err = s.cast("ben", s.key); err != nil {
		return err
	}
	for _, a := range []*actor{s.ada, s.ben} {
		began := time.Now()
		tools, err := a.start(ctx)
		if err != nil {
			return fmt.Errorf("%s: %w", a.name, err)
		}
		if len(tools) != 14 {
			return fmt.Errorf("%s lists %d tools: %s", a.name, len(tools), strings.Join(tools, " "))
		}
		s.say(a.name, "started %s and listed %d tools in %d ms, without a connection", filepath.Base(a.launch.Command), len(tools), time.Since(began).Milliseconds())
	}
	return nil
}

// chooseStore keeps the sign-in in the keychain where there is one. Elsewhere
// it takes the file a person can opt in to: a sign-in in memory alone would end
// with the bridge that is to be killed.
func (s *stage) chooseStore(ctx context.Context) error {
	out, err := s.ada.command(ctx, "status")
	if err != nil {
		return err
	}
	if strings.Contains(out, "kept in:    keychain") {
		s.say("host", "a keychain is here; Ada's sign-in will be kept in it")
		return nil
	}
	s.say("host", "no keychain can be used here; Ada opts in to a file (BELLMAN_CREDENTIAL_STORE=file)")
	s.ada.env = append(s.ada.env, "BELLMAN_CREDENTIAL_STORE=file")
	return nil
}

// signIn lets a call find that it needs a person, and the person approve.
func (s *stage) signIn(ctx context.Context) (err error) {
	if s.human, err = newPerson("Ada"); err != nil {
		return err
	}
	if err := s.approve(ctx); err != nil {
		return err
	}
	var who struct {
		Source, Label, Plan string
	}
	if err := s.ada.Call("bellman_whoami", nil, &who); err != nil {
		return err
	}
	if who.Source != "oauth" {
		return fmt.Errorf("bellman_whoami says source %q after the sign-in", who.Source)
	}
	s.say("ada", "bellman_whoami → %s, plan %s", who.Label, who.Plan)
	return nil
}

// startLink is the bridge's own link to the sign-in.
var startLink = regexp.MustCompile(`http://127\.0\.0\.1:\d+/start/[A-Za-z0-9_-]+`)

// approve makes a call that needs a sign-in and does what its answer asks.
func (s *stage) approve(ctx context.Context) error {
	err := s.ada.Call("bellman_rooms", nil, nil)
	if err == nil {
		return errors.New("bellman_rooms answered without a sign-in")
	}
	link := startLink.FindString(err.Error())
	if link == "" {
		return fmt.Errorf("no link in the answer: %w", err)
	}
	s.say("ada", "bellman_rooms → sign-in needed, with a link on this machine")
	page, err := s.human.approve(ctx, link)
	if err != nil {
		return fmt.Errorf("the person: %w", err)
	}
	s.say("Ada", "opened the link, gave a name, approved; the browser shows %q", page)
	return poll(ctx, "the call to go through after the approval", func() (bool, error) {
		return s.ada.Call("bellman_rooms", nil, nil) == nil, nil
	})
}

// poll asks until done is true, for a while.
func poll(ctx context.Context, what string, done func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 20*time.Second)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		ok, err := done()
		if ok || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("waited in vain for %s", what)
		}
	}
}
