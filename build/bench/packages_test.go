package bench_test

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"bellman.sh/desktop/build/bench"
)

// Each result of a package's benchmark is one line of ours, whatever else the
// benchmark reports.
func TestPackagesWriteOneLineForEachResult(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod": "module example.com/m\n\ngo 1.26.0\n",
		"q/q.go": "package q\n", "room/r.go": "package room\n",
		"room/r_test.go": "package room\n\nimport \"testing\"\n\nfunc BenchmarkWake(b *testing.B) {\n\tfor b.Loop() {\n\t}\n}\n",
		"q/q_test.go": "package q\n\nimport \"testing\"\n\nfunc BenchmarkPutOne(b *testing.B) {\n\tfor b.Loop() {\n\t}\n\tb.ReportMetric(42, \"events/s\")\n}\n\n" +
			"func BenchmarkClaim(b *testing.B) {\n\tb.Run(\"of=1000\", func(b *testing.B) {\n\t\tfor b.Loop() {\n\t\t}\n\t})\n}\n",
	} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var out bytes.Buffer
	if err := bench.Packages(t.Context(), dir, &out, "./..."); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`(?m)^bench: q/put_one [0-9.e-]+ µs$`, `(?m)^bench: q/put_one_events_per_s 42.00 events/s$`, `(?m)^bench: q/claim/of=1000 [0-9.e-]+ µs$`,
		`(?m)^bench: watch/wake [0-9.e-]+ µs$`,
	} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no line %s in:\n%s", want, out.String())
		}
	}
	if n := strings.Count(out.String(), "\n"); n != 4 {
		t.Errorf("%d lines, want 4:\n%s", n, out.String())
	}
}

func TestABrokenBenchmarkIsAnError(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module example.com/m\n\ngo 1.26.0\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "m.go"), []byte("package m\n\nfunc broken() {"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := bench.Packages(t.Context(), dir, &bytes.Buffer{}, "./..."); err == nil {
		t.Error("a package that does not compile went through")
	}
}
