package demo

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"bellman.sh/desktop/build/host"
	"bellman.sh/desktop/build/mcpb"
)

// actor is a person's host with its bridge. Its environment outlives the
// bridge, which is killed and started again.
type actor struct {
	*host.Server

	name    string
	launch  mcpb.Launch
	env     []string
	running bool
}

// cast resolves the launch command as Claude Desktop does and adds what a demo
// needs: a state directory of its own, and no real browser.
func (s *stage) cast(name, key string) (*actor, error) {
	data, err := os.ReadFile(filepath.Join(s.dir, mcpb.ManifestName))
	if err != nil {
		return nil, err
	}
	manifest, err := mcpb.ParseManifest(data)
	if err != nil {
		return nil, err
	}
	files := filepath.Join(s.cfg.Work, "files of "+name)
	if err := os.MkdirAll(files, 0o700); err != nil {
		return nil, err
	}
	a := &actor{name: name, env: os.Environ()}
	a.launch, err = mcpb.Resolve(manifest, mcpb.Host{
		Dir: s.dir, Platform: s.cfg.Platform,
		Settings: map[string]any{"bellman_url": s.hub.URL + "/mcp", "upload_root": files},
	})
	for name, value := range map[string]string{
		"BELLMAN_STATE_DIR": filepath.Join(s.cfg.Work, "state of "+name), "BELLMAN_NO_BROWSER": "1", "BELLMAN_KEY": key,
		"BELLMAN_PROFILE": "", "BELLMAN_CREDENTIAL_STORE": "", "BELLMAN_LOG": "", "BELLMAN_NOTICE": "",
	} {
		a.env = append(a.env, name+"="+value)
	}
	return a, err
}

// start starts the bridge, completes the handshake and lists the tools.
func (a *actor) start(ctx context.Context) (tools []string, err error) {
	if a.Server, err = host.Start(ctx, a.launch, a.env); err != nil {
		return nil, err
	}
	a.running = true
	if err := a.Initialize(); err != nil {
		return nil, err
	}
	return a.Tools()
}

// command runs a subcommand of the same bridge in the same place.
func (a *actor) command(ctx context.Context, name string) (string, error) {
	cmd := exec.CommandContext(ctx, a.launch.Command, append(append([]string{}, a.launch.Args...), name)...)
	cmd.Env = a.env
	for key, value := range a.launch.Env {
		cmd.Env = append(cmd.Env, key+"="+value)
	}
	out, err := cmd.Output()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if ok && exit.ExitCode() == 4 {
		return string(out), nil // nobody is signed in; the output says so
	}
	if ok {
		err = fmt.Errorf("%w: %s", err, exit.Stderr)
	}
	return string(out), err
}
