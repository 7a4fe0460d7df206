package service

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/google/uuid"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// maxHolds limits how many holds a tenant may have.
const maxHolds = 1000

// HoldOf is a hold and the name of its job.
type HoldOf struct {
	tenant.Hold
	Name string
}

// AddHold holds the history of a job, or of a tenant if ref is nil. The latter is for operators of the installation.
// The same hold again is the one that there is.
func (s *Settings) AddHold(ctx context.Context, p tenant.Principal, ref *engine.Ref, t tenant.ID, reason string) (HoldOf, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return HoldOf{}, err
	}
	if !validReason(reason) {
		return HoldOf{}, job.Invalids{{Field: "reason", Value: job.Show(reason), Want: "1 to 500 characters, not blank, without control characters"}}
	}
	h := tenant.Hold{ID: uuid.UUID(newID()).String(), Tenant: p.Tenant, Reason: reason, By: p.Name, At: s.now()}
	told := fields{"reason": reason}
	if ref == nil {
		if err := allow(p, tenant.Run); err != nil {
			return HoldOf{}, err
		}
		ctx, h.Tenant = engine.Unconfined(ctx), t
		told["tenant"] = string(t)
	} else {
		j, err := s.find(ctx, p.Tenant, *ref)
		if err != nil {
			return HoldOf{}, err
		}
		h.Job = j.ID
		told["job"] = j.ID.String()
	}
	got, err := s.store.AddHold(ctx, h, maxHolds, s.audited(of(p, h.Tenant), "hold.add", h.ID, detail{After: told}))
	if errors.Is(err, engine.ErrConflict) {
		return HoldOf{}, &OverQuota{What: fmt.Sprintf("A tenant has at most %d holds; end those that are no longer needed, or hold the tenant as a whole.", maxHolds)}
	}
	if err != nil {
		return HoldOf{}, err
	}
	s.quotas.forget()
	return s.heldName(ctx, got)
}

func validReason(s string) bool {
	return utf8.ValidString(s) && utf8.RuneCountInString(s) <= 500 && strings.TrimSpace(s) != "" && !strings.ContainsFunc(s, unicode.IsControl)
}

func (s *Settings) heldName(ctx context.Context, h tenant.Hold) (HoldOf, error) {
	out, err := s.holdNames(ctx, h.Tenant, []tenant.Hold{h})
	if err != nil {
		return HoldOf{}, err
	}
	return out[0], nil
}

func (s *Settings) holdNames(ctx context.Context, t tenant.ID, hs []tenant.Hold) ([]HoldOf, error) {
	var ids []job.ID
	for _, h := range hs {
		if !h.OfTenant() {
			ids = append(ids, h.Job)
		}
	}
	var names map[job.ID]string
	if len(ids) > 0 {
		var err error
		if names, err = s.store.Names(ctx, t, ids); err != nil {
			return nil, err
		}
	}
	out := make([]HoldOf, len(hs))
	for i, h := range hs {
		out[i] = HoldOf{h, names[h.Job]}
	}
	return out, nil
}

// Holds lists the holds of the caller's tenant, oldest first.
func (s *Settings) Holds(ctx context.Context, p tenant.Principal) ([]HoldOf, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	hs, err := s.store.Holds(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	return s.holdNames(ctx, p.Tenant, hs)
}

// DeleteHold ends a hold of the caller's tenant. What it held is purged, if it is too old, within minutes.
func (s *Settings) DeleteHold(ctx context.Context, p tenant.Principal, id string) (HoldOf, error) {
	if err := allow(p, tenant.Manage); err != nil {
		return HoldOf{}, err
	}
	hs, err := s.store.Holds(ctx, p.Tenant)
	if err != nil {
		return HoldOf{}, err
	}
	for _, h := range hs {
		if h.ID == id && h.OfTenant() {
			if err := allow(p, tenant.Run); err != nil {
				return HoldOf{}, err
			}
			ctx = engine.Unconfined(ctx)
		}
	}
	h, err := s.store.DeleteHold(ctx, p.Tenant, id, s.audited(p, "hold.end", id, detail{}))
	if err != nil {
		return HoldOf{}, err
	}
	s.quotas.forget()
	return s.heldName(ctx, h)
}

// held reports whether a hold keeps the history of a job of a tenant; of the tenant as a whole, if the job is zero.
func (s *shared) held(t tenant.ID, of job.ID) bool {
	k := s.quotas.known.Load()
	if k == nil {
		return false
	}
	_, held := tenant.HeldBy(k.holds, t, of)
	return held
}
