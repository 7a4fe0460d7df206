package reach

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
)

type stored func() ([]tenant.Tenant, error)

func (s stored) Tenants(context.Context) ([]tenant.Tenant, error) { return s() }

func TestStep(t *testing.T) {
	clk := clock.NewManual(time.Unix(1_700_000_000, 0))
	list, away, reads := "10.0.0.0/8,fd00::/8", errors.New("away"), 0
	l := New(stored(func() ([]tenant.Tenant, error) {
		reads++
		return []tenant.Tenant{{ID: "a", Reach: list}, {ID: "b"}}, away
	}), clk)
	give := func(of tenant.ID, kind job.TargetKind) ([]string, error) {
		var a job.Attempt
		a.Tenant, a.Target.Kind = of, kind
		var out client.Attempt
		err := l.Step(t.Context(), a, &out)
		return out.CallbackAllow, err
	}
	if _, err := give("a", job.HTTP); err == nil {
		t.Error("nothing is known, and it is given out")
	}
	if _, err := give("a", job.Command); err != nil {
		t.Errorf("what calls nobody: %v", err)
	}
	away, reads = nil, 0
	for range 3 {
		if got, err := give("a", job.HTTP); err != nil || !slices.Equal(got, []string{"10.0.0.0/8", "fd00::/8"}) {
			t.Errorf("%q, %v", got, err)
		}
		for _, other := range []tenant.ID{"b", "c", ""} {
			if got, err := give(other, job.HTTP); err != nil || got != nil {
				t.Errorf("%q: %q, %v", other, got, err)
			}
		}
	}
	if reads != 1 {
		t.Errorf("read %d times", reads)
	}
	list = ""
	clk.Advance(remember)
	if got, _ := give("a", job.HTTP); got != nil {
		t.Errorf("taken away: %q", got)
	}
	list, away = "10.0.0.0/8", errors.New("away")
	clk.Advance(remember)
	if got, err := give("a", job.HTTP); err != nil || got != nil {
		t.Errorf("the store is away: %q, %v", got, err)
	}
}
