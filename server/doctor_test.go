package main

import (
	"bytes"
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub/hubtest"
	"bellman.sh/desktop/internal/policy"
)

// examine runs the doctor with an environment of its own and returns the
// report. It is on loopback and in a fresh home unless env says otherwise.
func examine(t *testing.T, managed policy.Policy, unreadable error, env map[string]string, args ...string) (report string, err error) {
	t.Helper()
	f, _, err := parseFlags(args)
	if err != nil {
		t.Fatal(err)
	}
	home := t.TempDir()
	get := func(name string) string {
		if value, ok := env[name]; ok {
			return value
		}
		return map[string]string{
			"BELLMAN_URL": "http://127.0.0.1:1/mcp", "BELLMAN_STATE_DIR": filepath.Join(home, "state"), "XDG_CONFIG_HOME": home,
		}[name]
	}
	t.Setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/nonexistent")
	var out bytes.Buffer
	err = doctor(t.Context(), f, managed, unreadable, streams{out: &out, err: &out}, get)
	return out.String(), err
}

// wantLines looks for each of the texts in a report.
func wantLines(t *testing.T, report string, lines ...string) {
	t.Helper()
	for _, want := range lines {
		if !strings.Contains(report, want) {
			t.Errorf("no %q in:\n%s", want, report)
		}
	}
}

func TestDoctorFindsAWorkingBridgeWell(t *testing.T) {
	j, b := join(t)
	j.peer.Say(t, "one")
	b.untilWaiting("1 peer event is waiting")
	watched := fmt.Sprintf("%s: socket by process %d since ", j.room, b.cmd.Process.Pid)
	out, err := j.profile.command(t, "doctor").CombinedOutput()
	for range 100 { // a watch says what it does in its own time
		if strings.Contains(string(out), watched) {
			break
		}
		out, err = j.profile.command(t, "doctor").CombinedOutput()
	}
	if err != nil || strings.Contains(string(out), "→") || strings.Contains(string(out), "qk_dev_jesse") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
	wantLines(t, string(out),
		"/healthz answers 200", "/mcp answers 405", "/ws answers 426", "of the service's",
		"1 rooms; 1 events waiting, 1 of them interrupting",
		fmt.Sprintf("process %d, since ", b.cmd.Process.Pid),
		watched,
		j.member+" has read to ",
	)
	if strings.Contains(string(out), `"one"`) {
		t.Errorf("the report tells what a peer wrote:\n%s", out)
	}
}

// Looking makes nothing: a report from a machine that is in trouble shows the
// trouble, not what the doctor did about it.
func TestDoctorChangesNothing(t *testing.T) {
	home := t.TempDir()
	report, err := examine(t, policy.Policy{}, nil, map[string]string{"BELLMAN_STATE_DIR": filepath.Join(home, "state")})
	if !errors.Is(err, errUnwell) {
		t.Errorf("err = %v\n%s", err, report)
	}
	if left, _ := os.ReadDir(home); len(left) > 0 {
		t.Errorf("it made %v", left)
	}
}

// Whatever is secret, and wherever it was set, is not in the report.
func TestDoctorTellsNoSecret(t *testing.T) {
	const secret = "hunter2"
	h := hubtest.Start(t)
	plain := h.URL + "/mcp"
	for _, tt := range []struct {
		url  string
		args []string
	}{
		{plain, []string{"doctor"}},
		{plain, []string{"doctor", "--json"}},
		{plain, []string{"doctor", "--key", secret}},
		{plain, []string{"--key=" + secret, "doctor"}},
		{plain, []string{"doctor", "--url", "https://me:" + secret + "@127.0.0.1/mcp"}},
		{plain + "?key=" + secret, []string{"doctor"}},
		{"http://me:" + secret + "@127.0.0.1:1/mcp", []string{"doctor", "--json"}},
		{"ftp://x/?" + secret, []string{"doctor"}},
		{"${user_config.x}" + secret, []string{"doctor"}},
	} {
		p := newProfile(t, tt.url, secret, "HTTP_PROXY=http://me:"+secret+"@127.0.0.1:1", "HTTPS_PROXY=http://me:"+secret+"@127.0.0.1:1",
			"NO_PROXY=127.0.0.1", "BELLMAN_NOTE="+secret)
		out, err := p.command(t, tt.args...).CombinedOutput()
		if err != nil && !strings.Contains(string(out), "something needs doing") {
			t.Errorf("%v with %s: %v\n%s", tt.args, tt.url, err, out)
		}
		if strings.Contains(string(out), secret) {
			t.Errorf("%v with %s tells a secret:\n%s", tt.args, tt.url, out)
		}
	}
}

// Each value is shown with where it comes from, policy before all.
func TestDoctorSaysWhereEachSettingComesFrom(t *testing.T) {
	off := false
	report, _ := examine(t, policy.Policy{
		ServerURL: "http://127.0.0.1:2/mcp", UploadEnabled: &off, LogLevel: "warn", Origin: "/etc/bellman/policy.json",
	}, nil, map[string]string{"BELLMAN_UPLOAD_ROOT": "${user_config.upload_root}", "BELLMAN_CREDENTIAL_STORE": "memory"}, "doctor", "--profile", "work")
	wantLines(t, report,
		"managed by your organization (/etc/bellman/policy.json)", "serverURL = http://127.0.0.1:2/mcp", "uploadEnabled = false",
		"http://127.0.0.1:2/mcp (policy serverURL)", "switched off (policy uploadEnabled)", "warn (policy logLevel)",
		"memory (BELLMAN_CREDENTIAL_STORE)", "work (--profile)", "on (default)",
		"BELLMAN_UPLOAD_ROOT still holds ${user_config.upload_root}, which counts as unset",
		"kept in the memory of each running bridge",
	)
}

// The doctor is who a person asks when nothing starts: settings and policy
// that stop the bridge do not stop it.
func TestDoctorRunsWhereTheBridgeDoesNot(t *testing.T) {
	report, err := examine(t, policy.Policy{}, nil, map[string]string{"BELLMAN_LOG": "chatty"})
	if !errors.Is(err, errUnwell) {
		t.Errorf("err = %v", err)
	}
	wantLines(t, report, `BELLMAN_LOG: "chatty" is not one of`, "→ correct it")
	report, err = examine(t, policy.Policy{}, errors.New("read policy /etc/bellman/policy.json: serverUrl: is not a key of this policy"), nil)
	if !errors.Is(err, errUnwell) {
		t.Errorf("err = %v", err)
	}
	wantLines(t, report, "serverUrl: is not a key", "→ ask your administrator")
	report, _ = examine(t, policy.Policy{ServerURL: "http://a.example/mcp"}, nil, nil)
	wantLines(t, report, "policy serverURL: ", "unencrypted")
}

func TestDoctorAnswersPrograms(t *testing.T) {
	report, _ := examine(t, policy.Policy{}, nil, nil, "doctor", "--json")
	var answer struct {
		Well     *bool
		Findings []finding
	}
	if err := json.Unmarshal([]byte(report), &answer); err != nil || answer.Well == nil || *answer.Well {
		t.Fatalf("answer = %+v (%v)\n%s", answer, err, report)
	}
	steps := 0
	for _, f := range answer.Findings {
		if f.About == "" || f.Found == "" {
			t.Errorf("an empty finding: %+v", f)
		}
		if f.Next != "" {
			steps++
		}
	}
	if steps == 0 {
		t.Error("no finding has a next step")
	}
}

// A service that is none, one whose clock differs, one whose authority is not
// known here.
func TestDoctorJudgesTheService(t *testing.T) {
	stranger := httptest.NewServer(http.NotFoundHandler())
	defer stranger.Close()
	report, _ := examine(t, policy.Policy{}, nil, map[string]string{"BELLMAN_URL": stranger.URL + "/mcp"})
	wantLines(t, report, "/healthz answers 404", "/mcp answers 404", "/.well-known/oauth-protected-resource answers 404", "does not look like a Bellman service")

	for want, off := range map[string]time.Duration{"by 10m": 10 * time.Minute, "by -9m5": -10*time.Minute + time.Second} {
		late := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Date", time.Now().Add(-off).UTC().Format(http.TimeFormat))
		}))
		defer late.Close()
		report, _ = examine(t, policy.Policy{}, nil, map[string]string{"BELLMAN_URL": late.URL + "/mcp"})
		wantLines(t, report, "it differs from the service's "+want, "→ set this machine's clock")
	}
	h := hubtest.Start(t)
	report, _ = examine(t, policy.Policy{}, nil, map[string]string{"BELLMAN_URL": h.URL + "/mcp"})
	wantLines(t, report, "/.well-known/oauth-protected-resource answers 200", "/.well-known/oauth-authorization-server answers 200")
	if strings.Contains(report, "clock:        →") || strings.Contains(report, "differs from the service's") {
		t.Errorf("the clock is right:\n%s", report)
	}
}

func TestDoctorKnowsAnAuthorityThatIsNotKnown(t *testing.T) {
	private := httptest.NewUnstartedServer(http.NotFoundHandler())
	private.Config.ErrorLog = log.New(io.Discard, "", 0)
	private.StartTLS()
	defer private.Close()
	p := newProfile(t, private.URL+"/mcp", "qk_dev_peer", "SSL_CERT_FILE=")
	out, _ := p.command(t, "doctor").CombinedOutput()
	wantLines(t, string(out), "those of the system", "unknown authority", "→ have the authority")

	path := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: private.Certificate().Raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	p.env = append(p.env, "SSL_CERT_FILE="+path)
	out, _ = p.command(t, "doctor").CombinedOutput()
	wantLines(t, string(out), "those in "+path, "/healthz answers 404")

	for text, want := range map[string]string{path + ".gone": "no such file", os.DevNull: "holds no certificate"} {
		p.env = append(p.env, "SSL_CERT_FILE="+text)
		out, _ = p.command(t, "doctor").CombinedOutput()
		wantLines(t, string(out), want)
	}
}

// A folder for the state that cannot be made is found before anything is lost
// for want of it.
func TestDoctorFindsAStateFolderThatCannotBe(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	places := []string{filepath.Join(file, "below", "a file")}
	if runtime.GOOS == "linux" {
		places = append(places, "/proc/bellman/state")
	}
	for _, place := range places {
		report, _ := examine(t, policy.Policy{}, nil, map[string]string{"BELLMAN_STATE_DIR": place})
		wantLines(t, report, "→ set BELLMAN_STATE_DIR to a folder you can write to")
	}
}

func TestDoctorFindsWhatOthersCouldRead(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes")
	}
	state := filepath.Join(t.TempDir(), "state [1]")
	file := filepath.Join(state, "default", "state.json")
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	env := map[string]string{"BELLMAN_STATE_DIR": state}
	if report, _ := examine(t, policy.Policy{}, nil, env); strings.Contains(report, "open to others") {
		t.Errorf("nothing is open:\n%s", report)
	}
	for path, mode := range map[string]os.FileMode{file: 0o640, filepath.Dir(file): 0o755} {
		if err := os.Chmod(path, mode); err != nil {
			t.Fatal(err)
		}
		report, _ := examine(t, policy.Policy{}, nil, env)
		wantLines(t, report, fmt.Sprintf("%s is open to others: mode %v", path, mode), fmt.Sprintf("→ chmod go= %q", path))
	}
}

// What bridges warned of stands in the logs the host keeps. The report shows
// the last of it and nothing that others wrote there.
func TestDoctorShowsWhatBridgesLastWarnedOf(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("the logs lie elsewhere")
	}
	home := t.TempDir()
	logs := filepath.Join(home, "Claude", "logs")
	if err := os.MkdirAll(logs, 0o700); err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	for i := range 9 {
		fmt.Fprintf(&text, "2026-12-01T00:00:0%dZ [Bellman] [info] [bellman] level=WARN msg=\"trouble %d\"\n", i, i)
		text.WriteString("2026-12-01 [Bellman] Message from client: {\"text\":\"hunter2\"}\n[bellman] msg=ready\n")
	}
	text.WriteString("[bellman] level=ERROR msg=\"\x1b[31mred\" " + strings.Repeat("é", 1000) + "\n")
	if err := os.WriteFile(filepath.Join(logs, "mcp-server-Bellman.log"), []byte(strings.Repeat("x", logTail)+"\n"+text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	report, _ := examine(t, policy.Policy{}, nil, map[string]string{"XDG_CONFIG_HOME": home})
	wantLines(t, report, "trouble 8", "trouble 5", "level=ERROR")
	for _, not := range []string{"trouble 4", "hunter2", "ready", "\x1b"} {
		if strings.Contains(report, not) {
			t.Errorf("the report has %q:\n%s", not, report)
		}
	}
	for line := range strings.Lines(report) {
		if len(line) > 600 {
			t.Errorf("a line of %d bytes", len(line))
		}
	}
}

// An argument's value may be a key; the shape of the command line is not.
func TestShapeOfACommandLineHasNoValues(t *testing.T) {
	got := shape([]string{"/opt/bellman-bridge", "--bundle", "--key", "hunter2", "--url=https://x", "doctor", "extra"})
	if want := "bellman-bridge --bundle --key … --url=… doctor …"; got != want {
		t.Errorf("shape = %q, want %q", got, want)
	}
}

// A room without a watch needs somebody only while a bridge is there.
func TestDoctorSaysWhenARoomIsNotWatched(t *testing.T) {
	j, b := join(t)
	b.kill()
	report := func() string {
		out, _ := j.profile.command(t, "doctor").CombinedOutput()
		return string(out)
	}
	if got := report(); !strings.Contains(got, j.room+": unwatched") || strings.Contains(got, "→") {
		t.Errorf("without a bridge:\n%s", got)
	}
	j.hub.Stop(t)
	b = j.profile.open(t)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	for got := report(); !strings.Contains(got, fmt.Sprintf("%s: waiting by process %d", j.room, b.cmd.Process.Pid)); got = report() {
		if ctx.Err() != nil {
			t.Fatalf("the service is gone:\n%s", got)
		}
	}
}
