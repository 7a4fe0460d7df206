package service

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Stretch selects a series: its period and step, and whether it covers all tenants together.
type Stretch struct {
	Back  time.Duration
	Step  time.Duration
	Whole bool
}

// Series counts events, step by step, earliest first, without empty steps.
type Series struct {
	From, To time.Time
	Points   []engine.TenantMinute
	Total    engine.TenantMinute
}

// scope returns the tenant of a stretch, and a context in which it can be read.
func (s *Views) scope(ctx context.Context, p tenant.Principal, x Stretch) (context.Context, tenant.ID, error) {
	if !x.Whole {
		return ctx, p.Tenant, allow(p, tenant.Read)
	}
	return engine.Unconfined(ctx), "", allow(p, tenant.Run)
}

// Series returns the counts of events of executions.
func (s *Views) Series(ctx context.Context, p tenant.Principal, x Stretch) (out Series, err error) {
	ctx, of, err := s.scope(ctx, p, x)
	if err != nil {
		return out, err
	}
	out.To = s.now()
	out.From = out.To.Add(-x.Back).Truncate(x.Step)
	ms, err := s.store.TenantMinutes(ctx, of, out.From)
	for _, m := range ms {
		m.At = m.At.Truncate(x.Step)
		out.Points = engine.SumMinutes(out.Points, m)
		out.Total.Add(m)
	}
	return out, err
}

// DelayAt returns the trigger delay that a share of the fired executions did not exceed, as far as its bucket tells;
// false if nothing fired.
func DelayAt(m *engine.TenantMinute, share float64) (time.Duration, bool) {
	fired := m.Fired()
	if fired == 0 {
		return 0, false
	}
	n := int64(0)
	for i, x := range m.Delays {
		if n += x; float64(n) >= share*float64(fired) && i < len(engine.DelayBounds) {
			return min(engine.DelayBounds[i], m.MaxDelay), true
		}
	}
	return m.MaxDelay, true
}

// DepthSeries counts waiting and running executions.
type DepthSeries struct {
	From, To time.Time
	Queues   []string // all that there are, in order
	Points   []engine.DepthMinute
}

// Depths returns how many executions waited and ran: the maximum of each step, queue by queue.
func (s *Views) Depths(ctx context.Context, p tenant.Principal, x Stretch) (out DepthSeries, err error) {
	ctx, of, err := s.scope(ctx, p, x)
	if err != nil {
		return out, err
	}
	out.To = s.now()
	out.From = out.To.Add(-x.Back).Truncate(x.Step)
	ms, err := s.store.Depths(ctx, of, out.From)
	known := map[string]bool{}
	for _, m := range ms {
		m.At = m.At.Truncate(x.Step)
		for _, q := range m.Queues {
			known[q.Queue] = true
		}
		if n := len(out.Points); n > 0 && out.Points[n-1].At.Equal(m.At) {
			out.Points[n-1].Queues = fuller(out.Points[n-1].Queues, m.Queues)
		} else {
			out.Points = append(out.Points, m)
		}
	}
	out.Queues = slices.Sorted(maps.Keys(known))
	return out, err
}

// fuller returns the maximum of two samples of each queue.
func fuller(a, b []engine.QueueDepth) []engine.QueueDepth {
	for _, q := range b {
		i := slices.IndexFunc(a, func(x engine.QueueDepth) bool { return x.Queue == q.Queue })
		if i < 0 {
			a = append(a, q)
			continue
		}
		a[i].Waiting, a[i].Running, a[i].Oldest = max(a[i].Waiting, q.Waiting), max(a[i].Running, q.Running), max(a[i].Oldest, q.Oldest)
	}
	return a
}

// Today returns the beginning of the current day, UTC.
func (s *Views) Today() time.Time { return s.now().Truncate(24 * time.Hour) }

// JobCalendar counts the outcomes of a job's executions by day.
type JobCalendar struct {
	Job      job.ID
	From, To time.Time
	Days     []engine.JobDay
	Total    engine.DayCounts
}

// JobCalendar returns the outcomes of a job's executions by day, from one day up to but excluding another.
func (s *Views) JobCalendar(ctx context.Context, p tenant.Principal, ref engine.Ref, from, to time.Time) (out JobCalendar, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return out, err
	}
	out = JobCalendar{Job: j.ID, From: from, To: to}
	if out.Days, err = s.store.JobDays(ctx, p.Tenant, j.ID, from, to); err != nil {
		return out, err
	}
	if j.Schedule.Type.OneOff() {
		if err := s.ownFire(ctx, &out, p.Tenant); err != nil {
			return out, err
		}
	}
	for _, d := range out.Days {
		out.Total.Add(d.DayCounts)
	}
	return out, nil
}

// ownFire adds the own fire of a one-off job, which is not counted.
func (s *Views) ownFire(ctx context.Context, c *JobCalendar, t tenant.ID) error {
	e, err := s.store.Execution(ctx, t, job.ExecutionID(c.Job))
	if err != nil || !e.Status.Final() {
		return ignore(err, engine.ErrNotFound)
	}
	day := e.ScheduledAt.UTC().Truncate(24 * time.Hour)
	if day.Before(c.From) || !day.Before(c.To) {
		return nil
	}
	i, found := slices.BinarySearchFunc(c.Days, day, func(d engine.JobDay, at time.Time) int { return d.Day.Compare(at) })
	if !found {
		c.Days = slices.Insert(c.Days, i, engine.JobDay{Job: c.Job, Tenant: t, Day: day})
	}
	switch d := &c.Days[i].DayCounts; e.Status {
	case job.Succeeded:
		d.Succeeded++
	case job.Failed:
		d.Failed++
	case job.TimedOut:
		d.TimedOut++
	case job.Cancelled:
		d.Cancelled++
	default:
		d.Skipped++
	}
	return nil
}

// Runs holds the last executions of a job, and counts their outcomes.
type Runs struct {
	Job   job.ID
	Runs  []engine.Run
	Stats job.Stats
}

// runsSince is how far back the last executions are searched.
const runsSince = 35 * 24 * time.Hour

// LastRuns returns the last executions of some jobs; unknown ones are left out.
func (s *Views) LastRuns(ctx context.Context, p tenant.Principal, ids []job.ID, n int) ([]Runs, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	names, err := s.store.Names(ctx, p.Tenant, ids)
	if err != nil {
		return nil, err
	}
	ids = slices.DeleteFunc(slices.Clone(ids), func(id job.ID) bool {
		_, ok := names[id]
		return !ok
	})
	from, err := s.executions.since(ctx, p)
	if err != nil {
		return nil, err
	}
	if back := s.now().Add(-runsSince); from.Before(back) {
		from = back
	}
	runs, err := s.store.Recent(ctx, p.Tenant, ids, n, from)
	if err != nil {
		return nil, err
	}
	stats, err := s.store.Stats(ctx, p.Tenant, ids)
	if err != nil {
		return nil, err
	}
	now, err := s.executions.ownAsOf(ctx, p, job.ID{})
	if err != nil {
		return nil, err
	}
	var own map[job.ID]job.Retention
	if !now.IsZero() {
		if own, err = s.store.Retentions(ctx, p.Tenant, ids); err != nil {
			return nil, err
		}
	}
	out := make([]Runs, len(ids))
	for i, id := range ids {
		if k := own[id]; !s.held(p.Tenant, id) {
			runs[i] = slices.DeleteFunc(runs[i], func(r engine.Run) bool { return r.Status.Final() && k.Hides(now, 0, r.Status, r.FinishedAt) })
		}
		out[i] = Runs{id, runs[i], stats[i]}
	}
	return out, nil
}
