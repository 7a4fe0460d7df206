package upkeep

import (
	"context"
	"errors"
	"time"

	"github.com/carillon-jobs/carillon/internal/clock"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Forgetter drops history that is older than its tenant keeps, except where that was shortened, for the tenant or the
// installation, less than tenant.CutGrace ago: it may have been a mistake. It also drops old events. It is not safe for concurrent
// use.
type Forgetter struct {
	Store interface {
		engine.Forgetting
		engine.Sharing
		Tenants(ctx context.Context) ([]tenant.Tenant, error)
		ForgetEvents(ctx context.Context, limit int) (int, error)
	}
	Clock clock.Clock // the store's
	Days  int         // that history is kept for tenants without a shorter or an explicit limit; none or fewer: for ever

	kept  tenant.Installation            // as last read
	next  time.Time                      // when all are checked again
	swept time.Time                      // when all were last checked for jobs without history, or with a retention of their own
	left  map[tenant.ID]map[kind]*search // what is under way
	share int                            // how much of the usual amount is done at once: one of so many parts
}

const (
	forgetEvery     = 10 * time.Minute
	forgetJobsEvery = time.Hour // and what jobs keep by retentions of their own
	forgetAtOnce    = 500       // executions of a tenant, in one commit
	forgetRows      = 2000      // of workflow runs likewise, events of all tenants, and jobs to look at
	forgetPause     = 200 * time.Millisecond
	leastShare      = 64
)

// kind is what a search drops.
type kind uint8

const (
	ofOwn  kind = iota // of jobs with a retention of their own
	ofRuns             // before history: executions of nodes go with their run
	ofHistory
	ofJobs // last: jobs of which no history is left
	kinds
)

// search is a walk through what one tenant has of a kind.
type search struct {
	before time.Time
	from   engine.Place
	own    engine.OwnPlace // in place of both, see ofOwn
}

// Tick drops some of every tenant that has too much: of all every 10 minutes, and in between of those that have more.
func (f *Forgetter) Tick(ctx context.Context) (time.Duration, error) {
	ts, err := f.Store.Tenants(ctx)
	if err != nil {
		return 0, err
	}
	now := f.Clock.Now()
	if !now.Before(f.next) {
		if f.kept, err = engine.Installed(ctx, f.Store, f.Days, now); err != nil {
			return 0, err
		}
		f.next = now.Add(forgetEvery)
		f.begin(ts, now)
	}
	f.heed(ts, now)
	events, err := f.Store.ForgetEvents(ctx, forgetRows)
	errs := []error{err}
	for t, searches := range f.left {
		for k := range kinds {
			s := searches[k]
			if s == nil {
				continue
			}
			more, err := f.step(ctx, t, k, s)
			if errs = append(errs, err); err != nil {
				f.share = min(max(f.share, 1)*2, leastShare) // it may have been too much for one commit
				continue
			}
			if !more {
				delete(searches, k)
				continue
			}
			if k == ofHistory {
				break // jobs are looked for when their history has gone
			}
		}
		if len(searches) == 0 {
			delete(f.left, t)
		}
	}
	err = errors.Join(errs...)
	if err == nil && f.share > 1 {
		f.share--
	}
	if len(f.left) > 0 || events == forgetRows {
		return forgetPause, err
	}
	return f.next.Sub(now), err
}

// begin starts the searches that are not under way. Those that are learn of what has become old since.
func (f *Forgetter) begin(ts []tenant.Tenant, now time.Time) {
	sweep := now.Sub(f.swept) >= forgetJobsEvery
	if sweep {
		f.swept = now
	}
	was := f.left
	f.left = map[tenant.ID]map[kind]*search{}
	for _, t := range ts {
		before, limited := t.DropsBefore(f.kept, now)
		searches := map[kind]*search{}
		for k := range kinds {
			if k == ofOwn && !t.OwnKept || k != ofOwn && !limited {
				continue
			}
			if s := was[t.ID][k]; s != nil {
				s.before = before
				searches[k] = s
			} else if k == ofRuns || k == ofHistory || sweep {
				searches[k] = &search{before: before}
			}
		}
		if len(searches) > 0 {
			f.left[t.ID] = searches
		}
	}
}

// heed holds what is under way to what its tenants keep now: who has just been given more loses nothing more.
func (f *Forgetter) heed(ts []tenant.Tenant, now time.Time) {
	for _, t := range ts {
		before, limited := t.DropsBefore(f.kept, now)
		for k, s := range f.left[t.ID] {
			if s.before = before; !limited && k != ofOwn {
				delete(f.left[t.ID], k)
			}
		}
		if len(f.left[t.ID]) == 0 {
			delete(f.left, t.ID)
		}
	}
}

// step drops a part of what a tenant has of a kind, and reports whether there may be more.
func (f *Forgetter) step(ctx context.Context, t tenant.ID, k kind, s *search) (more bool, err error) {
	part := max(f.share, 1)
	if k == ofOwn {
		got, err := f.Store.ForgetOwn(ctx, t, f.Clock.Now(), s.own, max(forgetAtOnce/part, 1))
		if err == nil {
			s.own = got.Next
		}
		return got.More, err
	}
	var got engine.Forgot
	switch k {
	case ofRuns:
		got, err = f.Store.ForgetRuns(ctx, t, s.before, s.from, max(forgetRows/part, 1))
	case ofHistory:
		got, err = f.Store.ForgetHistory(ctx, t, s.before, s.from, max(forgetAtOnce/part, 1))
	default:
		got, err = f.Store.ForgetJobs(ctx, t, s.before, s.from, max(forgetRows/part, 1))
	}
	if err == nil {
		s.from = got.Next
	}
	return got.More, err
}
