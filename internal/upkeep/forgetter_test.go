package upkeep_test

import (
	"bytes"
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/upkeep"
)

// historian notes what is asked of it.
type historian struct {
	asked map[tenant.ID]time.Time
	calls []string // by kind and tenant
	froms []engine.Place
	limit int // of executions, as last asked for
	more  map[string]int
	cut   time.Time // of the tenant free
	fails error

	events int

	shared []byte // for how long history is kept

	own   tenant.ID // that has jobs with a retention of their own
	after []engine.OwnPlace
}

func (h *historian) Tenants(context.Context) ([]tenant.Tenant, error) {
	all, some := -1, 400
	ts := []tenant.Tenant{
		{ID: tenant.Default}, {ID: "free", Tier: tenant.Free, CutAt: h.cut}, {ID: "pro", Tier: tenant.Pro}, {ID: "all", Tier: tenant.Free, Overrides: tenant.Overrides{HistoryDays: &all}},
		{ID: "some", Tier: tenant.Free, Overrides: tenant.Overrides{HistoryDays: &some}},
	}
	for i := range ts {
		ts[i].OwnKept = ts[i].ID == h.own
	}
	return ts, nil
}

func (h *historian) ForgetOwn(_ context.Context, t tenant.ID, now time.Time, from engine.OwnPlace, _ int) (engine.ForgotOwn, error) {
	got, err := h.told("own", t, now, engine.Place{})
	h.after = append(h.after, from)
	return engine.ForgotOwn{N: got.N, More: got.More, Next: engine.OwnPlace{Job: job.ID(got.Next.ID), Executions: true}}, err
}

func (h *historian) told(what string, t tenant.ID, before time.Time, from engine.Place) (engine.Forgot, error) {
	call := what + " " + string(t)
	h.calls = append(h.calls, call)
	h.asked[t] = before
	if t == "free" && what == "history" {
		h.froms = append(h.froms, from)
	}
	if h.fails != nil {
		return engine.Forgot{}, h.fails
	}
	if h.more[call]--; h.more[call] >= 0 {
		return engine.Forgot{N: 1, More: true, Next: engine.Place{At: before, ID: [16]byte{byte(h.more[call] + 1)}}}, nil
	}
	return engine.Forgot{}, nil
}

func (h *historian) ForgetHistory(_ context.Context, t tenant.ID, before time.Time, from engine.Place, limit int) (engine.Forgot, error) {
	h.limit = limit
	return h.told("history", t, before, from)
}

func (h *historian) ForgetRuns(_ context.Context, t tenant.ID, before time.Time, from engine.Place, _ int) (engine.Forgot, error) {
	return h.told("runs", t, before, from)
}

func (h *historian) ForgetJobs(_ context.Context, t tenant.ID, before time.Time, from engine.Place, _ int) (engine.Forgot, error) {
	return h.told("jobs", t, before, from)
}

func (h *historian) Share(_ context.Context, _ string, value []byte) ([]byte, error) {
	if h.shared == nil {
		h.shared = value
	}
	return h.shared, nil
}

func (h *historian) Reshare(_ context.Context, _ string, was, value []byte) error {
	if bytes.Equal(h.shared, was) {
		h.shared = value
	}
	return nil
}

func (h *historian) ForgetEvents(_ context.Context, limit int) (int, error) {
	return min(limit, h.events), nil
}

var fifthHour = time.Date(2026, 3, 31, 5, 0, 0, 0, time.UTC)

func newHistorian(days int) (*historian, *upkeep.Forgetter, *clock.Manual) {
	h := &historian{asked: map[tenant.ID]time.Time{}, more: map[string]int{}}
	clk := clock.NewManual(fifthHour)
	return h, &upkeep.Forgetter{Store: h, Clock: clk, Days: days}, clk
}

func TestForgetterGoesOnWithEvents(t *testing.T) {
	h, f, clk := newHistorian(0)
	for _, c := range []struct {
		events int
		soon   bool
	}{{}, {events: 10}, {events: 1 << 20, soon: true}} {
		h.events = c.events
		clk.Advance(time.Hour)
		if next, err := f.Tick(t.Context()); err != nil || next < time.Minute != c.soon {
			t.Errorf("%+v: it looks again after %v, %v", c, next, err)
		}
	}
}

func TestForgetterGoesByTheQuota(t *testing.T) {
	day := func(month time.Month, day int) time.Time { return time.Date(2026, month, day, 0, 0, 0, 0, time.UTC) }
	for days, want := range map[int]map[tenant.ID]time.Time{
		90: {tenant.Default: day(12-12, 31), "free": day(3, 1), "pro": day(12-12, 31), "some": time.Date(2025, 2, 24, 0, 0, 0, 0, time.UTC)},
		7:  {tenant.Default: day(3, 24), "free": day(3, 24), "pro": day(3, 24), "some": time.Date(2025, 2, 24, 0, 0, 0, 0, time.UTC)},
		-1: {"free": day(3, 1), "pro": fifthHour.AddDate(0, 0, -180).Truncate(24 * time.Hour), "some": time.Date(2025, 2, 24, 0, 0, 0, 0, time.UTC)},
	} {
		h, f, _ := newHistorian(days)
		if next, err := f.Tick(t.Context()); err != nil || next < time.Minute {
			t.Errorf("%d days: %v, %v", days, next, err)
		}
		if len(h.asked) != len(want) {
			t.Errorf("%d days: asked of %v", days, h.asked)
		}
		for id, at := range want {
			if !h.asked[id].Equal(at) {
				t.Errorf("%d days: what is older than %v of %s is dropped, want %v", days, h.asked[id], id, at)
			}
		}
	}
}

// Runs come first, because their nodes go with them, and jobs when no history is left.
func TestForgetterGoesOnWhereItStopped(t *testing.T) {
	h, f, clk := newHistorian(0)
	h.more = map[string]int{"history free": 2, "runs pro": 1}
	for _, want := range [][]string{
		{"history free", "history pro", "history some", "jobs pro", "jobs some", "runs free", "runs pro", "runs some"},
		{"history free", "runs pro"},
		{"history free", "jobs free"},
		nil,
	} {
		h.calls = nil
		if _, err := f.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if slices.Sort(h.calls); !slices.Equal(h.calls, want) {
			t.Errorf("asked for %v, want %v", h.calls, want)
		}
	}
	if len(h.froms) != 3 || !h.froms[0].IsZero() || h.froms[1].ID != [16]byte{2} || h.froms[2].ID != [16]byte{1} {
		t.Errorf("it went on after %v", h.froms)
	}
	h.calls = nil
	clk.Advance(10 * time.Minute)
	if _, err := f.Tick(t.Context()); err != nil || len(h.calls) != 6 || !h.froms[3].IsZero() {
		t.Errorf("10 minutes later: %v, %v, from %v", h.calls, err, h.froms)
	}
}

// Jobs that have a retention of their own are looked at every hour, whatever their tenant keeps; no other tenant's are.
func TestForgetterAsksJobsWithARetentionOfTheirOwn(t *testing.T) {
	h, f, clk := newHistorian(-1)
	h.own, h.more = "all", map[string]int{"own all": 1}
	for _, want := range []int{1, 2, 2, 3} {
		if want == 3 {
			clk.Advance(time.Hour)
		}
		if _, err := f.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		if len(h.after) != want {
			t.Errorf("asked %d times, want %d", len(h.after), want)
		}
	}
	if h.after[0] != (engine.OwnPlace{}) || h.after[1] != (engine.OwnPlace{Job: job.ID{1}, Executions: true}) || h.after[2] != (engine.OwnPlace{}) {
		t.Errorf("from %+v", h.after)
	}
	for _, call := range h.calls {
		if strings.HasPrefix(call, "own ") && call != "own all" {
			t.Error(call)
		}
	}
	if _, asked := h.asked["all"]; !asked {
		t.Error("its own tenant was not asked")
	}
}

func TestForgetterWaitsAfterAHistoryBecameShorter(t *testing.T) {
	h, f, clk := newHistorian(0)
	h.cut = clk.Now().Add(-time.Minute)
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

// The same holds for all tenants that keep what the installation does, after its value was lowered, also over a restart.
func TestForgetterWaitsAfterTheInstallationKeepsLess(t *testing.T) {
	h, f, clk := newHistorian(365)
	tick := func(days int) (asked []tenant.ID) {
		t.Helper()
		f = &upkeep.Forgetter{Store: h, Clock: clk, Days: days} // a server that starts
		clear(h.asked)
		if _, err := f.Tick(t.Context()); err != nil {
			t.Fatal(err)
		}
		return slices.Sorted(maps.Keys(h.asked))
	}
	const day = 24 * time.Hour
	all := []tenant.ID{tenant.Default, "free", "pro", "some"}
	for _, c := range []struct {
		after time.Duration
		days  int
		want  []tenant.ID
	}{
		{0, 365, all},
		{day, 100, []tenant.ID{"free", "some"}}, // what others keep is less, or their own
		{6 * day, 100, []tenant.ID{"free", "some"}},
		{day, 100, all},
		{day, 7, []tenant.ID{"some"}},                  // mistyped …
		{day, 365, []tenant.ID{"free", "pro", "some"}}, // … and undone: only the default tenant keeps what the installation does
		{7 * day, 365, all},
		{day, -1, []tenant.ID{"free", "pro", "some"}},
		{day, 30, []tenant.ID{"free", "some"}},
	} {
		clk.Advance(c.after)
		if got := tick(c.days); !slices.Equal(got, c.want) {
			t.Errorf("%+v: asked of %v", c, got)
		}
	}
}

// What fails may have been too much for one commit: less is tried, and then more again.
func TestForgetterTriesAgainWithLess(t *testing.T) {
	h, f, _ := newHistorian(0)
	h.more = map[string]int{"history free": 1 << 30}
	tick := func() int {
		t.Helper()
		if _, err := f.Tick(t.Context()); (err != nil) != (h.fails != nil) {
			t.Errorf("%v, and the store %v", err, h.fails)
		}
		return h.limit
	}
	usual := tick()
	h.fails = errors.New("away")
	tick()
	var less int
	for range 10 {
		less = tick()
	}
	if less != usual/64 {
		t.Errorf("%d of %d are tried at last", less, usual)
	}
	h.fails = nil
	for range 100 {
		less = tick()
	}
	if less != usual {
		t.Errorf("%d of %d are tried in the end", less, usual)
	}
}
