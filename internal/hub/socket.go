package hub

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/coder/websocket"

	"bellman.sh/desktop/internal/hub/room"
)

const (
	// socketPing is how often a silent peer is asked whether it is there, so
	// that a dead one does not vouch for anybody's presence.
	socketPing = 45 * time.Second
	// socketPatience is how long a peer may take for a frame or a pong.
	socketPatience = 20 * time.Second
)

var cursorForm = regexp.MustCompile(`^\d{1,16}$`)

// serveSocket answers the handshake of a room socket and serves the socket
// until it ends. The refusals come in the order of protocol.md 6.1.
func (h *Hub) serveSocket(w http.ResponseWriter, r *http.Request) {
	id, cursor, ok := handshake(w, r)
	if !ok {
		return
	}
	who, ok, err := h.identify(r)
	switch {
	case err != nil:
		h.log.ErrorContext(r.Context(), "look up credential", "error", err)
		http.Error(w, "the hub could not look up the credential", http.StatusInternalServerError)
		return
	case !ok:
		challenge(w, r)
		rpcError(w, http.StatusUnauthorized, -32001, "Unauthorized: a valid access token or key is needed")
		return
	}
	attendance, err := h.house.Attend(r.Context(), who, id)
	if err != nil {
		h.refuseSocket(w, r, err)
		return
	}
	h.sockets.Add(1)
	defer h.sockets.Done()
	h.metrics.sockets.Inc()
	defer h.metrics.sockets.Dec()
	// The request's context does not outlive the handshake in any useful way.
	life, end := context.WithCancel(context.WithoutCancel(r.Context()))
	defer end()
	defer func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(life), 5*time.Second)
		defer cancel()
		if err := attendance.Close(ctx); err != nil {
			h.log.WarnContext(ctx, "close attendance", "error", err)
		}
	}()
	conn, err := websocket.Accept(w, r, &websocket.AcceptOptions{
		// The guard has checked the origin, and frames are small.
		InsecureSkipVerify: true, CompressionMode: websocket.CompressionDisabled,
	})
	if err != nil {
		h.log.DebugContext(life, "accept socket", "error", err)
		return
	}
	conn.SetReadLimit(1 << 10)
	h.converse(life, conn, attendance, cursor)
}

// handshake reads what a socket was asked for.
func handshake(w http.ResponseWriter, r *http.Request) (id string, cursor int64, ok bool) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "a room socket is opened with GET", http.StatusMethodNotAllowed)
		return "", 0, false
	}
	if !upgrades(r) {
		w.Header().Set("Upgrade", "websocket")
		w.Header().Set("Connection", "Upgrade")
		http.Error(w, "this is a room socket: upgrade to websocket", http.StatusUpgradeRequired)
		return "", 0, false
	}
	q := r.URL.Query()
	if id = q.Get("session"); id == "" {
		http.Error(w, "session is missing", http.StatusBadRequest)
		return "", 0, false
	}
	cursor, err := strconv.ParseInt(q.Get("cursor"), 10, 64)
	if err != nil || !cursorForm.MatchString(q.Get("cursor")) || cursor > 1<<53-1 {
		http.Error(w, "cursor is missing or not a whole number", http.StatusBadRequest)
		return "", 0, false
	}
	return id, cursor, true
}

// upgrades reports whether websocket is among what the client can upgrade to.
func upgrades(r *http.Request) bool {
	for _, line := range r.Header.Values("Upgrade") {
		for word := range strings.SplitSeq(line, ",") {
			if strings.EqualFold(strings.TrimSpace(word), "websocket") {
				return true
			}
		}
	}
	return false
}

func (h *Hub) refuseSocket(w http.ResponseWriter, r *http.Request, err error) {
	refused, ok := errors.AsType[*room.Error](err)
	if !ok {
		h.log.ErrorContext(r.Context(), "attend room", "error", err)
		http.Error(w, "the hub could not open the room", http.StatusInternalServerError)
		return
	}
	http.Error(w, refused.Text, statusOf(refused.Code))
}

// converse sends the room's events until either side ends it, and closes.
func (h *Hub) converse(life context.Context, conn *websocket.Conn, a *room.Attendance, cursor int64) {
	ctx, end := context.WithCancelCause(life)
	defer end(nil)
	// A read or write that is cancelled breaks the connection before anything
	// can be said, so these two end only after the close.
	link, cut := context.WithCancel(life)
	defer cut()
	ears := make(chan struct{})
	go func() {
		defer close(ears)
		end(listen(link, conn))
	}()
	pulse := make(chan struct{})
	go func() {
		defer close(pulse)
		h.keepAlive(ctx, conn, a, end)
	}()
	code, reason := speak(ctx, link, conn, a, cursor)
	if why, ok := errors.AsType[endingError](context.Cause(ctx)); ok {
		code, reason = why.code, why.reason
	}
	_ = conn.Close(code, reason) // The peer may be gone already.
	end(nil)
	cut()
	<-ears
	<-pulse
}

// endingError says how a socket is to be closed.
type endingError struct {
	code   websocket.StatusCode
	reason string
}

func (e endingError) Error() string { return e.reason }

// speak writes one frame for each event until ctx ends; link is for writing.
func speak(ctx, link context.Context, conn *websocket.Conn, a *room.Attendance, cursor int64) (websocket.StatusCode, string) {
	for {
		events, err := a.Next(ctx, cursor)
		if errors.Is(err, room.ErrRemoved) {
			return websocket.StatusPolicyViolation, "removed from the room by its creator"
		}
		if err != nil {
			return websocket.StatusNormalClosure, "closing"
		}
		for _, e := range events {
			frame, err := json.Marshal(e)
			if err != nil {
				return websocket.StatusInternalError, "event cannot be written"
			}
			if err := write(link, conn, frame); err != nil || ctx.Err() != nil {
				return websocket.StatusNormalClosure, "closing"
			}
			cursor = e.Cursor
		}
	}
}

func write(ctx context.Context, conn *websocket.Conn, frame []byte) error {
	ctx, cancel := context.WithTimeout(ctx, socketPatience)
	defer cancel()
	return conn.Write(ctx, websocket.MessageText, frame)
}

// listen answers pings and returns why the socket is to be closed: a room
// socket takes nothing else.
func listen(ctx context.Context, conn *websocket.Conn) error {
	for {
		kind, frame, err := conn.Read(ctx)
		if err != nil {
			return err
		}
		if kind != websocket.MessageText || string(frame) != "ping" {
			return endingError{websocket.StatusUnsupportedData, "this socket is receive-only: send over /mcp"}
		}
		if err := write(ctx, conn, []byte("pong")); err != nil {
			return err
		}
	}
}

// keepAlive ends the conversation when the peer no longer answers or the hub
// stops.
func (h *Hub) keepAlive(ctx context.Context, conn *websocket.Conn, a *room.Attendance, end context.CancelCauseFunc) {
	ticker := time.NewTicker(socketPing)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-a.Gone():
			end(endingError{websocket.StatusNormalClosure, "room purged"})
			return
		case <-h.stopping:
			end(endingError{websocket.StatusGoingAway, "the hub is stopping"})
			return
		case <-ticker.C:
		}
		ping, cancel := context.WithTimeout(ctx, socketPatience)
		err := conn.Ping(ping)
		cancel()
		if err != nil {
			end(err)
			return
		}
	}
}
