package manifest_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"bellman.sh/desktop/internal/hub/manifest"
)

// authored is a small manifest with one member replaced or added.
func authored(change string) string {
	fields := map[string]json.RawMessage{
		"room": json.RawMessage(`"r"`), "mode": json.RawMessage(`"swarm"`), "default_role": json.RawMessage(`"b"`), "creator_role": json.RawMessage(`"a"`),
		"roles": json.RawMessage(`{"a":{"can":["send","invite"]},"b":{"can":["send"]}}`),
	}
	var more map[string]json.RawMessage
	if err := json.Unmarshal([]byte(change), &more); err != nil {
		return change
	}
	for name, value := range more {
		if string(value) == `"-"` {
			delete(fields, name)
			continue
		}
		fields[name] = value
	}
	whole, err := json.Marshal(fields)
	if err != nil {
		return err.Error()
	}
	return string(whole)
}

// What the contract allows is accepted, at its edges.
func TestParseAccepts(t *testing.T) {
	sixteen := make([]string, 16)
	for i := range sixteen {
		sixteen[i] = fmt.Sprintf(`"r%d":{"can":[]}`, i)
	}
	for _, text := range []string{
		`{"room":"r","preset":"pair"}`,
		`{"room":"r","preset":"swarm","purpose":null,"public":true}`,
		`{"room":"r","preset":"social","heartbeat":"24h"}`,
		`{"room":"r","preset":"pair","housekeeping":{"quiet_after":"5m","repeat_after":"7d"}}`,
		authored(`{}`),
		authored(`{"room":"` + strings.Repeat("r", 80) + `","purpose":"` + strings.Repeat("p", 300) + `"}`),
		authored(`{"heartbeat":"30s"}`), authored(`{"heartbeat_on":"1440m"}`),
		authored(`{"roles":{"a":{"can":["send","invite","revoke","request_actions","respond_actions","write_surface"]},"b":{"can":[]}}}`),
		authored(`{"roles":{"a":{"can":["send"],"heartbeat_on":"  say it  "},"b":{"can":["send"],"reports":true,"report":"say"}}}`),
		authored(`{"roles":{"a":{"can":["send"]},"b":{"can":["send","invite"]}},"host":{"role":"a","model":"opus","instructions":"x"}}`),
		authored(`{"roles":{` + strings.Join(sixteen, ",") + `},"default_role":"r0","creator_role":"r15"}`),
		authored(`{"roles":{"a":{"can":[]},"b` + strings.Repeat("_", 30) + `":{"can":[]}},"default_role":"a"}`),
	} {
		if _, err := manifest.Parse(json.RawMessage(text), nil); err != nil {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// What it does not allow is refused with the rule that it breaks.
func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ text, words string }{
		{`[]`, "must be an object"},
		{`{}`, "room is required"},
		{`{"room":"r","preset":"trio"}`, `unknown preset "trio": there are pair, review, social, swarm`},
		{`{"room":"r","preset":7}`, "preset must be a string"},
		{`{"room":"r","preset":"pair","mode":"pair"}`, `unknown key "mode"`},
		{`{"room":"r","preset":"pair","heartbeat":"1h"}`, "host"},
		{`{"room":"r","preset":"pair","room":"s"}`, "twice"},
		{`{"room":"  ","preset":"pair"}`, "room must have 1 to 80"},
		{`{"room":"r","preset":"pair","public":"yes"}`, "public must be true or false"},
		{`{"room":"r","preset":"pair","housekeeping":{"quiet_after":"4m"}}`, "between 5m and 7d"},
		{`{"room":"r","preset":"pair","housekeeping":{"tidy":"5m"}}`, `unknown key "tidy"`},
		{authored(`{"room":"` + strings.Repeat("r", 81) + `"}`), "room must have 1 to 80"},
		{authored(`{"purpose":"` + strings.Repeat("p", 301) + `"}`), "purpose"},
		{authored(`{"mode":"trio"}`), "mode must be one of pair, swarm"},
		{authored(`{"mode":"-"}`), "mode is required"},
		{authored(`{"heartbeat":"29s"}`), "between 30s and 1d"},
		{authored(`{"heartbeat":"25h"}`), "between"},
		{authored(`{"heartbeat":"1d"}`), "one of s, m, h"},
		{authored(`{"heartbeat":"10000s"}`), "number"},
		{authored(`{"heartbeat":"1h","heartbeat_on":"1h"}`), "not both"},
		{authored(`{"roles":{}}`), "1 to 16"},
		{authored(`{"roles":{"A":{"can":[]}}}`), "role name"},
		{authored(`{"roles":{"__proto__":{"can":[]}}}`), "role name"},
		{authored(`{"roles":{"constructor":{"can":[]}}}`), "role name"},
		{authored(`{"roles":{"a":{"can":["fly"]},"b":{"can":[]}}}`), `unknown verb "fly"`},
		{authored(`{"roles":{"a":{"can":["send","send"]},"b":{"can":[]}}}`), "twice"},
		{authored(`{"roles":{"a":{},"b":{"can":[]}}}`), "can is required"},
		{authored(`{"roles":{"a":{"can":null},"b":{"can":[]}}}`), "list of verbs"},
		{authored(`{"roles":{"a":{"can":[],"x":1},"b":{"can":[]}}}`), `unknown key "x"`},
		{authored(`{"roles":{"a":{"can":[],"heartbeat_on":true},"b":{"can":[]}}}`), "must hold the verb send"},
		{authored(`{"roles":{"a":{"can":["send"],"heartbeat_on":"  "},"b":{"can":[]}}}`), "heartbeat_on"},
		{authored(`{"roles":{"a":{"can":["send"],"heartbeat_on":true,"reports":true},"b":{"can":[]}}}`), "not both"},
		{authored(`{"roles":{"a":{"can":["send"],"report":"x"},"b":{"can":[]}}}`), "reports: true"},
		{authored(`{"default_role":"c"}`), `default_role "c" is not a declared role (declared: a, b)`},
		{authored(`{"creator_role":"-"}`), "creator_role is required"},
		{authored(`{"host":{"role":"a"}}`), "exactly the verb send"},
		{authored(`{"host":{"role":"z"}}`), "not a declared role"},
		{authored(`{"host":{"role":"b","model":"gpt"}}`), "haiku, sonnet, opus"},
		{authored(`{"mode":"pair","host":{"role":"b"}}`), "swarm"},
		{authored(`{"heartbeat":"59m","host":{"role":"b"}}`), "at least 1h"},
	} {
		_, err := manifest.Parse(json.RawMessage(c.text), nil)
		if err == nil || !strings.Contains(err.Error(), c.words) {
			t.Errorf("%s: %v, want %q", c.text, err, c.words)
		}
	}
}

// A manifest is stored expanded, and reads back as it was.
func TestParseExpands(t *testing.T) {
	saved := map[string]manifest.Manifest{"mine": {Mode: manifest.Pair, Roles: []manifest.Role{{Name: "x", Can: []string{}}}, DefaultRole: "x", CreatorRole: "x"}}
	m, err := manifest.Parse(json.RawMessage(`{"room":"r","preset":"mine","housekeeping":{"idle_after":"2h"}}`), saved)
	if err != nil {
		t.Fatal(err)
	}
	if m.Preset == nil || *m.Preset != "mine" || m.Room != "r" || m.Housekeeping.IdleAfter != 2*time.Hour || m.Seats() != 2 {
		t.Errorf("manifest %+v", m)
	}
	whole, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var back manifest.Manifest
	if err := json.Unmarshal(whole, &back); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(m, back); diff != "" {
		t.Error(diff)
	}
	if saved["mine"].Room != "" {
		t.Error("citing a preset changed it")
	}
}

// No manifest, however odd, is accepted with a role that does not exist, a
// verb that does not, or a bound overstepped.
func FuzzParse(f *testing.F) {
	for _, seed := range []string{
		`{"room":"r","preset":"pair"}`, authored(`{}`), authored(`{"heartbeat":"1h","host":{"role":"b"}}`), `{"room":"r","roles":{"__proto__":{"can":[]}}}`,
		`{"room":"r","preset":"social","heartbeat":"2h"}`, `{"roles":[]}`, `{"room":"\ud800","preset":"pair"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		m, err := manifest.Parse(text, nil)
		if err != nil {
			return
		}
		for _, name := range []string{m.DefaultRole, m.CreatorRole} {
			if _, ok := m.Role(name); !ok {
				t.Errorf("role %q is not declared", name)
			}
		}
		if len(m.Roles) < 1 || len(m.Roles) > 16 || m.Heartbeat < 0 || m.Heartbeat > 24*time.Hour || m.Mode != manifest.Pair && m.Mode != manifest.Swarm {
			t.Errorf("accepted %+v", m)
		}
		for _, r := range m.Roles {
			if !manifest.Slug(r.Name) || len(r.Can) > 6 {
				t.Errorf("accepted role %+v", r)
			}
		}
	})
}
