package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Forgetter drops history that is older than its tenant's quota has it.
type Forgetter struct {
	Store interface {
		Tenants(ctx context.Context) ([]tenant.Tenant, error)
		engine.Forgetting
	}
	Clock clock.Clock // the store's
}

const (
	forgetEvery  = 10 * time.Minute
	forgetAtOnce = 500 // executions of a tenant, in one commit
	forgetPause  = 200 * time.Millisecond
)

// Tick drops some of every tenant that has too much.
func (f *Forgetter) Tick(ctx context.Context) (time.Duration, error) {
	ts, err := f.Store.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	next := forgetEvery
	var errs []error
	for _, t := range ts {
		before, limited := t.Quota().KeptSince(f.Clock.Now())
		if !limited {
			continue
		}
		got, err := f.Store.ForgetHistory(ctx, t.ID, before, forgetAtOnce)
		if got.More {
			next = forgetPause
		}
		errs = append(errs, err)
	}
	return next, errors.Join(errs...)
}
