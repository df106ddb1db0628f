package conformance_test

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// quick are the scenarios of every run: the conversation, and one of each
// kind of sign-in.
var quick = []string{
	"initialize", "tools_call", "json-schema-2020-12-preservation",
	"auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3",
	"auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined",
	"auth/scope-step-up", "auth/scope-retry-limit",
	"auth/token-endpoint-auth-none", "auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post",
	"auth/resource-mismatch", "auth/iss-supported", "auth/iss-wrong-issuer", "auth/metadata-issuer-mismatch",
}

// more are the scenarios that long runs add.
var more = []string{
	"sse-retry", "auth/basic-cimd", "auth/pre-registration",
	"auth/offline-access-scope", "auth/offline-access-not-supported", "auth/authorization-server-migration",
	"auth/iss-not-advertised", "auth/iss-supported-missing", "auth/iss-unexpected", "auth/iss-normalized",
	"auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback",
	"auth/client-credentials-jwt", "auth/client-credentials-basic",
}

// hostile are the scenarios in which a call must not come to a good end.
var hostile = []string{
	"auth/scope-retry-limit", "auth/resource-mismatch", "auth/iss-wrong-issuer", "auth/metadata-issuer-mismatch",
	"auth/iss-supported-missing", "auth/iss-unexpected", "auth/iss-normalized",
}

// The suite's servers find nothing to object to in the bridge as a client of
// theirs, sign-in by a browser included, except in what is listed.
func TestBridgeAsClient(t *testing.T) {
	packages(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	scenarios := quick
	if wide {
		scenarios = append(scenarios, more...)
	}
	reasons := expected(t, "client.txt")
	for _, scenario := range scenarios {
		t.Run(scenario, func(t *testing.T) {
			verdict, said := judge(t, []string{roleVariable + "=host", "CONFORMANCE_BRIDGE=" + bridge},
				"client", "--command", self, "--scenario", scenario, "--timeout", "120000")
			compare(t, verdict, reasons)
			refused := strings.Contains(said, "CLIENT EXITED WITH ERROR")
			if _, meant := reasons[scenario]; !meant && refused != slices.Contains(hostile, scenario) {
				t.Errorf("the call was refused: %t", refused)
			}
			if t.Failed() {
				t.Log(said)
			}
		})
	}
}
