package tools

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"bellman.sh/desktop/internal/bellman"
)

const (
	freshFor   = 10 * time.Minute // before the service is asked again
	retryAfter = time.Minute      // the same, when it gave no usable answer
	changeGap  = 10 * time.Second // the same, when it says that its tools are others
	maxPages   = 20
	maxListing = 4 << 20 // bytes kept of a service's list
)

// catalogue is the tool list as the host gets it: the service's tools, marked,
// then the bridge's own. It is read at once at any time; what the service says
// later replaces it.
type catalogue struct {
	path string // where the service's last list is kept
	room string // directory whose room file bellman_start may fall back on, or ""
	log  *slog.Logger

	mu       sync.Mutex
	service  []json.RawMessage // as the service gave them
	listing  json.RawMessage   // the tools/list result
	withRoom json.RawMessage   // the same while a room file is in reach
	asked    time.Time         // when the service was asked last
	next     time.Time         // when it may be asked again
}

// openCatalogue reads the last list the server gave from dir, else the one
// built into this program.
func openCatalogue(dir, server, room string, log *slog.Logger) *catalogue {
	sum := sha256.Sum256([]byte(server))
	c := &catalogue{path: filepath.Join(dir, "tools-"+hex.EncodeToString(sum[:8])+".json"), room: room, log: log}
	kept, err := readKept(c.path)
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

func readKept(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("open kept tool list: %w", err)
	}
	defer func() { _ = f.Close() }()
	kept, err := io.ReadAll(io.LimitReader(f, maxListing+1))
	if err != nil {
		return nil, fmt.Errorf("read kept tool list: %w", err)
	}
	return kept, nil
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
	var list, withRoom []json.RawMessage
	for _, t := range service {
		marked := markTool(t)
		list = append(list, marked)
		withRoom = append(withRoom, offerRoomFile(marked))
	}
	for _, t := range bellman.LocalTools() {
		list = append(list, encode(t))
		withRoom = append(withRoom, encode(t))
	}
	c.listing = encode(map[string]any{"tools": list})
	c.withRoom = encode(map[string]any{"tools": withRoom})
}

// list returns the tools/list result. It never blocks on anything outside.
func (c *catalogue) list() json.RawMessage {
	inReach := c.room != "" && roomFileExists(c.room)
	c.mu.Lock()
	defer c.mu.Unlock()
	if inReach {
		return c.withRoom
	}
	return c.listing
}

// stale reports whether the service should be asked again, and if so takes the
// asking for the caller.
func (c *catalogue) stale() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := time.Now()
	if now.Before(c.next) {
		return false
	}
	c.asked, c.next = now, now.Add(freshFor)
	return true
}

// expire lets the service be asked again soon, but not at once each time: its
// answer may come with the next notice.
func (c *catalogue) expire() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if soon := c.asked.Add(changeGap); soon.Before(c.next) {
		c.next = soon
	}
}

// ask calls the service as remote.Client does.
type ask func(ctx context.Context, method string, params json.RawMessage) (json.RawMessage, error)

// refresh asks the service for its list, and reports whether it differs from
// what the host was shown. A list that makes no sense is an error and changes
// nothing.
func (c *catalogue) refresh(ctx context.Context, call ask) (bool, error) {
	tools, err := fetchTools(ctx, call)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.next = time.Now().Add(retryAfter)
		return false, err
	}
	c.mu.Lock()
	changed := !sameTools(c.service, tools)
	if changed {
		c.setLocked(tools)
	}
	c.mu.Unlock()
	if changed {
		if err := writeFile(c.path, encode(tools)); err != nil {
			c.log.Warn("the tool list could not be kept", "error", err)
		}
	}
	return changed, nil
}

// fetchTools reads every page of the service's list.
func fetchTools(ctx context.Context, call ask) ([]json.RawMessage, error) {
	var all []json.RawMessage
	var cursor string
	for range maxPages {
		params := json.RawMessage("{}")
		if cursor != "" {
			params = encode(map[string]string{"cursor": cursor})
		}
		page, err := call(ctx, "tools/list", params)
		if err != nil {
			return nil, fmt.Errorf("list the service's tools: %w", err)
		}
		var p struct {
			Tools      []json.RawMessage `json:"tools"`
			NextCursor string            `json:"nextCursor"`
		}
		if err := json.Unmarshal(page, &p); err != nil {
			return nil, fmt.Errorf("read the service's tool list: %w", err)
		}
		all = append(all, p.Tools...)
		if cursor = p.NextCursor; cursor == "" {
			return checkTools(encode(all))
		}
	}
	return nil, fmt.Errorf("list the service's tools: over %d pages", maxPages)
}

// sameTools reports whether two lists hold the same tools. A service may write
// them with other escapes or in another order from one day to the next, and a
// host should not be told of that.
func sameTools(a, b []json.RawMessage) bool {
	byName := func(x, y json.RawMessage) int { return strings.Compare(nameOf(x), nameOf(y)) }
	return slices.EqualFunc(slices.SortedFunc(slices.Values(a), byName), slices.SortedFunc(slices.Values(b), byName), sameJSON)
}

func nameOf(tool json.RawMessage) string {
	o, err := parseObject(tool)
	if err != nil {
		return ""
	}
	return o.text("name")
}

// sameJSON reports whether two documents say the same.
func sameJSON(a, b json.RawMessage) bool {
	x, errX := decodeExact(a)
	y, errY := decodeExact(b)
	return bytes.Equal(a, b) || (errX == nil && errY == nil && reflect.DeepEqual(x, y))
}

// decodeExact decodes a document with its numbers as they are written.
func decodeExact(raw json.RawMessage) (any, error) {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, fmt.Errorf("decode: %w", err)
	}
	return v, nil
}

var toolName = regexp.MustCompile(`^[A-Za-z0-9_.-]{1,64}$`)

// checkTools reads a JSON array of tools and leaves out those the bridge
// answers itself. An empty list, an entry without a usable name, a name that
// stands twice or a member of another type than MCP gives it makes all of it
// unusable: half a list would hide tools, and a host drops the whole of a list
// with one such entry.
func checkTools(raw []byte) ([]json.RawMessage, error) {
	if len(raw) > maxListing {
		return nil, fmt.Errorf("read tool list: over %d bytes", maxListing)
	}
	var list []json.RawMessage
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, fmt.Errorf("read tool list: %w", err)
	}
	local := map[string]bool{bellman.ToolWait: true, bellman.ToolWhoami: true, bellman.ToolUpload: true}
	seen := map[string]bool{}
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
		if seen[name] {
			return nil, fmt.Errorf("read tool list: %s stands twice", name)
		}
		seen[name] = true
		if err := checkTool(o); err != nil {
			return nil, fmt.Errorf("read tool list: %s: %w", name, err)
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

// checkTool reports what of a tool has another type than MCP gives it.
func checkTool(o object) error {
	for _, name := range []string{"inputSchema", "outputSchema"} {
		raw := o.get(name)
		if raw == nil && name == "outputSchema" {
			continue
		}
		schema, err := parseObject(raw)
		if err == nil && schema.text("type") != "object" {
			err = errors.New("not of type object")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	for name, first := range map[string]byte{"title": '"', "description": '"', "annotations": '{', "_meta": '{'} {
		if raw := o.get(name); raw != nil && raw[0] != first {
			return fmt.Errorf("%s is of another type", name)
		}
	}
	return nil
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
