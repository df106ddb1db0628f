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
	"initialize", "tools_call", "sse-retry", "json-schema-2020-12-preservation",
	"auth/metadata-default", "auth/metadata-var1", "auth/metadata-var2", "auth/metadata-var3",
	"auth/scope-from-www-authenticate", "auth/scope-from-scopes-supported", "auth/scope-omitted-when-undefined",
	"auth/scope-step-up", "auth/scope-retry-limit",
	"auth/token-endpoint-auth-none", "auth/token-endpoint-auth-basic", "auth/token-endpoint-auth-post",
	"auth/resource-mismatch", "auth/iss-supported", "auth/iss-wrong-issuer", "auth/metadata-issuer-mismatch",
}

// more are the scenarios that long runs add.
var more = []string{
	"auth/basic-cimd", "auth/pre-registration",
	"auth/offline-access-scope", "auth/offline-access-not-supported", "auth/authorization-server-migration",
	"auth/iss-not-advertised", "auth/iss-supported-missing", "auth/iss-unexpected", "auth/iss-normalized",
	"auth/2025-03-26-oauth-metadata-backcompat", "auth/2025-03-26-oauth-endpoint-fallback",
	"auth/client-credentials-jwt", "auth/client-credentials-basic",
}

// refused are the scenarios in which the call itself comes to no good end. In
// most of them the suite's server is a hostile one; the others are about the
// sign-in alone, with a server that speaks a later version of the protocol
// than the service does.
var refused = []string{
	"auth/scope-retry-limit", "auth/resource-mismatch", "auth/metadata-issuer-mismatch",
	"auth/iss-supported", "auth/iss-not-advertised", "auth/iss-supported-missing",
	"auth/iss-wrong-issuer", "auth/iss-unexpected", "auth/iss-normalized",
	"auth/offline-access-scope", "auth/offline-access-not-supported",
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
			bad := strings.Contains(said, "Client exited with code")
			if _, meant := reasons[scenario]; !meant && bad != slices.Contains(refused, scenario) {
				t.Errorf("the call was refused: %t", bad)
			}
			if t.Failed() {
				t.Log(said)
			}
		})
	}
}
