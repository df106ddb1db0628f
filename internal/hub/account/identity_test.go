package account_test

import (
	"strings"
	"testing"

	"bellman.sh/desktop/internal/hub/account"
)

// A key map is taken whole or not at all, and its errors say what is wrong
// without saying any key.
func TestParseKeys(t *testing.T) {
	good := `{"qk_secret":{"userId":"u","orgId":null,"plan":"pro","role":"member","label":"a@b"},"k2":{"userId":"v","orgId":"o","plan":"team","role":"admin","label":"b"}}`
	keys, err := account.ParseKeys(good)
	if err != nil || len(keys) != 2 || keys["qk_secret"].Org() != "" || keys["k2"].Org() != "o" {
		t.Fatalf("%v %v", keys, err)
	}
	for _, c := range []struct{ text, words string }{
		{``, "not a JSON map"},
		{`[]`, "not a JSON map"},
		{`{"qk_secret":1}`, "not a JSON map"},
		{`{"qk_secret":{}}`, "lacks userId"},
		{strings.Replace(good, `"plan":"pro",`, ``, 1), "lacks plan"},
		{strings.Replace(good, `"orgId":null,`, ``, 1), "lacks orgId"},
		{strings.Replace(good, `"pro"`, `"gold"`, 1), `plan "gold"`},
		{strings.Replace(good, `"member"`, `"boss"`, 1), `role "boss"`},
		{strings.Replace(good, `"userId":"u"`, `"userId":" "`, 1), "userId is missing"},
		{strings.Replace(good, `"userId":"u"`, `"userId":7`, 1), "wrong type"},
		{strings.Replace(good, `"orgId":null`, `"orgId":""`, 1), "orgId is empty"},
		{strings.Replace(good, `"qk_secret"`, `" "`, 1), "a key is empty"},
	} {
		_, err := account.ParseKeys(c.text)
		if err == nil || !strings.Contains(err.Error(), c.words) || strings.Contains(err.Error(), "qk_secret") {
			t.Errorf("%s: %v, want %q", c.text, err, c.words)
		}
	}
}

// The development keys are what everybody's tests rely on.
func TestDevKeys(t *testing.T) {
	for key, id := range account.DevKeys() {
		if err := id.Check(); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if plan := account.PlanOf("no such plan"); plan != account.PlanOf("free") {
		t.Errorf("an unknown plan allows %+v", plan)
	}
}
