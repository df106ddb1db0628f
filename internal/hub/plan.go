package hub

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"time"

	"github.com/google/uuid"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/manifest"
	"bellman.sh/desktop/internal/hub/room"
)

// newConnectToken makes a token for one preview.
func newConnectToken() string { return "qct_" + uuid.NewString() }

// admit reads the manifest and holds it to the caller's plan. The refusals
// come in the order of protocol.md 1.1.
func (h *Hub) admit(ctx context.Context, who Identity, raw json.RawMessage, orgOnly bool) (manifest.Manifest, error) {
	saved, err := h.savedPresets(ctx, who)
	if err != nil {
		return manifest.Manifest{}, err
	}
	m, err := manifest.Parse(raw, saved)
	if err != nil {
		return m, invalid("invalid manifest \u2014 %v", err)
	}
	plan := account.PlanOf(who.Plan)
	forbidden := func(text string) error { return &room.Error{Code: room.Forbidden, Text: text} }
	switch {
	case m.Host != nil:
		return m, forbidden("hosted seats are switched off on this server: author the roles without a host")
	case m.Mode == manifest.Swarm && !plan.Swarm:
		return m, forbidden("your plan does not include swarm rooms (pro, max or team do)")
	case m.Public && !plan.Public:
		return m, forbidden("your plan does not include public rooms (pro, max or team do)")
	case orgOnly && !plan.OrgOnly:
		return m, forbidden("org_only needs the team plan")
	case orgOnly && who.Org() == "":
		return m, forbidden("org_only needs an organization, and your account belongs to none")
	}
	return m, nil
}

// countCreate spends one of the caller's rooms of the month.
func (h *Hub) countCreate(ctx context.Context, who Identity) error {
	limit := account.PlanOf(who.Plan).MonthlyCreates
	ok, err := h.creates.Count(ctx, monthKey(who, h.now()), limit, nextMonth(h.now()))
	if err != nil {
		return err
	}
	if !ok {
		return &room.Error{Code: room.Forbidden, Text: fmt.Sprintf(
			"monthly session limit reached (%d on the %s plan); joining rooms is still free", limit, who.Plan)}
	}
	return nil
}

// createsThisMonth is how many rooms the caller has started since the month
// began.
func (h *Hub) createsThisMonth(ctx context.Context, who Identity) (int, error) {
	value, ok, err := h.creates.Get(ctx, monthKey(who, h.now()))
	if err != nil || !ok {
		return 0, err
	}
	n, err := strconv.Atoi(string(value))
	if err != nil {
		return 0, fmt.Errorf("read count of rooms: %w", err)
	}
	return n, nil
}

func monthKey(who Identity, now time.Time) string { return now.UTC().Format("2006-01 ") + who.UserID }

func nextMonth(now time.Time) time.Time {
	y, m, _ := now.UTC().Date()
	return time.Date(y, m+1, 1, 0, 0, 0, 0, time.UTC)
}

// savedPresets reads the presets the caller saved, by name.
func (h *Hub) savedPresets(ctx context.Context, who Identity) (map[string]manifest.Manifest, error) {
	prefix := presetPrefix(who)
	items, err := h.presets.List(ctx, prefix)
	if err != nil {
		return nil, err
	}
	saved := make(map[string]manifest.Manifest, len(items))
	for _, item := range items {
		m, err := manifest.ParsePreset(item.Value)
		if err != nil {
			return nil, fmt.Errorf("read saved preset: %w", err)
		}
		saved[item.Key[len(prefix):]] = m
	}
	return saved, nil
}

// presetPrefix keeps one person's presets apart from another's, whatever
// characters their ids hold.
func presetPrefix(who Identity) string { return digest(who.UserID) + "/" }

// mayAudit reports why the caller may not read an audit log.
func mayAudit(who Identity) error {
	switch {
	case !account.PlanOf(who.Plan).Audit:
		return &room.Error{Code: room.Forbidden, Text: "the audit log needs the team plan"}
	case who.Role != account.RoleAdmin:
		return &room.Error{Code: room.Forbidden, Text: "the audit log is for administrators of the organization"}
	case who.Org() == "":
		return &room.Error{Code: room.Forbidden, Text: "your account belongs to no organization"}
	}
	return nil
}
