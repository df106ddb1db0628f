package tools_test

import (
	"strings"
	"testing"

	"bellman.sh/desktop/internal/tools"
)

// The three answers, without a connection, and not a field more.
func TestWhoami(t *testing.T) {
	org := "org_codenerd"
	for _, c := range []struct {
		who        tools.Whoami
		data       string
		text, logs string
	}{
		{tools.Whoami{Source: "oauth", Label: "ada@example.com", Plan: "pro", Role: "member"}, `{"source":"oauth","label":"ada@example.com","plan":"pro","role":"member","org_id":null}`, `Signed in as "ada@example.com" (plan "pro", role "member", org none).`, ""},
		{tools.Whoami{Source: "oauth", Label: "a<b\n\u202e", Plan: "team", Role: "admin", OrgID: &org}, `{"source":"oauth","label":"a<b\n` + "\u202e" + `","plan":"team","role":"admin","org_id":"org_codenerd"}`, `Signed in as "a\u003cb\n\u202e" (plan "team", role "admin", org "org_codenerd").`, ""},
		{tools.Whoami{Source: "env", Label: "never shown", Plan: "x"}, `{"source":"env","label":null}`, "BELLMAN_KEY", ""},
		{tools.Whoami{Source: "unknown", Label: "never shown"}, `{"source":"unknown","label":null}`, "no readable sign-in", ""},
		{tools.Whoami{}, `{"source":"unknown","label":null}`, "no readable sign-in", "unrecognised"},
		{tools.Whoami{Source: "elsewhere", Label: "x"}, `{"source":"unknown","label":null}`, "no readable sign-in", "unrecognised"},
	} {
		r := newRig(t, nowhere, "key", func(cfg *tools.Config) { cfg.Whoami = func() tools.Whoami { return c.who } })
		got := r.call("bellman_whoami", args{"ignored": 1})
		if got.isError || string(got.data) != c.data || !strings.Contains(got.text(), c.text) || strings.Contains(string(got.raw), "never shown") {
			t.Errorf("%+v: %s", c.who, got.raw)
		}
		if noted := r.log.String(); (c.logs == "") != (noted == "") || !strings.Contains(noted, c.logs) {
			t.Errorf("%+v: log %q", c.who, noted)
		}
	}
}

// An identity that is not whole is none, and the log names what is missing, in
// order.
func TestAnIdentityThatIsNotWholeIsNone(t *testing.T) {
	blank, org := " \t", "o"
	whole := tools.Whoami{Source: "oauth", Label: "l", Plan: "p", Role: "r", OrgID: &org}
	for i := range 15 {
		who, want := whole, []string{}
		for bit, field := range []struct {
			name string
			at   *string
		}{{"label", &who.Label}, {"plan", &who.Plan}, {"role", &who.Role}} {
			if i>>bit&1 == 0 {
				*field.at, want = blank[:i%3], append(want, field.name)
			}
		}
		if i>>3 == 0 {
			who.OrgID, want = &blank, append(want, "org_id")
		}
		r := newRig(t, nowhere, "key", func(cfg *tools.Config) { cfg.Whoami = func() tools.Whoami { return who } })
		got := r.call("bellman_whoami", nil)
		if len(want) == 0 {
			t.Fatal("a whole identity among those that are not")
		}
		if string(got.data) != `{"source":"unknown","label":null}` || !strings.Contains(r.log.String(), `fields="`+strings.Join(want, ", ")+`"`) && !strings.Contains(r.log.String(), "fields="+want[0]+"\n") {
			t.Errorf("%v: %s, log %q", want, got.data, r.log.String())
		}
	}
}
