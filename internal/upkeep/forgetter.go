package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Forgetter drops history older than its tenant's quota keeps, except for tenants whose history was shortened less
// than tenant.CutGrace ago: that may have been a mistake. It also drops old events. It is not safe for concurrent
// use.
type Forgetter struct {
	Store interface {
		Tenants(ctx context.Context) ([]tenant.Tenant, error)
		ForgetHistory(ctx context.Context, t tenant.ID, before time.Time, limit int) (engine.Forgot, error)
		ForgetRuns(ctx context.Context, t tenant.ID, before time.Time, limit int) (more bool, err error)
		ForgetEvents(ctx context.Context, limit int) (int, error)
	}
	Clock clock.Clock // the store's

	next time.Time          // when all are checked again
	more map[tenant.ID]bool // those of which there is more
}

const (
	forgetEvery  = 10 * time.Minute
	forgetAtOnce = 500  // executions of a tenant, in one commit
	forgetRows   = 2000 // of workflow runs likewise, and events of all tenants
	forgetPause  = 200 * time.Millisecond
)

// Tick drops some of every tenant that has too much: of all every 10 minutes, and in between of those that have more.
func (f *Forgetter) Tick(ctx context.Context) (time.Duration, error) {
	ts, err := f.Store.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	now := f.Clock.Now()
	all := !now.Before(f.next)
	if all {
		f.next = now.Add(forgetEvery)
	}
	more := map[tenant.ID]bool{}
	events, err := f.Store.ForgetEvents(ctx, forgetRows)
	errs := []error{err}
	for _, t := range ts {
		before, limited := t.Quota().KeptSince(now)
		if !limited || !all && !f.more[t.ID] || now.Sub(t.CutAt) < tenant.CutGrace {
			continue
		}
		got, err := f.Store.ForgetHistory(ctx, t.ID, before, forgetAtOnce)
		if got.More || err != nil {
			more[t.ID] = true
		}
		left, err2 := f.Store.ForgetRuns(ctx, t.ID, before, forgetRows)
		if left || err2 != nil {
			more[t.ID] = true
		}
		errs = append(errs, err, err2)
	}
	if f.more = more; len(more) > 0 || events == forgetRows {
		return forgetPause, errors.Join(errs...)
	}
	return f.next.Sub(now), errors.Join(errs...)
}
