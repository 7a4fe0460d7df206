package enginetest

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

func (f *Faulty) CountJobs(ctx context.Context, t tenant.ID) (int64, error) {
	return disturb(ctx, f, "CountJobs", func() (int64, error) { return f.Store.CountJobs(ctx, t) })
}

func (f *Faulty) Charge(ctx context.Context, cs []engine.Charge) ([]time.Duration, error) {
	return disturb(ctx, f, "Charge", func() ([]time.Duration, error) { return f.Store.Charge(ctx, cs) })
}

func (f *Faulty) Reaches(ctx context.Context) (map[tenant.ID]engine.Reach, error) {
	return disturb(ctx, f, "Reaches", func() (map[tenant.ID]engine.Reach, error) { return f.Store.Reaches(ctx) })
}
