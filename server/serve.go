package main

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"bellman.sh/desktop/internal/remote"
	"bellman.sh/desktop/internal/room"
	"bellman.sh/desktop/internal/stdio"
	"bellman.sh/desktop/internal/tools"
)

// serve answers the host until its input ends, a signal comes or its process
// is gone. The host is answered from the first moment: the queue, the keychain
// and the service are opened behind it, and none of them being in trouble ends
// the program.
func serve(ctx context.Context, cfg config, s streams, log *slog.Logger) error {
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	if err := makeDir(cfg.dir); err != nil {
		log.Error("the state directory cannot be used; set BELLMAN_STATE_DIR", "error", err)
	}
	conn := stdio.New(s.in, s.out, log)
	host := &person{conn: conn, log: log}
	cred := openCredential(ctx, cfg, host, log)
	events := openEvents(ctx, cfg, log)
	var bridge *tools.Bridge // is there before the first request, and so before the first notification
	client := remote.New(remote.Options{
		Server: cfg.server, Tokens: cred, TLS: cfg.tls, Version: currentVersion(), Log: log,
		Notify: func(method string, params json.RawMessage) {
			switch method {
			case "notifications/progress":
				notify(conn, log, method, params)
			case "notifications/tools/list_changed":
				bridge.ToolsChanged(ctx)
			}
		},
	})
	bridge = tools.New(tools.Config{
		Queue: events.get, Remote: client, SignIn: cred.signIn(), Identity: cred.identity, Whoami: cred.whoami,
		Upload: cfg.upload, RoomDir: cfg.roomDir, Dir: cfg.dir, Server: cfg.server.String(), Version: currentVersion(), Notice: cfg.notice,
		Notify: func(method string, params any) { notify(conn, log, method, params) }, Log: log,
	})
	var side sync.WaitGroup
	side.Go(func() { watchRooms(ctx, cred, events, client, log) })
	side.Go(func() { watchParent(ctx, leave, log) })

	log.Info("ready: queue delivery", "server", cfg.server.String(), "version", currentVersion(), "profile", cfg.profile, "key", cfg.key != "")
	err := conn.Run(ctx, func(ctx context.Context, r *stdio.Request) stdio.Reply {
		if r.Method == "initialize" {
			host.learn(r.Params)
		}
		return answer(ctx, bridge, r, log)
	})

	leave()
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		bridge.Close()
		side.Wait()
		client.Close()
		if q := events.opened(); q != nil {
			if err := q.Close(); err != nil {
				log.Warn("the queue was not closed in order", "error", err)
			}
		}
	}()
	select {
	case <-closed:
	case <-time.After(closeLimit):
		log.Warn("another process holds the queue; what this one held is freed by its end")
	}
	cred.close(ctx, log)
	return err
}

// closeLimit is what is left of two seconds once the connection has ended. What
// is not given back by then the queue frees by itself: the process's lock goes
// with the process.
const closeLimit = 700 * time.Millisecond

// watchRooms keeps the queue filled while the bridge lives.
func watchRooms(ctx context.Context, cred *credential, events *events, client *remote.Client, log *slog.Logger) {
	q := events.opened()
	if q == nil {
		return
	}
	watcher := room.New(room.Config{Queue: q, Remote: client, Identity: cred.identity, Log: log})
	var side sync.WaitGroup
	side.Go(func() { cred.follow(ctx, watcher.Kick) })
	watcher.Run(ctx)
	side.Wait()
}

// answer carries one request between the connection and the bridge.
func answer(ctx context.Context, b *tools.Bridge, r *stdio.Request, log *slog.Logger) stdio.Reply {
	if r.ID == nil {
		return stdio.Reply{} // notifications concern the connection alone
	}
	a := b.Handle(ctx, tools.Call{Method: r.Method, Tool: r.Tool, Params: r.Params, Progress: r.Progress, Raw: r.Raw})
	reply := stdio.Reply{Result: a.Result, Leaving: a.Receipt.Leaving, Settle: settle(ctx, a.Receipt, log)}
	if a.Error != nil {
		reply.Error = &stdio.Error{Code: a.Error.Code, Message: a.Error.Message}
		if a.Error.Data != nil {
			if data, err := json.Marshal(a.Error.Data); err == nil {
				reply.Error.Data = data
			}
		}
	}
	return reply
}

// settleTime bounds what is noted once a reply's fate is known.
const settleTime = 5 * time.Second

// settle turns a receipt into what the connection calls; nil when nobody wants
// to hear of the reply. The call's own ctx has ended by then.
func settle(ctx context.Context, r tools.Receipt, log *slog.Logger) func(stdio.Fate) {
	if r.Written == nil && r.Lost == nil && r.Recalled == nil {
		return nil
	}
	return func(f stdio.Fate) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTime)
		defer cancel()
		var err error
		switch {
		case f == stdio.Written && r.Written != nil:
			err = r.Written(ctx)
		case f == stdio.Failed && r.Lost != nil:
			err = r.Lost(ctx, true)
		case f == stdio.Cancelled && r.Lost != nil:
			err = r.Lost(ctx, false)
		case f == stdio.Recalled && r.Recalled != nil:
			err = r.Recalled(ctx)
		}
		if err != nil {
			log.Warn("what became of a reply could not be noted", "error", err)
		}
	}
}

func notify(conn *stdio.Conn, log *slog.Logger, method string, params any) {
	if err := conn.Notify(method, params); err != nil {
		log.Debug("a notification did not reach the host", "method", method, "error", err)
	}
}

// unmanageable ends the program because policy stands but cannot be read. A
// host is told so in the answer to initialize, where its log shows it.
func unmanageable(ctx context.Context, command string, s streams, cause error) int {
	if command != "" {
		return report(s.err, hinted{cause, "ask your administrator; the bridge does not run without its policy"})
	}
	ctx, leave := context.WithCancel(ctx)
	defer leave()
	conn := stdio.New(s.in, s.out, slog.New(slog.DiscardHandler))
	said := fmt.Sprintf("the policy set by your organization cannot be read: %v", cause)
	_ = conn.Run(ctx, func(context.Context, *stdio.Request) stdio.Reply {
		return stdio.Reply{Error: &stdio.Error{Code: stdio.CodeInternal, Message: said}, Settle: func(stdio.Fate) { leave() }}
	})
	return report(s.err, hinted{cause, "ask your administrator; the bridge does not run without its policy"})
}
