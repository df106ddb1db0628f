package notices_test

import (
	"bytes"
	"debug/buildinfo"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"bellman.sh/desktop/build/notices"
)

// Each module inside the program has its name, version and terms in the
// notices, and two of them are the same.
func TestNoticesNameEveryModule(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bridge")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, "../../server").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	info, err := buildinfo.Read(bytes.NewReader(data))
	if err != nil {
		t.Fatal(err)
	}
	text, err := notices.Write(t.Context(), "../..", data, data)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range info.Deps {
		_, section, found := strings.Cut(string(text), "\n"+m.Path+" "+m.Version+"\n")
		if section, _, _ = strings.Cut(section, "\n=========="); !found || len(section) < 500 {
			t.Errorf("%s %s: %d bytes of terms", m.Path, m.Version, len(section))
		}
	}
	if !strings.Contains(string(text), "Copyright 2009 The Go Authors") || len(info.Deps) < 10 {
		t.Errorf("%d modules; Go's own terms are there: %t", len(info.Deps), strings.Contains(string(text), "Copyright 2009 The Go Authors"))
	}
	again, err := notices.Write(t.Context(), "../..", data)
	if err != nil || !bytes.Equal(text, again) {
		t.Errorf("again: %v, the same: %t", err, bytes.Equal(text, again))
	}
	if _, err := notices.Write(t.Context(), "../..", []byte("no program")); err == nil {
		t.Error("what is no program has notices")
	}
}
