package main

import (
	"crypto/rand"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"bellman.sh/desktop/internal/hub"
	"bellman.sh/desktop/internal/hub/hubtest"
)

// A file of the largest size by bellman_upload, through a bridge that is a
// process, and the same POST by curl beside it; and by how much the bridge's
// memory grows on the way.
func BenchmarkUpload(b *testing.B) {
	curl, err := exec.LookPath("curl")
	if err != nil {
		b.Skip("no curl to compare with")
	}
	const size = 26_214_400
	h := hubtest.Start(b, func(c *hub.Config) { c.Data = b.TempDir() })
	p := newProfile(b, h.URL+"/mcp", hubtest.Jesse)
	path := filepath.Join(p.dir, "large.bin")
	content := make([]byte, size)
	_, _ = rand.Read(content)
	for file, of := range map[string][]byte{path: content, filepath.Join(p.dir, "small.bin"): content[:1]} {
		if err := os.WriteFile(file, of, 0o600); err != nil {
			b.Fatal(err)
		}
	}
	p.env = append(p.env, "BELLMAN_UPLOAD_ROOT="+p.dir)
	bridge := p.open(b)
	var seat struct {
		Room   string `json:"session_id"`
		Member string `json:"member_id"`
	}
	bridge.ok("bellman_start", map[string]any{"manifest": map[string]any{"room": "r", "preset": "pair"}, "brief": hubtest.Brief("g")}, &seat)
	upload := func(file string) time.Duration {
		began := time.Now()
		bridge.ok("bellman_upload", map[string]any{"session_id": seat.Room, "member_id": seat.Member, "path": file, "key": "k"}, nil)
		return time.Since(began)
	}
	post := func() time.Duration {
		out, err := exec.Command(curl, "-sS", "-f", "-X", "POST", "-T", path, "-o", os.DevNull, "-w", "%{time_total}",
			"-H", "Authorization: Bearer "+hubtest.Jesse, "-H", "Content-Type: application/octet-stream", "-H", "Expect:",
			h.URL+"/rooms/"+seat.Room+"/blobs?name=large.bin&member_id="+seat.Member).Output()
		seconds, bad := strconv.ParseFloat(string(out), 64)
		if err != nil || bad != nil {
			b.Fatalf("curl: %v, %s", err, out)
		}
		return time.Duration(seconds * float64(time.Second))
	}
	upload("small.bin") // the code that uploads, and a connection, are there whatever the size
	before := residentKiB(b, bridge.cmd.Process.Pid, "VmHWM:")
	var ours, theirs []time.Duration
	for b.Loop() {
		ours, theirs = append(ours, upload("large.bin")), append(theirs, post())
	}
	grown := residentKiB(b, bridge.cmd.Process.Pid, "VmHWM:") - before
	median := func(all []time.Duration) float64 {
		slices.Sort(all)
		return all[len(all)/2].Seconds()
	}
	b.ReportMetric(size/1e6/median(ours), "MB/s")
	b.ReportMetric(size/1e6/median(theirs), "curl_MB/s")
	b.ReportMetric(median(theirs)/median(ours), "of_curl")
	b.ReportMetric(float64(grown)/1024, "MiB_grown")
}

// residentKiB is what Linux says of a process's memory.
func residentKiB(b *testing.B, pid int, field string) int {
	b.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Skip("only Linux tells how much memory a process has")
	}
	for line := range strings.Lines(string(status)) {
		if value, ok := strings.CutPrefix(line, field); ok {
			n, err := strconv.Atoi(strings.TrimSuffix(strings.TrimSpace(value), " kB"))
			if err != nil {
				b.Fatal(err)
			}
			return n
		}
	}
	b.Fatalf("no %s", field)
	return 0
}
