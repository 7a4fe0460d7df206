package upkeep_test

import (
	"context"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/upkeep"
)

type historian struct {
	asked map[tenant.ID]time.Time
	more  bool
}

func (h *historian) Tenants(context.Context) ([]tenant.Tenant, error) {
	days := -1
	return []tenant.Tenant{{ID: tenant.Default}, {ID: "free", Tier: tenant.Free}, {ID: "all", Tier: tenant.Free, Overrides: tenant.Overrides{HistoryDays: &days}}}, nil
}

func (h *historian) ForgetHistory(_ context.Context, t tenant.ID, before time.Time, _ int) (engine.Forgot, error) {
	h.asked[t] = before
	return engine.Forgot{N: 1, More: h.more}, nil
}

func TestForgetterGoesByTheQuota(t *testing.T) {
	h := &historian{asked: map[tenant.ID]time.Time{}, more: true}
	f := &upkeep.Forgetter{Store: h, Clock: clock.NewManual(time.Date(2026, 3, 31, 5, 0, 0, 0, time.UTC))}
	next, err := f.Tick(t.Context())
	if err != nil || next > time.Second || len(h.asked) != 1 || !h.asked["free"].Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v, %v", next, err, h.asked)
	}
	h.more = false
	if next, _ := f.Tick(t.Context()); next < time.Minute {
		t.Errorf("nothing is left, and it looks again after %v", next)
	}
}
