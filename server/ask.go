package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync/atomic"

	"bellman.sh/desktop/internal/oauth"
	"bellman.sh/desktop/internal/stdio"
)

// person is whoever sits at the host, asked through it to open a link (MCP
// 2025-11-25, URL mode elicitation). It implements oauth.Host.
type person struct {
	conn *stdio.Conn
	log  *slog.Logger
	able atomic.Bool // the host has said that it can ask
}

// learn takes from the params of initialize whether the host can ask. A host
// that only says elicitation, without a mode, knows forms alone.
func (p *person) learn(initialize json.RawMessage) {
	var params struct {
		Capabilities struct {
			Elicitation struct {
				URL map[string]json.RawMessage `json:"url"`
			} `json:"elicitation"`
		} `json:"capabilities"`
	}
	if json.Unmarshal(initialize, &params) == nil {
		p.able.Store(params.Capabilities.Elicitation.URL != nil)
	}
}

// CanAsk implements oauth.Host.
func (p *person) CanAsk() bool { return p.able.Load() }

// Ask implements oauth.Host. Only the host's own refusal to ask counts as that:
// one that has gone away, or says what means nothing, opens no browser.
func (p *person) Ask(ctx context.Context, link string) error {
	id := rand.Text()
	raw, err := p.conn.Ask(ctx, "elicitation/create", map[string]string{
		"mode": "url", "elicitationId": id, "url": link,
		"message": "To use Bellman, sign in. The page opens in a browser on this computer.",
	})
	if refusal, ok := errors.AsType[*stdio.Error](err); ok {
		return fmt.Errorf("the host refused with code %d", refusal.Code)
	}
	if err == nil {
		var reply struct {
			Action string `json:"action"`
		}
		if json.Unmarshal(raw, &reply) != nil || reply.Action != "accept" {
			return oauth.ErrDeclined
		}
	}
	<-ctx.Done()
	if err == nil {
		notify(p.conn, p.log, "notifications/elicitation/complete", map[string]string{"elicitationId": id})
	}
	return nil
}
