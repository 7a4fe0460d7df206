package upkeep_test

import (
	"context"
	"errors"
	"fmt"
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
	cut   time.Time // of the tenant free
	fails error

	runs   bool
	events int
}

func (h *historian) Tenants(context.Context) ([]tenant.Tenant, error) {
	days := -1
	return []tenant.Tenant{{ID: tenant.Default}, {ID: "free", Tier: tenant.Free, CutAt: h.cut}, {ID: "pro", Tier: tenant.Pro}, {ID: "all", Tier: tenant.Free, Overrides: tenant.Overrides{HistoryDays: &days}}}, nil
}

func (h *historian) ForgetHistory(_ context.Context, t tenant.ID, before time.Time, _ int) (engine.Forgot, error) {
	h.asked[t] = before
	return engine.Forgot{N: 1, More: h.more && t == "free"}, h.fails
}

func (h *historian) ForgetRuns(_ context.Context, t tenant.ID, before time.Time, _ int) (bool, error) {
	if h.asked[t] != before {
		return false, fmt.Errorf("runs of %s since %v, executions since %v", t, before, h.asked[t])
	}
	return h.runs, nil
}

func (h *historian) ForgetEvents(_ context.Context, limit int) (int, error) {
	return min(limit, h.events), nil
}

func TestForgetterGoesOnWithRunsAndEvents(t *testing.T) {
	h := &historian{asked: map[tenant.ID]time.Time{}}
	f := &upkeep.Forgetter{Store: h, Clock: clock.NewManual(time.Date(2026, 3, 31, 5, 0, 0, 0, time.UTC))}
	for _, c := range []struct {
		runs   bool
		events int
		soon   bool
	}{{}, {runs: true, soon: true}, {events: 10}, {events: 1 << 20, soon: true}} {
		h.runs, h.events = c.runs, c.events
		f.Clock.(*clock.Manual).Advance(time.Hour)
		if next, err := f.Tick(t.Context()); err != nil || next < time.Minute != c.soon {
			t.Errorf("%+v: it looks again after %v, %v", c, next, err)
		}
	}
}

func TestForgetterGoesByTheQuota(t *testing.T) {
	h := &historian{asked: map[tenant.ID]time.Time{}, more: true}
	f := &upkeep.Forgetter{Store: h, Clock: clock.NewManual(time.Date(2026, 3, 31, 5, 0, 0, 0, time.UTC))}
	next, err := f.Tick(t.Context())
	if err != nil || next > time.Second || len(h.asked) != 2 || !h.asked["free"].Equal(time.Date(2026, 3, 1, 0, 0, 0, 0, time.UTC)) {
		t.Errorf("%v, %v, %v", next, err, h.asked)
	}
	h.more = false
	clear(h.asked)
	if next, _ := f.Tick(t.Context()); next < time.Minute {
		t.Errorf("nothing is left, and it looks again after %v", next)
	}
	if _, others := h.asked["pro"]; others || len(h.asked) != 1 {
		t.Errorf("asked of those that have no more: %v", h.asked)
	}
}

func TestForgetterWaitsAfterAHistoryBecameShorter(t *testing.T) {
	clk := clock.NewManual(time.Date(2026, 3, 31, 5, 0, 0, 0, time.UTC))
	h := &historian{asked: map[tenant.ID]time.Time{}, cut: clk.Now().Add(-time.Minute)}
	f := &upkeep.Forgetter{Store: h, Clock: clk}
	for day := range 8 {
		clear(h.asked)
		if day > 0 {
			clk.Advance(24 * time.Hour)
		}
		if _, err := f.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, asked := h.asked["free"]; asked != (day == 7) {
			t.Errorf("after %d days: asked %v", day, asked)
		}
	}
}

func TestForgetterTriesAgain(t *testing.T) {
	h := &historian{asked: map[tenant.ID]time.Time{}, fails: errors.New("away")}
	f := &upkeep.Forgetter{Store: h, Clock: clock.NewManual(time.Date(2026, 3, 31, 5, 0, 0, 0, time.UTC))}
	if _, err := f.Tick(t.Context()); err == nil {
		t.Error("no error")
	}
	h.fails = nil
	clear(h.asked)
	if _, err := f.Tick(t.Context()); err != nil || len(h.asked) != 2 {
		t.Errorf("%v, %v", err, h.asked)
	}
}
