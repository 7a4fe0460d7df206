package service

import (
	"context"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// budget lets through as many instants of a job as its number of runs leaves. Staged executions have been counted
// already, but are still to come.
type budget struct {
	bounded bool
	left    int64
	staged  time.Time // what is before it is
}

// budget returns the remaining runs of a job; known is false if too many were looked up already, and nothing counts
// as prepared.
func (p *plans) budget(ctx context.Context, j job.Job) (b budget, known bool, err error) {
	b = budget{bounded: j.Schedule.MaxRuns > 0, left: j.Schedule.MaxRuns - j.Runs, staged: j.NextRunAt}
	if !spent(j) || j.State != job.Active {
		return b, true, nil
	}
	_, last, known, err := p.staged(ctx, j)
	if !last.IsZero() {
		b.staged = last.Add(1)
	}
	return b, known, err
}

// take reports whether an instant fires; they come in order.
func (b *budget) take(at time.Time) bool {
	if !b.bounded || at.Before(b.staged) {
		return true
	}
	b.left--
	return b.left >= 0
}

// firing returns the instants up to the last that fires.
func (b budget) firing(all []schedule.Instant) []schedule.Instant {
	for i, x := range all {
		if x.Flag != schedule.Excluded && !b.take(x.UTC) {
			return all[:i]
		}
	}
	return all
}

// spent reports whether all runs of a recurring job are, or were, staged: it has no other instant.
func spent(j job.Job) bool {
	return j.Schedule.Type.Recurs() && j.Schedule.MaxRuns > 0 && j.NextRunAt.IsZero()
}

// maxLooks limits for how many jobs one request looks up staged executions.
const maxLooks = 1000

// staged returns the first and the last future instant of a job with a waiting execution; zero: there is none.
func (p *plans) staged(ctx context.Context, j job.Job) (first, last time.Time, known bool, err error) {
	if p.looks++; p.looks > maxLooks {
		return first, last, false, nil
	}
	f := engine.ExecutionFilter{Tenant: j.Tenant, Job: j.ID, From: p.at.Add(time.Microsecond), Until: p.at.Add(p.s.cfg.LookAhead + time.Minute)}
	found, err := p.s.store.FindExecutions(ctx, f, engine.Page{Limit: 1000, Uncounted: true})
	for _, e := range found.Executions { // the latest come first
		if e.Trigger != job.BySchedule || e.Status.Final() {
			continue
		}
		if first = e.ScheduledAt; last.IsZero() {
			last = first
		}
	}
	return first, last, true, err
}
