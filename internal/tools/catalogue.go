package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"sync"
	"time"

	"bellman.sh/desktop/internal/bellman"
)

const (
	freshFor   = 10 * time.Minute
	maxPages   = 20
	maxListing = 4 << 20 // bytes kept of a service's list
)

// catalogue is the tool list as the host gets it: the service's tools, marked,
// then the bridge's own. It is read at once at any time; what the service says
// later replaces it.
type catalogue struct {
	path string // where the service's last list is kept
	log  *slog.Logger

	mu      sync.Mutex
	service []json.RawMessage // as the service gave them
	listing json.RawMessage   // the tools/list result
	asked   time.Time
}

// openCatalogue reads the last list the server gave from dir, else the one
// built into this program.
func openCatalogue(dir, server string, log *slog.Logger) *catalogue {
	sum := sha256.Sum256([]byte(server))
	c := &catalogue{path: filepath.Join(dir, "tools-"+hex.EncodeToString(sum[:8])+".json"), log: log}
	kept, err := os.ReadFile(c.path)
	if err == nil {
		var tools []json.RawMessage
		if tools, err = checkTools(kept); err == nil {
			c.setLocked(tools)
			return c
		}
	}
	if !errors.Is(err, os.ErrNotExist) {
		log.Warn("the kept tool list is not used", "error", err)
	}
	c.setLocked(builtIn())
	return c
}

func builtIn() []json.RawMessage {
	var tools []json.RawMessage
	for _, t := range bellman.ServiceTools() {
		tools = append(tools, encode(t))
	}
	return tools
}

func (c *catalogue) setLocked(service []json.RawMessage) {
	c.service = service
	var list []json.RawMessage
	for _, t := range service {
		list = append(list, markTool(t))
	}
	for _, t := range bellman.LocalTools() {
		list = append(list, encode(t))
	}
	c.listing = encode(map[string]any{"tools": list})
}

// list returns the tools/list result. It never blocks on anything outside.
func (c *catalogue) list() json.RawMessage {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.listing
}

// stale reports whether the service should be asked again, and if so takes the
// asking for the caller.
func (c *catalogue) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.asked.IsZero() && time.Since(c.asked) < freshFor {
		return false
	}
	c.asked = time.Now()
	return true
}

// refresh asks the service for its list, and reports whether it differs from
// what the host was shown. A list that makes no sense is an error and changes
// nothing.
func (c *catalogue) refresh(ctx context.Context, call func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)) (bool, error) {
	var all []json.RawMessage
	var cursor string
	for range maxPages {
		params := json.RawMessage("{}")
		if cursor != "" {
			params = encode(map[string]string{"cursor": cursor})
		}
		page, err := call(ctx, "tools/list", params)
		if err != nil {
			return false, fmt.Errorf("list the service's tools: %w", err)
		}
		var p struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(page, &p); err != nil {
			return false, fmt.Errorf("read the service's tool list: %w", err)
		}
		all = append(all, p.Tools...)
		if cursor = p.NextCursor; cursor == "" {
			break
		}
	}
	kept := encode(all)
	tools, err := checkTools(kept)
	if err != nil {
		return false, err
	}
	c.mu.Lock()
	before := c.listing
	c.setLocked(tools)
	changed := !sameJSON(before, c.listing)
	c.mu.Unlock()
	if changed {
		if err := writeFile(c.path, kept); err != nil {
			c.log.Warn("the tool list could not be kept", "error", err)
		}
	}
	return changed, nil
}

// sameJSON reports whether two documents say the same. A service may write the
// same list with other escapes or in another order from one day to the next,
// and a host should not be told of that.
func sameJSON(a, b json.RawMessage) bool {
	var x, y any
	return bytes.Equal(a, b) || (json.Unmarshal(a, &x) == nil && json.Unmarshal(b, &y) == nil && reflect.DeepEqual(x, y))
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// checkTools reads a JSON array of tools and leaves out those the bridge
// answers itself. An empty list or an entry without a usable name or schema
// makes all of it unusable: half a list would hide tools.
func checkTools(raw []byte) ([]json.RawMessage, error) {
	if len(raw) > maxListing {
		return nil, fmt.Errorf("read tool list: over %d bytes", maxListing)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read tool list: %w", err)
	}
	local := map[string]bool{bellman.ToolWait: true, bellman.ToolWhoami: true, bellman.ToolUpload: true}
	var tools []json.RawMessage
	for _, t := range list {
		o, err := parseObject(t)
		if err != nil {
			return nil, fmt.Errorf("read tool list: %w", err)
		}
		name := o.text("name")
		if !toolName.MatchString(name) {
			return nil, errors.New("read tool list: a tool without a usable name")
		}
		if _, err := parseObject(o.get("inputSchema")); err != nil {
			return nil, fmt.Errorf("read tool list: schema of %s: %w", name, err)
		}
		if !local[name] {
			tools = append(tools, t)
		}
	}
	if len(tools) == 0 {
		return nil, errors.New("read tool list: it is empty")
	}
	return tools, nil
}

// writeFile replaces path in one step, so that a crash leaves the old or the
// new file.
func writeFile(path string, data []byte) error {
	tmp, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*.tmp") // 0600 at birth
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	_, err = tmp.Write(data)
	if err == nil {
		err = tmp.Sync()
	}
	if err = errors.Join(err, tmp.Close()); err == nil {
		err = os.Rename(tmp.Name(), path)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("write %s: %w", path, err), os.Remove(tmp.Name()))
	}
	return nil
}
