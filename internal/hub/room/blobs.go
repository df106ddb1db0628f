package room

import (
	"context"

	"bellman.sh/desktop/internal/hub/account"
	"bellman.sh/desktop/internal/hub/manifest"
)

// MayUpload reports why a member may not upload bytes into a room, before any
// of them is read. Asking counts as being heard from. See protocol.md 5.4, up
// to the quota.
func (h *House) MayUpload(ctx context.Context, who account.Identity, id, handle string, bytes int64) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return r.change(ctx, func(s *state, now int64) (*record, error) {
		return uploading(s, who, handle, bytes, now)
	})
}

// Charge records a blob that has been stored, unless the room changed
// meanwhile. After an *Error the caller must remove the blob again.
func (h *House) Charge(ctx context.Context, who account.Identity, id string, b Blob) error {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return err
	}
	defer leave()
	return r.change(ctx, func(s *state, now int64) (*record, error) {
		rec, err := uploading(s, who, b.Member, b.Bytes, now)
		if err != nil {
			return rec, err
		}
		rec.Blob = &b
		return rec, nil
	})
}

// Knows reports whether any room has the blob.
func (h *House) Knows(ctx context.Context, blobID string) (bool, error) {
	marks, err := h.log.Find(ctx, markBlob, blobID, 1)
	return len(marks) > 0, err
}

// uploading is the gate of an upload: who the member is comes before what the
// room is like, so that a stranger learns nothing of it.
func uploading(s *state, who account.Identity, handle string, bytes, now int64) (*record, error) {
	if _, err := s.own(who.UserID, handle); err != nil {
		return nil, errNotFound()
	}
	_, rec, err := gate(s, who, handle, manifest.WriteSurface, now)
	if err != nil {
		return rec, err
	}
	if used, ceiling := s.blobBytes, s.charter.Ceiling; used+bytes > ceiling {
		return rec, &Error{
			Code: OverQuota, Text: "the room's blobs would pass its ceiling", Used: used, Ceiling: ceiling,
		}
	}
	return rec, nil
}

// Download returns what the service knows of a blob, for somebody with a seat
// that was not removed. A stranger, an unknown room and an unknown blob are
// one answer. See protocol.md 5.5.
func (h *House) Download(ctx context.Context, who account.Identity, id, blobID string) (Blob, error) {
	r, leave, err := h.enter(ctx, id)
	if err != nil {
		return Blob{}, err
	}
	defer leave()
	var b Blob
	err = errNotFound()
	r.look(func(s *state, _ int64) {
		mine := s.handles(who.UserID)
		admin := s.closed() && s.administers(who)
		switch found, ok := s.blobs[blobID]; {
		case len(mine) == 0 && !admin, !ok:
		case len(mine) > 0 && cutOf(mine) > 0 && !admin:
			err = refuse(Forbidden, "you were removed from this room by its creator")
		default:
			b, err = found, nil
		}
	})
	return b, err
}

// administers reports whether the caller is an administrator, on the team
// plan, of the organization the room was started in.
func (s *state) administers(who account.Identity) bool {
	return who.Org() != "" && who.Org() == s.charter.Org && who.Role == account.RoleAdmin && account.PlanOf(who.Plan).Audit
}
