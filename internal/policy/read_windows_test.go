package policy_test

import (
	"errors"
	"strings"
	"testing"

	"bellman.sh/desktop/internal/policy"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/windows/registry"
)

const keyPath = `SOFTWARE\Policies\Bellman`

// policyKey makes the key of the policy for one test. Only an administrator
// can; a machine that has a policy already is left alone.
func policyKey(t *testing.T) registry.Key {
	t.Helper()
	key, existed, err := registry.CreateKey(registry.LOCAL_MACHINE, keyPath, registry.ALL_ACCESS|registry.WOW64_64KEY)
	if err != nil {
		t.Skipf("no administrator: %v", err)
	}
	t.Cleanup(func() {
		if err := errors.Join(key.Close(), registry.DeleteKey(registry.LOCAL_MACHINE, keyPath)); err != nil {
			t.Error(err)
		}
	})
	if existed {
		t.Fatal("this machine has a policy")
	}
	return key
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Names are taken in any case, as group policy may write them.
func TestRegistryTakesEveryKey(t *testing.T) {
	if _, err := policy.Read(); err != nil {
		t.Fatalf("without a key: %v", err)
	}
	key := policyKey(t)
	must(t, key.SetStringValue("ServerURL", "https://bellman.example.com/mcp"))
	must(t, key.SetStringsValue("allowedServerURLs", []string{"https://bellman.example.com/mcp", "https://mcp.bellman.sh/mcp"}))
	must(t, key.SetExpandStringValue("uploadRoot", `%SystemDrive%\Bellman`))
	must(t, key.SetDWordValue("uploadEnabled", 0))
	must(t, key.SetStringValue("credentialStore", "keychain"))
	must(t, key.SetStringValue("logLevel", "warn"))
	got, err := policy.Read()
	if err != nil {
		t.Fatal(err)
	}
	want := wantEverything(`HKLM\SOFTWARE\Policies\Bellman`)
	want.UploadRoot = `C:\Bellman`
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("policy (-want +got):\n%s", diff)
	}
}

func TestRegistryRefusesWhatItDoesNotUnderstand(t *testing.T) {
	for name, tt := range map[string]struct {
		set  func(key registry.Key) error
		want string
	}{
		"unknown name": {func(k registry.Key) error { return k.SetStringValue("server", "x") }, "server: is not a key"},
		"text for a switch": {
			func(k registry.Key) error { return k.SetStringValue("uploadEnabled", "0") }, "uploadEnabled: is not a boolean",
		},
		"number out of range": {func(k registry.Key) error { return k.SetDWordValue("uploadEnabled", 2) }, "uploadEnabled: 2 is neither"},
		"text for a list": {
			func(k registry.Key) error { return k.SetStringValue("allowedServerURLs", "https://a.example") }, "allowedServerURLs: is not a list",
		},
		"bytes": {func(k registry.Key) error { return k.SetBinaryValue("logLevel", []byte{1}) }, "logLevel: has a type"},
	} {
		t.Run(name, func(t *testing.T) {
			must(t, tt.set(policyKey(t)))
			got, err := policy.Read()
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("policy = %+v, err = %v, want an error with %q", got, err, tt.want)
			}
		})
	}
}
