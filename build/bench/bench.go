// Package bench measures what ships against its budgets: the bridge as a
// process, the hub on loopback, and peers beside them in the same run. Each
// result is one line. (design.md 10)
package bench

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"bellman.sh/desktop/build/host"
	"bellman.sh/desktop/build/mcpb"
)

// Config is what is measured, and with what.
type Config struct {
	Bridge, Hub, Bundle string // built files
	// Remote is the mcp-remote to compare with; empty when it is not there.
	Remote string
	// Work is an empty folder for state.
	Work string
	// Out gets the results.
	Out io.Writer
}

// Run measures everything that needs whole programs. It blocks for a minute or
// two; an error names the step that failed.
func Run(ctx context.Context, cfg Config) error {
	b := &bench{Config: cfg}
	if err := b.size(); err != nil {
		return fmt.Errorf("measure size: %w", err)
	}
	if err := b.start(ctx); err != nil {
		return fmt.Errorf("measure start: %w", err)
	}
	s, err := startService(ctx, cfg.Hub, filepath.Join(cfg.Work, "hub"))
	if err != nil {
		return fmt.Errorf("start the hub: %w", err)
	}
	defer s.stop()
	for _, step := range []struct {
		name string
		run  func(context.Context, *service) error
	}{{"proxy", b.proxy}, {"wait", b.wait}, {"upload", b.upload}, {"memory", b.memory}} {
		if err := step.run(ctx, s); err != nil {
			return fmt.Errorf("measure %s: %w", step.name, err)
		}
	}
	return nil
}

type bench struct {
	Config
	bridges int
}

// report writes one result.
func (b *bench) report(area, name string, value float64, unit string) {
	fmt.Fprintf(b.Out, "bench: %s/%s %.4g %s\n", area, name, value, unit)
}

// bridge starts a bridge with a state of its own against the service at url.
func (b *bench) bridge(ctx context.Context, url, key string, settings ...string) (*host.Server, error) {
	b.bridges++
	launch := mcpb.Launch{Command: b.Bridge, Env: map[string]string{
		"BELLMAN_URL": url, "BELLMAN_KEY": key, "BELLMAN_CREDENTIAL_STORE": "memory", "BELLMAN_NO_BROWSER": "1",
		"BELLMAN_STATE_DIR": filepath.Join(b.Work, fmt.Sprint("state ", b.bridges)), "BELLMAN_LOG": "error",
	}}
	for i := 0; i+1 < len(settings); i += 2 {
		launch.Env[settings[i]] = settings[i+1]
	}
	return host.Start(ctx, launch, os.Environ())
}

func (b *bench) size() error {
	for name, path := range map[string]string{"bridge": b.Bridge, "bundle": b.Bundle} {
		info, err := os.Stat(path)
		if err != nil {
			return err
		}
		b.report("size", name, float64(info.Size())/1e6, "MB")
	}
	return nil
}

// start measures from the spawn to the answers a host waits for, and from the
// end of input to the bridge's leaving, signed out and with nothing at the
// other end.
func (b *bench) start(ctx context.Context) error {
	const runs = 31
	var initialized, listed, left []time.Duration
	for range runs {
		began := time.Now()
		s, err := b.bridge(ctx, "http://127.0.0.1:9/mcp", "")
		if err != nil {
			return err
		}
		if err := s.Initialize(); err != nil {
			s.Kill()
			return err
		}
		initialized = append(initialized, time.Since(began))
		if _, err := s.Tools(); err != nil {
			s.Kill()
			return err
		}
		listed = append(listed, time.Since(began))
		ended := time.Now()
		if err := s.Leave(); err != nil {
			return err
		}
		left = append(left, time.Since(ended))
	}
	b.report("start", "initialize_p50", milliseconds(quantile(initialized, 0.5)), "ms")
	b.report("start", "tools_list_p50", milliseconds(quantile(listed, 0.5)), "ms")
	b.report("start", "leave_max", milliseconds(quantile(left, 1)), "ms")
	return nil
}

// quantile returns the q-th part of the samples, which it sorts.
func quantile(samples []time.Duration, q float64) time.Duration {
	slices.Sort(samples)
	return samples[min(int(q*float64(len(samples))), len(samples)-1)]
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }

// sample runs f so many times and returns how long each took.
func sample(runs int, f func() error) ([]time.Duration, error) {
	var list []time.Duration
	for range runs {
		began := time.Now()
		if err := f(); err != nil {
			return nil, err
		}
		list = append(list, time.Since(began))
	}
	return list, nil
}
