package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"path/filepath"
	"time"

	"bellman.sh/desktop/internal/keychain"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/tools"
)

// situation is what status shows, with the names it has for programs.
type situation struct {
	Version  string   `json:"version"`
	Server   string   `json:"server"`
	Profile  string   `json:"profile"`
	State    string   `json:"state_dir"`
	SignedIn string   `json:"signed_in"`
	KeptIn   string   `json:"kept_in,omitempty"`
	Bridges  []runs   `json:"bridges"`
	Waiting  *waiting `json:"waiting,omitempty"` // nil while nobody is signed in, or nothing is there
	Rooms    []roomIs `json:"rooms"`

	none   bool // there is no queue yet
	hidden bool // nobody is signed in
}

type runs struct {
	PID   int       `json:"pid"`
	Since time.Time `json:"since,omitzero"`
	Rooms int       `json:"rooms"`
}

type waiting struct {
	Events       int `json:"events"`
	Interrupting int `json:"interrupting"`
	Rooms        int `json:"rooms"`
}

type roomIs struct {
	Room      string      `json:"room"`
	State     queue.State `json:"state"`
	Why       string      `json:"why,omitempty"`
	Since     time.Time   `json:"since,omitzero"`
	Holder    int         `json:"holder,omitempty"`
	LastEvent time.Time   `json:"last_event,omitzero"`
	LagMS     int64       `json:"lag_ms"`
	Problem   string      `json:"problem,omitempty"`
	ProblemAt time.Time   `json:"problem_at,omitzero"`
	Seats     []seatIs    `json:"members"`
}

type seatIs struct {
	Member  string    `json:"member"`
	ReadTo  int64     `json:"read_to"`
	Waiting int       `json:"waiting"`
	Touched time.Time `json:"last_used"`
	Ended   string    `json:"ended,omitempty"`
}

// status shows who is signed in, the bridges that run, how the watch of each
// room of that identity does, and what waits. It takes no part in the queue,
// makes nothing that is not there and asks neither the service nor the
// keychain's items.
func status(ctx context.Context, cfg config, asJSON bool, s streams, log *slog.Logger) error {
	cred := lookUp(cfg)
	defer cred.close(ctx, log)
	who := cred.whoami()
	is := situation{
		Version: currentVersion(), Server: cfg.server.String(), Profile: cfg.profile, State: cfg.dir, SignedIn: describe(who),
		Bridges: []runs{}, Rooms: []roomIs{},
	}
	if cfg.key == "" {
		is.KeptIn = keptIn(ctx, cfg)
	}
	err := is.look(ctx, cfg, cred)
	if asJSON {
		e := json.NewEncoder(s.out)
		e.SetIndent("", "  ")
		e.SetEscapeHTML(false)
		err = errors.Join(err, e.Encode(is))
	} else {
		is.print(s.out, err == nil)
	}
	if err == nil && who.Source == tools.SourceUnknown {
		return hinted{errSignedOut, "run " + cfg.command("login") + ", or let the first call of a tool open the browser"}
	}
	return err
}

// look reads the queue's file.
func (is *situation) look(ctx context.Context, cfg config, cred *credential) error {
	id, known := cred.identity()
	o, err := queue.Inspect(ctx, filepath.Join(cfg.dir, "queue.db"), id)
	is.none = errors.Is(err, fs.ErrNotExist)
	switch {
	case is.none:
		return nil
	case err != nil:
		return err
	}
	for _, b := range o.Bridges {
		is.Bridges = append(is.Bridges, runs{PID: b.PID, Since: b.Since, Rooms: b.Rooms})
	}
	if is.hidden = !known; is.hidden {
		return nil
	}
	is.Waiting = &waiting{Events: o.Waiting.Events, Interrupting: o.Waiting.Interrupting, Rooms: o.Waiting.Rooms}
	for _, r := range o.Rooms {
		shown := roomIs{
			Room: r.Room, State: r.State, Since: r.Since, Holder: r.Holder, LastEvent: r.LastEvent, LagMS: r.Lag.Milliseconds(),
			Problem: r.Problem, ProblemAt: r.ProblemAt,
		}
		if r.State == queue.StatePaused && r.Holder == 0 { // else its holder has told a problem
			shown.Why = "the queue is full"
		}
		for _, m := range r.Members {
			shown.Seats = append(shown.Seats, seatIs{Member: m.ID, ReadTo: m.Fetched, Waiting: m.Waiting, Touched: m.Touched, Ended: m.Ended})
		}
		is.Rooms = append(is.Rooms, shown)
	}
	return nil
}

// print shows the situation to a person; whole is false when the queue could
// not be read.
func (is *situation) print(w io.Writer, whole bool) {
	fmt.Fprintf(w, "version:    %s\nserver:     %s\nprofile:    %s\nstate:      %s\n", is.Version, is.Server, is.Profile, is.State)
	fmt.Fprintf(w, "signed in:  %s\n", is.SignedIn)
	if is.KeptIn != "" {
		fmt.Fprintf(w, "kept in:    %s\n", is.KeptIn)
	}
	for _, b := range is.Bridges {
		fmt.Fprintf(w, "bridge:     process %d since %s, watches %d rooms\n", b.PID, local(b.Since), b.Rooms)
	}
	switch {
	case !whole:
		return
	case is.none:
		fmt.Fprintln(w, "rooms:      none yet")
		return
	case is.hidden:
		fmt.Fprintln(w, "rooms:      hidden until somebody signs in")
		return
	}
	fmt.Fprintf(w, "waiting:    %d events, %d of them interrupting, in %d rooms\nrooms:      %d\n",
		is.Waiting.Events, is.Waiting.Interrupting, is.Waiting.Rooms, len(is.Rooms))
	for _, r := range is.Rooms {
		r.print(w)
	}
}

func (r roomIs) print(w io.Writer) {
	fmt.Fprintf(w, "  %s  %s", r.Room, r.State)
	if r.Why != "" {
		fmt.Fprintf(w, " (%s)", r.Why)
	}
	if !r.Since.IsZero() {
		fmt.Fprintf(w, " since %s", local(r.Since))
	}
	if r.Holder != 0 {
		fmt.Fprintf(w, ", held by process %d", r.Holder)
	}
	if !r.LastEvent.IsZero() {
		fmt.Fprintf(w, ", last event %s, here %v later", local(r.LastEvent), time.Duration(r.LagMS)*time.Millisecond)
	}
	fmt.Fprintln(w)
	if r.Problem != "" {
		fmt.Fprintf(w, "    last problem, %s: %s\n", local(r.ProblemAt), r.Problem)
	}
	for _, m := range r.Seats {
		fmt.Fprintf(w, "    %s  read to %d, %d waiting, last used %s", m.Member, m.ReadTo, m.Waiting, local(m.Touched))
		if m.Ended != "" {
			fmt.Fprintf(w, ", ended (%s)", m.Ended)
		}
		fmt.Fprintln(w)
	}
}

func local(t time.Time) string { return t.Local().Format(time.DateTime) }

// keptIn names where the sign-in is kept, and why it is not the keychain.
func keptIn(ctx context.Context, cfg config) string {
	if cfg.store != "keychain" {
		return cfg.store
	}
	if err := keychain.Probe(ctx); err != nil {
		return fmt.Sprintf("memory (%v)", err)
	}
	return cfg.store
}

func describe(w tools.Whoami) string {
	switch w.Source {
	case tools.SourceOAuth:
		return fmt.Sprintf("%s (plan %s, role %s)", w.Label, w.Plan, w.Role)
	case tools.SourceEnv:
		return "by BELLMAN_KEY"
	}
	return "no"
}
