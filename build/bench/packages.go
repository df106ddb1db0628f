package bench

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
	"os/exec"
	"path"
	"regexp"
	"strconv"
	"strings"
)

// Packages runs the benchmarks that stand beside the code of a module in dir
// and writes their results to out, one line each. The area is the name of the
// package, or what the budgets call it. It blocks until all have run; one that
// fails is an error with what it said.
func Packages(ctx context.Context, dir string, out io.Writer, patterns ...string) error {
	cmd := exec.CommandContext(ctx, "go", append([]string{"test", "-run=^$", "-bench=.", "-p=1"}, patterns...)...)
	cmd.Dir = dir
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	text, err := cmd.Output()
	if err != nil {
		return fmt.Errorf("run the benchmarks of the packages: %w\n%s%s", err, text, stderr.Bytes())
	}
	area := ""
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		line := lines.Text()
		if pkg, ok := strings.CutPrefix(line, "pkg: "); ok {
			area = path.Base(pkg)
			if area == "room" {
				area = "watch" // as the budgets call it
			}
		}
		for _, result := range translate(line) {
			fmt.Fprintf(out, "bench: %s/%s\n", area, result)
		}
	}
	return nil
}

var (
	benchmarkLine = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)
	wordEnd       = regexp.MustCompile(`([a-z0-9])([A-Z])`)
)

// translate returns the results in one line of the testing package, "name
// value unit" each, with times in a unit that people read.
func translate(line string) []string {
	m := benchmarkLine.FindStringSubmatch(line)
	if m == nil {
		return nil
	}
	name := strings.ToLower(wordEnd.ReplaceAllString(m[1], "${1}_$2"))
	fields := strings.Fields(m[2])
	var results []string
	for i := 0; i+1 < len(fields); i += 2 {
		value, unit := fields[i], fields[i+1]
		if unit != "ns/op" {
			results = append(results, name+"_"+strings.ReplaceAll(unit, "/", "_per_")+" "+value+" "+unit)
			continue
		}
		if ns, err := strconv.ParseFloat(value, 64); err == nil {
			results = append(results, name+" "+strconv.FormatFloat(ns/1000, 'g', 4, 64)+" µs")
		}
	}
	return results
}
