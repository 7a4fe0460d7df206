package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Overview describes the health of a tenant.
type Overview struct {
	Now         time.Time
	Schedules   engine.Total // recurring jobs that are not paused
	Paused      engine.Total
	Late        engine.Total
	LateJobs    []job.Job // the ones that have been late the longest
	Failing     engine.Total
	FailingJobs []Failing // those that failed last
	Hour        engine.TenantMinute
	DeadLetters engine.Total
	Workers     int // that live and take more
}

// Failing is a job whose last execution did not succeed.
type Failing struct {
	ID      job.ID
	Name    string
	Last    job.Status
	Failed  int64 // in 24 hours
	At      time.Time
	Type    job.ErrorType
	Message string

	Execution job.ExecutionID // the last that failed
}

const (
	failingFor     = 24 * time.Hour
	overviewListed = 10
	overviewLooked = 200   // jobs with a failure whose last outcome is looked up
	overviewRead   = 4_000 // failures of a job in an hour, latest first
)

// Overview returns the health of the tenant.
func (s *Views) Overview(ctx context.Context, p tenant.Principal) (out Overview, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	out.Now = s.now()
	for _, x := range []struct {
		total *engine.Total
		state job.State
		kind  job.ScheduleType
	}{{&out.Schedules, job.Active, job.Cron}, {&out.Schedules, job.Active, job.Interval}, {&out.Paused, job.Paused, 0}} {
		page, err := s.store.FindJobs(ctx, engine.JobFilter{Tenant: p.Tenant, State: x.state, ScheduleType: x.kind}, engine.Page{Limit: 1, Bounded: true})
		if err != nil {
			return out, err
		}
		x.total.Count += page.Total.Count
		x.total.Estimate = x.total.Estimate || page.Total.Estimate
	}
	// Under row-level security it would read all late jobs to find the tenant's; so it is limited, and says so.
	late, err := s.store.LateJobs(engine.Unconfined(ctx), p.Tenant, out.Now.Add(-OverdueAfter), overviewListed)
	if err != nil {
		return out, err
	}
	out.Late, out.LateJobs = late.Total, late.Jobs
	if err := s.failing(ctx, p.Tenant, &out); err != nil {
		return out, err
	}
	ms, err := s.store.TenantMinutes(ctx, p.Tenant, out.Now.Add(-time.Hour))
	if err != nil {
		return out, err
	}
	for _, m := range ms {
		out.Hour.Add(m)
	}
	since, err := s.executions.since(ctx, p)
	if err != nil {
		return out, err
	}
	own, err := s.executions.ownAsOf(ctx, p, job.ID{})
	if err != nil {
		return out, err
	}
	dead, err := s.store.DeadLetters(ctx, engine.DeadLetterFilter{Tenant: p.Tenant, From: since, OwnAsOf: own}, engine.Page{Limit: 1, Bounded: true})
	if err != nil {
		return out, err
	}
	out.DeadLetters = dead.Total
	ws, err := s.store.Workers(ctx, p.Tenant)
	for _, w := range ws {
		if w.State(out.Now).Takes() {
			out.Workers++
		}
	}
	return out, err
}

// failing finds the jobs that failed within 24 hours and whose last execution did not succeed.
func (s *Views) failing(ctx context.Context, t tenant.ID, out *Overview) error {
	fs, err := s.store.Failures(ctx, engine.FailureFilter{Tenant: t, From: out.Now.Add(-failingFor)}, overviewRead)
	if err != nil {
		return err
	}
	out.Failing.Estimate = len(fs) == overviewRead
	by := map[job.ID]*Failing{}
	for _, f := range fs {
		if f.Job.IsZero() {
			out.Failing.Estimate = true
			continue
		}
		x := by[f.Job]
		if x == nil {
			x = &Failing{ID: f.Job}
			by[f.Job] = x
		}
		x.Failed += f.Failed
		if f.Failed > 0 && !f.Last.Before(x.At) {
			x.At, x.Type, x.Message, x.Execution = f.Last, f.Type, f.Message, f.Execution
		}
	}
	var all []*Failing
	for _, x := range by {
		if x.Failed > 0 {
			all = append(all, x)
		}
	}
	slices.SortFunc(all, func(a, b *Failing) int { return cmp.Or(b.At.Compare(a.At), slices.Compare(a.ID[:], b.ID[:])) })
	if len(all) > overviewLooked {
		all, out.Failing.Estimate = all[:overviewLooked], true
	}
	ids := make([]job.ID, len(all))
	for i, x := range all {
		ids[i] = x.ID
	}
	// They failed since then, or in that hour, so that nothing that finished earlier was the last.
	lasts, err := s.store.LastStatus(ctx, t, ids, out.Now.Add(-failingFor-2*time.Hour))
	if err != nil {
		return err
	}
	for i, x := range all {
		if x.Last = lasts[i]; x.Last != job.Failed && x.Last != job.TimedOut {
			continue
		}
		if out.Failing.Count++; len(out.FailingJobs) < overviewListed {
			out.FailingJobs = append(out.FailingJobs, *x)
		}
	}
	ids = ids[:0]
	for _, x := range out.FailingJobs {
		ids = append(ids, x.ID)
	}
	names, err := s.store.Names(ctx, t, ids)
	for i := range out.FailingJobs {
		out.FailingJobs[i].Name = names[out.FailingJobs[i].ID]
	}
	return err
}
