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

// Forecast predicts how many executions schedules will create, minute by minute.
type Forecast struct {
	Minutes   []Minute // those with any, in order
	Herds     []Herd   // the fullest minutes, fullest first
	Truncated bool     // there were too many jobs, or too many instants, to count them all, or to count them at once
	Spread    *Spread  // how to spread the herds, if requested and possible
}

// Minute counts the instants in a minute.
type Minute struct {
	At    time.Time
	Count int64
}

// Herd is a minute in which unusually many instants fall together, and the jobs with the most of them.
type Herd struct {
	Minute
	Jobs []HerdJob
}

// HerdJob is a job's share of a herd.
type HerdJob struct {
	ID    job.ID
	Name  string
	Count int64
}

// What a forecast counts is limited, so that none blocks the server.
const (
	maxForecast     = 100_000   // jobs
	maxInstants     = 3_000_000 // of all jobs together
	alwaysJobs      = 2_000     // examined, however long it takes
	alwaysInstants  = 100_000   // counted, however long it takes
	alwaysWhole     = 50        // jobs of which all are
	maxHerds        = 10
	herdJobs        = 5
	smallestHerd    = 10 // instants in a minute
	timesTheAverage = 3
)

// counted is a job that a forecast counts.
type counted struct {
	id      job.ID
	name    string
	plan    *schedule.Plan // nil: it fires once
	at      time.Time      // then, or when its pause ends; zero: it is not paused
	caught  int64          // instants that are caught up when its pause ends
	allowed budget
	plans   job.Schedule // as it is written
}

// each calls f with each instant of the job after one and before another, with the number of fires at it, until f
// returns false.
func (c counted) each(after, until time.Time, f func(at time.Time, n int64) bool) {
	if c.at.After(after) {
		after = c.at
		if c.at.Before(until) && (c.plan == nil || c.caught > 0) && !f(c.at, max(c.caught, 1)) {
			return
		}
	}
	if c.plan == nil {
		return
	}
	left := c.allowed
	for t, ok := c.plan.Next(after); ok && t.Before(until) && left.take(t); t, ok = c.plan.Next(t) {
		if !f(t, 1) {
			return
		}
	}
}

// free reports whether the job's fires at an instant do not depend on earlier fires.
func (c counted) free() bool { return c.plan != nil && c.at.IsZero() && !c.allowed.bounded }

// in counts the instants of a free job in a minute, after one and before another.
func (c counted) in(minute, after, until time.Time) (n int64) {
	if before := minute.Add(-time.Nanosecond); before.After(after) {
		after = before
	}
	if end := minute.Add(time.Minute); end.Before(until) {
		until = end
	}
	for t, ok := c.plan.Next(after); ok && t.Before(until); t, ok = c.plan.Next(t) {
		n++
	}
	return n
}

// Forecast counts what the tenant's schedules will fire within a time from now, given their bounds, calendars,
// numbers of runs and pauses. It is not yet known what the overlap policy will skip.
func (s *Views) Forecast(ctx context.Context, p tenant.Principal, ahead time.Duration) (Forecast, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Forecast{}, err
	}
	return s.foretell(ctx, asked{p.Tenant, ahead, false}, func(ctx context.Context, hurry hurry) (Forecast, error) {
		out, _, err := s.forecast(ctx, p.Tenant, ahead, hurry)
		return out, err
	})
}

// load holds the counts of a forecast.
type load struct {
	from, now, until time.Time
	counts           []int64 // of each minute from from on
	average          int64
	jobs             []counted
}

func (s *Views) forecast(ctx context.Context, of tenant.ID, ahead time.Duration, hurry hurry) (out Forecast, l load, err error) {
	ps := s.jobs.plans(of)
	from := ps.at.Truncate(time.Minute)
	until := ps.at.Add(ahead)
	jobs, err := s.countable(ctx, ps, hurry, &out)
	if err != nil {
		return out, l, err
	}
	counts := make([]int64, int(until.Sub(from)/time.Minute)+1)
	total, asked := int64(0), int64(alwaysInstants)
	for i, c := range jobs {
		c.each(ps.at, until, func(t time.Time, n int64) bool {
			counts[t.Sub(from)/time.Minute] += n
			total += n
			return total < maxInstants
		})
		full := total >= maxInstants
		if total > asked && i >= alwaysWhole && i < len(jobs)-1 {
			full, asked = full || hurry(0.7), total+alwaysInstants/10
		}
		if full {
			out.Truncated = true
			jobs = jobs[:i+1]
			break
		}
		if ctx.Err() != nil {
			return out, l, ctx.Err()
		}
	}
	l = load{from, ps.at, until, counts, total / int64(len(counts)), jobs}
	out.Minutes = l.minutes()
	out.Herds = herds(out.Minutes, l.average)
	gather(out.Herds, jobs, ps.at, until)
	return out, l, nil
}

// minutes are those with any.
func (l *load) minutes() (out []Minute) {
	for i, n := range l.counts {
		if n > 0 {
			out = append(out, Minute{l.from.Add(time.Duration(i) * time.Minute), n})
		}
	}
	return out
}

// countable reads the jobs that will fire.
func (s *Views) countable(ctx context.Context, ps *plans, hurry hurry, out *Forecast) ([]counted, error) {
	var jobs []counted
	looked := 0
	add := func(j job.Job) (bool, error) {
		if looked++; len(jobs) == maxForecast || looked > alwaysJobs && looked%200 == 0 && hurry(0.4) {
			out.Truncated = true
			return false, nil
		}
		c, ok, err := s.toCount(ctx, ps, j, out)
		if ok {
			jobs = append(jobs, c)
		}
		return err == nil, err
	}
	for _, state := range []job.State{job.Active, job.Paused} {
		if err := s.jobs.recurring(ctx, ps.tenant, state, add); err != nil {
			return nil, err
		}
		if out.Truncated {
			break
		}
		if _, err := s.jobs.each(ctx, engine.JobFilter{Tenant: ps.tenant, ScheduleType: job.OneTime, State: state}, add); err != nil {
			return nil, err
		}
	}
	return jobs, nil
}

// toCount returns a job in the form that a forecast counts; false if it will not or cannot fire.
func (s *Views) toCount(ctx context.Context, ps *plans, j job.Job, out *Forecast) (c counted, ok bool, err error) {
	if j.State == job.Paused && j.PausedTill.IsZero() {
		return c, false, nil
	}
	c = counted{id: j.ID, name: j.Name, at: j.PausedTill, plans: j.Schedule}
	if !j.Schedule.Type.Recurs() {
		if at := j.Schedule.At; at.After(c.at) {
			c.at = at
		}
		return c, true, nil
	}
	plan, err := ps.plan(ctx, j)
	if err != nil {
		return c, false, nil
	}
	c.plan = &plan
	var known bool
	if c.allowed, known, err = ps.budget(ctx, j); err != nil {
		return c, false, err
	}
	out.Truncated = out.Truncated || !known
	if j.State == job.Paused {
		c.catchUp(j)
	}
	return c, true, nil
}

// catchUp counts what is caught up when the job's pause ends.
func (c *counted) catchUp(j job.Job) {
	const most = 20 // of many thousand instants each
	terms := schedule.Terms{Policy: j.CatchUp, Limit: j.CatchUpLimit, Runs: -1, Paused: j.PausedAt, Resumed: c.at}
	if terms.Policy == "" {
		terms.Policy = job.CatchUpLatest
	}
	if terms.Limit == 0 {
		terms.Limit = job.DefaultCatchUpLimit
	}
	if c.allowed.bounded {
		terms.Runs = max(0, c.allowed.left)
	}
	at := j.NextRunAt
	for n := 0; !at.IsZero() && !at.After(c.at) && n < most; n++ {
		if !c.plan.At(at) {
			at, _ = c.plan.Next(at)
			continue
		}
		o := schedule.Owe(*c.plan, at, c.at, terms)
		c.caught += int64(len(o.Fires))
		c.allowed.left -= int64(len(o.Fires))
		at = o.Next
	}
}

// herds returns the fullest minutes, if they are much fuller than others.
func herds(minutes []Minute, average int64) []Herd {
	least := max(smallestHerd, timesTheAverage*average)
	var out []Herd
	for _, m := range minutes {
		if m.Count >= least {
			out = append(out, Herd{Minute: m})
		}
	}
	slices.SortStableFunc(out, func(a, b Herd) int { return cmp.Compare(b.Count, a.Count) })
	return out[:min(len(out), maxHerds)]
}

// gather finds the jobs with the most instants in each herd.
func gather(hs []Herd, jobs []counted, now, until time.Time) {
	if len(hs) == 0 {
		return
	}
	place := map[int64]int{}
	for i, h := range hs {
		place[h.At.Unix()] = i
	}
	counts := make([]int64, len(hs))
	for _, c := range jobs {
		clear(counts)
		if c.free() {
			for i, h := range hs {
				counts[i] = c.in(h.At, now, until)
			}
		} else {
			c.each(now, until, func(t time.Time, n int64) bool {
				if i, ok := place[t.Unix()/60*60]; ok {
					counts[i] += n
				}
				return true
			})
		}
		for i, n := range counts {
			if n > 0 {
				hs[i].add(HerdJob{ID: c.id, Name: c.name, Count: n})
			}
		}
	}
}

// add keeps a job if it is among those with the most.
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
