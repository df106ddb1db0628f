package room_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/coder/websocket"
)

// frameOf is the event a scripted room holds at cursor, padded to some size.
func frameOf(cursor int64, kind, member string, payload map[string]any) []byte {
	b, err := json.Marshal(map[string]any{
		"cursor": cursor, "type": kind, "from": map[string]any{"member_id": member, "label": "Peer"},
		"payload": payload, "ref_id": nil, "at": time.Unix(1_800_000_000+cursor, 0).UTC().Format(time.RFC3339),
	})
	if err != nil {
		return []byte(err.Error())
	}
	return b
}

// recite serves a room socket that replays n events above the cursor asked for
// and then says nothing.
func recite(w http.ResponseWriter, r *http.Request, n int64, pad string) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	heard := make(chan struct{})
	go func() {
		defer close(heard)
		defer cancel()
		answerPings(ctx, c)
	}()
	since, _ := strconv.ParseInt(r.URL.Query().Get("cursor"), 10, 64)
	for cursor := since + 1; cursor <= n; cursor++ {
		frame := frameOf(cursor, "message", "m_peer", map[string]any{"text": fmt.Sprint(cursor), "pad": pad})
		if c.Write(ctx, websocket.MessageText, frame) != nil {
			break
		}
	}
	<-heard
}

// sayThen serves a room socket that says one frame, runs then, if any, on the
// connection, and answers pings until the end.
func sayThen(w http.ResponseWriter, r *http.Request, frame string, then func(*websocket.Conn)) {
	c, err := websocket.Accept(w, r, &websocket.AcceptOptions{InsecureSkipVerify: true})
	if err != nil {
		return
	}
	defer func() { _ = c.CloseNow() }()
	ctx := context.WithoutCancel(r.Context())
	if frame != "" && c.Write(ctx, websocket.MessageText, []byte(frame)) != nil {
		return
	}
	if then != nil {
		then(c)
		return
	}
	answerPings(ctx, c)
}

func answerPings(ctx context.Context, c *websocket.Conn) {
	for {
		_, data, err := c.Read(ctx)
		if err != nil || string(data) != "ping" || c.Write(ctx, websocket.MessageText, []byte("pong")) != nil {
			return
		}
	}
}

// sayAll serves a room socket that says these frames.
func sayAll(w http.ResponseWriter, r *http.Request, frames ...string) {
	sayThen(w, r, "", func(c *websocket.Conn) {
		ctx := context.WithoutCancel(r.Context())
		for _, f := range frames {
			if c.Write(ctx, websocket.MessageText, []byte(f)) != nil {
				return
			}
		}
		answerPings(ctx, c)
	})
}
