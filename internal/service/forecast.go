package service

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Forecast says how many executions schedules will make, minute by minute.
type Forecast struct {
	Minutes   []Minute // those with any, in order
	Herds     []Herd   // the fullest, those with the most first
	Truncated bool     // there were too many jobs, or too many instants, to count them all
}

// Minute is how many instants there are in a minute.
type Minute struct {
	At    time.Time
	Count int64
}

// Herd is a minute in which uncommonly many come together, and the jobs that bring the most.
type Herd struct {
	Minute
	Jobs []HerdJob
}

// HerdJob is a job's part in a herd.
type HerdJob struct {
	ID    job.ID
	Name  string
	Count int64
}

// What a forecast counts is bounded, so that none holds up the server.
const (
	maxForecast     = 100_000   // jobs
	maxInstants     = 3_000_000 // of all jobs together
	maxHerds        = 10
	herdJobs        = 5
	smallestHerd    = 10 // instants in a minute
	timesTheAverage = 3
)

// counted is a job that a forecast counts.
type counted struct {
	id   job.ID
	name string
	plan *schedule.Plan // nil: it fires once
	at   time.Time      // then
}

// next is the first instant of the job after one.
func (c counted) next(after time.Time) (time.Time, bool) {
	if c.plan == nil {
		return c.at, c.at.After(after)
	}
	return c.plan.Next(after)
}

// Forecast counts what the tenant's schedules will fire within a time from now.
func (s *Service) Forecast(ctx context.Context, p tenant.Principal, ahead time.Duration) (out Forecast, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	ps := s.plans(p.Tenant)
	from := ps.at.Truncate(time.Minute)
	until := ps.at.Add(ahead)
	jobs, err := s.countable(ctx, ps, &out)
	if err != nil {
		return out, err
	}
	counts := make([]int64, int(until.Sub(from)/time.Minute)+1)
	total := int64(0)
	for _, c := range jobs {
		for t, ok := c.next(ps.at); ok && t.Before(until); t, ok = c.next(t) {
			if total == maxInstants {
				out.Truncated = true
				break
			}
			counts[t.Sub(from)/time.Minute]++
			total++
		}
		if ctx.Err() != nil {
			return out, ctx.Err()
		}
	}
	for i, n := range counts {
		if n > 0 {
			out.Minutes = append(out.Minutes, Minute{from.Add(time.Duration(i) * time.Minute), n})
		}
	}
	out.Herds = herds(out.Minutes, total/int64(len(counts)), jobs, ps.at)
	return out, nil
}

// countable reads the jobs that are to fire.
func (s *Service) countable(ctx context.Context, ps *plans, out *Forecast) ([]counted, error) {
	var jobs []counted
	add := func(j job.Job) (bool, error) {
		if len(jobs) == maxForecast {
			out.Truncated = true
			return false, nil
		}
		c := counted{id: j.ID, name: j.Name, at: j.Schedule.At}
		if !j.Schedule.Type.OneOff() {
			plan, err := ps.plan(ctx, j)
			if err != nil {
				return true, nil // it cannot fire either
			}
			c.plan = &plan
		}
		jobs = append(jobs, c)
		return true, nil
	}
	if err := s.recurring(ctx, ps.tenant, job.Active, add); err != nil {
		return nil, err
	}
	if out.Truncated {
		return jobs, nil
	}
	_, err := s.each(ctx, engine.JobFilter{Tenant: ps.tenant, ScheduleType: job.OneTime, State: job.Active}, add)
	return jobs, err
}

// herds are the fullest minutes, if they are much fuller than others.
func herds(minutes []Minute, average int64, jobs []counted, now time.Time) []Herd {
	least := max(smallestHerd, timesTheAverage*average)
	var out []Herd
	for _, m := range minutes {
		if m.Count >= least {
			out = append(out, Herd{Minute: m})
		}
	}
	slices.SortStableFunc(out, func(a, b Herd) int { return cmp.Compare(b.Count, a.Count) })
	out = out[:min(len(out), maxHerds)]
	for i := range out {
		h := &out[i]
		begin := h.At.Add(-1)
		if begin.Before(now) {
			begin = now
		}
		for _, c := range jobs {
			x := HerdJob{ID: c.id, Name: c.name}
			for t, ok := c.next(begin); ok && t.Before(h.At.Add(time.Minute)); t, ok = c.next(t) {
				x.Count++
			}
			if x.Count > 0 {
				h.add(x)
			}
		}
	}
	return out
}

// add keeps a job if it is among those that bring the most.
func (h *Herd) add(x HerdJob) {
	i, _ := slices.BinarySearchFunc(h.Jobs, x, func(a, b HerdJob) int {
		if a.Count >= b.Count {
			return -1 // the first one found stays in front
		}
		return 1
	})
	if i < herdJobs {
		h.Jobs = slices.Insert(h.Jobs, i, x)
		h.Jobs = h.Jobs[:min(len(h.Jobs), herdJobs)]
	}
}
