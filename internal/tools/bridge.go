package tools

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	"bellman.sh/desktop/internal/bellman"
	"bellman.sh/desktop/internal/queue"
	"bellman.sh/desktop/internal/remote"
)

// callLimit is when a call is answered whatever the service does: hosts give
// up after 60 s.
const callLimit = 48 * time.Second

// Config is what a Bridge works with. Queue returns the open queue, waiting for
// it while it is being opened, or why it cannot be used; what does not need it
// goes on without. Identity tells whose rooms these are; ok is false while
// nobody is signed in.
type Config struct {
	Queue    func(ctx context.Context) (*queue.Queue, error)
	Remote   *remote.Client
	SignIn   SignIn // nil under a static key
	Identity func() (id queue.Identity, ok bool)
	Whoami   func() Whoami
	Upload   UploadPolicy
	RoomDir  string // directory whose .bellman/room.yaml stands in for a manifest; "" for none
	Dir      string // state directory of the profile: the kept tool list; never uploaded from
	Server   string // canonical URL of the service
	Version  string
	Notice   bool // append a notice to results while events wait
	Notify   func(method string, params any)
	Log      *slog.Logger
}

// Bridge answers the host. Make it with New, end it with Close.
type Bridge struct {
	cfg       Config
	catalogue *catalogue
	mcp       *server.MCPServer
	noting    noting

	mu      sync.Mutex
	closed  bool
	side    sync.WaitGroup // what goes on behind a call; joined only under mu while not closed
	closing chan struct{}
}

// New returns a Bridge. It reads the kept tool list from cfg.Dir and nothing
// else.
func New(cfg Config) *Bridge {
	b := &Bridge{cfg: cfg, catalogue: openCatalogue(cfg.Dir, cfg.Server, cfg.RoomDir, cfg.Log), closing: make(chan struct{})}
	b.mcp = server.NewMCPServer("bellman", cfg.Version,
		server.WithInstructions(instructions),
		server.WithToolCapabilities(true),
		server.WithResourceCapabilities(false, false),
	)
	addPrompts(b.mcp)
	return b
}

// Close ends background work and waits for it. It is called once; a call that
// is still under way starts no more of it.
func (b *Bridge) Close() {
	b.mu.Lock()
	b.closed = true
	close(b.closing)
	b.mu.Unlock()
	b.side.Wait()
}

// behind runs f behind the call, unless the bridge is closed.
func (b *Bridge) behind(f func()) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if !b.closed {
		b.side.Go(f)
	}
}

// Call is one request of the host. Progress is its progress token or nil, Raw
// the whole message.
type Call struct {
	Method   string
	Tool     string
	Params   json.RawMessage
	Progress json.RawMessage
	Raw      json.RawMessage
}

// Answer is the result of a Call, or an error of the protocol. Receipt tells
// what to do once the reply's fate is known; its functions may be nil.
type Answer struct {
	Result  json.RawMessage
	Error   *remote.RPCError
	Receipt Receipt
}

// Handle answers one request. It may be called from many goroutines at once
// and returns when the answer is ready, ctx ends, or after 48 s at the latest.
func (b *Bridge) Handle(ctx context.Context, c Call) Answer {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	switch c.Method {
	case "tools/list":
		return Answer{Result: b.catalogue.list()}
	case "tools/call":
		return b.callTool(ctx, c)
	case "resources/list", "resources/templates/list", "resources/read":
		return b.readResource(ctx, c)
	}
	return b.answerLocally(ctx, c)
}

func (b *Bridge) callTool(ctx context.Context, c Call) Answer {
	switch c.Tool {
	case "":
		return Answer{Error: &remote.RPCError{Code: mcp.INVALID_PARAMS, Message: "tools/call without a tool name"}}
	case bellman.ToolWait:
		return b.wait(ctx, c)
	case bellman.ToolWhoami:
		return b.whoami()
	case bellman.ToolUpload:
		return b.upload(ctx, c)
	}
	return b.proxy(ctx, c)
}

// answerLocally lets mcp-go answer initialize, ping and the prompts, and say
// of anything else that there is no such method.
func (b *Bridge) answerLocally(ctx context.Context, c Call) Answer {
	switch m := b.mcp.HandleMessage(ctx, c.Raw).(type) {
	case mcp.JSONRPCResponse:
		return Answer{Result: encode(m.Result)}
	case mcp.JSONRPCError:
		return Answer{Error: &remote.RPCError{Code: m.Error.Code, Message: m.Error.Message, Data: m.Error.Data}}
	}
	return Answer{Error: &remote.RPCError{Code: mcp.INTERNAL_ERROR, Message: "no answer"}}
}

// readResource forwards a request for the service's resources. A service that
// is out of reach, or whose answer no host could read, has none to list.
func (b *Bridge) readResource(ctx context.Context, c Call) Answer {
	list := c.Method != "resources/read"
	result, err := b.cfg.Remote.Call(ctx, c.Method, c.Params)
	rpc, refused := errors.AsType[*remote.RPCError](err)
	why := "the service's answer holds no contents"
	switch {
	case err == nil && holdsResources(c.Method, result):
		return Answer{Result: result}
	case refused && (rpc.Code != mcp.METHOD_NOT_FOUND || !list):
		return Answer{Error: passOn(rpc)}
	case list:
		return Answer{Result: emptyList(c.Method)}
	case errors.Is(err, remote.ErrSignInNeeded):
		why = "sign-in needed; bellman_rooms starts it, or says what is wrong"
	case err != nil:
		why = explain(err)
	}
	return Answer{Error: &remote.RPCError{Code: mcp.INTERNAL_ERROR, Message: "read resource: " + oneLine(why)}}
}

// holdsResources reports whether a result is one that a host can read.
func holdsResources(method string, result json.RawMessage) bool {
	member := map[string]string{"resources/list": "resources", "resources/templates/list": "resourceTemplates", "resources/read": "contents"}[method]
	o, err := parseObject(result)
	return err == nil && isListOfObjects(o.get(member))
}

func emptyList(method string) json.RawMessage {
	if method == "resources/list" {
		return json.RawMessage(`{"resources":[]}`)
	}
	return json.RawMessage(`{"resourceTemplates":[]}`)
}

// ToolsChanged takes note that the service has other tools than before. It does
// not block: the service is asked in the background, at once or, where it has
// just been asked, with the next call.
func (b *Bridge) ToolsChanged(ctx context.Context) {
	b.catalogue.expire()
	b.refreshCatalogue(ctx)
}

// refreshCatalogue asks the service for its tools in the background, now that
// it has been seen to answer, and tells the host when they differ.
func (b *Bridge) refreshCatalogue(ctx context.Context) {
	if !b.catalogue.stale() {
		return
	}
	b.behind(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 30*time.Second)
		var stop sync.WaitGroup
		stop.Go(func() {
			select {
			case <-b.closing:
				cancel()
			case <-ctx.Done():
			}
		})
		defer stop.Wait()
		defer cancel()
		changed, err := b.catalogue.refresh(ctx, b.cfg.Remote.Call)
		if err != nil {
			b.cfg.Log.Debug("the tool list was not refreshed", "error", err)
			return
		}
		if changed {
			b.cfg.Notify("notifications/tools/list_changed", nil)
		}
	})
}
