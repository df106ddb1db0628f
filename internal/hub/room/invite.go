package room

import (
	"context"
	"strings"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/manifest"
)

// Invitation is a fresh join code.
type Invitation struct {
	Code, CodeExpires string
	Role              string
	Replaced          bool
}

// Invite issues a code for a role, the default one when role is empty. A live
// code of that role is replaced, which takes the verb revoke as well.
// See protocol.md 1.4.
func (h *House) Invite(ctx context.Context, who account.Identity, id, handle, role string) (Invitation, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return Invitation{}, err
	}
	defer leave()
	var inv Invitation
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		m, rec, err := gate(s, who, handle, manifest.Invite, now)
		if err != nil {
			return rec, err
		}
		role, err := s.invitable(role)
		if err != nil {
			return rec, err
		}
		present := r.presentCount(s, now)
		if r.presence(m, now) == Stale {
			present++ // The caller, who was quiet until this call.
		}
		if seats := s.manifest().Seats(); present >= seats {
			return rec, refuse(Conflict, "the session is full (%d members): there is no seat to invite to", seats)
		}
		old, has := s.codes[role]
		inv = Invitation{Role: role, Replaced: has && now < old.Expires}
		if inv.Replaced && !s.manifest().Can(m.Role, manifest.Revoke) {
			return rec, refuse(Forbidden, "a live code exists for role %q: replacing it needs the verb %q too, which your role %q does not hold",
				role, manifest.Revoke, m.Role)
		}
		c := code{Role: role, Code: newCode(role), Expires: now + codeLife.Milliseconds()}
		inv.Code, inv.CodeExpires = c.Code, wireTime(c.Expires)
		rec.Codes = []code{c}
		if _, err := rec.say(s, typeIssued, m.sender(), map[string]any{"role": role, "expires_at": inv.CodeExpires}, nil); err != nil {
			return nil, err
		}
		rec.note(s, who, "invite_issued", map[string]any{"role": role, "replaced_previous": inv.Replaced})
		return rec, nil
	})
	return inv, err
}

// invitable returns the role a code is wanted for.
func (s *state) invitable(role string) (string, error) {
	m := s.manifest()
	if role == "" {
		return m.DefaultRole, nil
	}
	if _, ok := m.Role(role); !ok {
		return "", refuse(Invalid, "role %q is not declared in this room (declared: %s)", role, strings.Join(m.RoleNames(), ", "))
	}
	return role, nil
}

// RevokeCodes retires the live code of a role, of every role when role is
// empty, and returns the roles that had one. Nothing live is no error and
// leaves no trace.
func (h *House) RevokeCodes(ctx context.Context, who account.Identity, id, handle, role string) ([]string, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return nil, err
	}
	defer leave()
	var roles []string
	err = r.change(ctx, func(s *state, now int64) (*record, error) {
		m, rec, err := gate(s, who, handle, manifest.Revoke, now)
		if err != nil {
			return rec, err
		}
		if role != "" {
			if _, err := s.invitable(role); err != nil {
				return rec, err
			}
		}
		roles = []string{}
		for _, c := range s.liveCodes(now) {
			if role == "" || c.Role == role {
				roles = append(roles, c.Role)
			}
		}
		if len(roles) == 0 {
			return rec, nil
		}
		rec.Retire = roles
		if _, err := rec.say(s, typeRevoked, m.sender(), map[string]any{"roles": roles}, nil); err != nil {
			return nil, err
		}
		rec.note(s, who, "invite_revoked", map[string]any{"roles": roles})
		return rec, nil
	})
	return roles, err
}
