package service

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Failures groups failures that differ only in numbers and names.
type Failures struct {
	From, To time.Time
	Failed   int64
	Retried  int64
	Partial  bool // there were more different ones than are distinguished, or were examined
	Groups   []FailureGroup
}

// FailureGroup is one group of failures.
type FailureGroup struct {
	Fingerprint job.Fingerprint
	Type        job.ErrorType
	Message     string // with placeholders
	Sample      string
	Failed      int64 // executions, or dead letters
	Retried     int64
	First, Last time.Time
	Execution   job.ExecutionID // the last one that failed for good, or the last one if none did
	Job         job.ID          // of that
	Jobs        []FailingJob    // those with the most
	JobsTotal   int
	Reasons     map[job.DeadReason]int64 // of dead letters

	by map[job.ID]*FailingJob
}

// FailingJob is a job's share of a group of failures.
type FailingJob struct {
	ID      job.ID
	Name    string
	Failed  int64
	Retried int64
}

const (
	failuresLooked = 10_000 // rows: a failure of a job in an hour
	deadLooked     = 2000   // dead letters
	groupJobs      = 5
)

// groups collects failures.
type groups map[job.Fingerprint]*FailureGroup

func (gs groups) add(f engine.Failure) *FailureGroup {
	g := gs[f.Fingerprint]
	if g == nil {
		g = &FailureGroup{Fingerprint: f.Fingerprint, First: f.First, by: map[job.ID]*FailingJob{}}
		gs[f.Fingerprint] = g
	}
	if g.Message == "" && g.Type == "" {
		g.Type, g.Message, g.Sample = f.Type, f.Message, f.Sample
	}
	if final, before := f.Failed > 0, g.Failed > 0; final && !before || final == before && !f.Last.Before(g.Last) {
		g.Execution, g.Job = f.Execution, f.Job
	}
	g.Failed, g.Retried = g.Failed+f.Failed, g.Retried+f.Retried
	if f.First.Before(g.First) {
		g.First = f.First
	}
	if f.Last.After(g.Last) {
		g.Last = f.Last
	}
	if !f.Job.IsZero() {
		j := g.by[f.Job]
		if j == nil {
			j = &FailingJob{ID: f.Job}
			g.by[f.Job] = j
		}
		j.Failed, j.Retried = j.Failed+f.Failed, j.Retried+f.Retried
	}
	return g
}

// ranked returns the largest groups, with the names of their jobs.
func (s *Views) ranked(ctx context.Context, t tenant.ID, gs groups, limit int) ([]FailureGroup, error) {
	all := make([]FailureGroup, 0, len(gs))
	for _, g := range gs {
		all = append(all, *g)
	}
	slices.SortFunc(all, func(a, b FailureGroup) int {
		return cmp.Or(cmp.Compare(b.Failed, a.Failed), b.Last.Compare(a.Last), slices.Compare(a.Fingerprint[:], b.Fingerprint[:]))
	})
	all = all[:min(limit, len(all))]
	var ids []job.ID
	for i := range all {
		g := &all[i]
		for _, j := range g.by {
			g.Jobs = append(g.Jobs, *j)
		}
		slices.SortFunc(g.Jobs, func(a, b FailingJob) int {
			return cmp.Or(cmp.Compare(b.Failed, a.Failed), cmp.Compare(b.Retried, a.Retried), slices.Compare(a.ID[:], b.ID[:]))
		})
		g.JobsTotal = len(g.Jobs)
		g.Jobs = g.Jobs[:min(groupJobs, len(g.Jobs))]
		for _, j := range g.Jobs {
			ids = append(ids, j.ID)
		}
	}
	names, err := s.store.Names(ctx, t, ids)
	for i := range all {
		for k := range all[i].Jobs {
			all[i].Jobs[k].Name = names[all[i].Jobs[k].ID]
		}
	}
	return all, err
}

// Failures returns recent failures of the tenant's executions, or of one of its jobs, in groups.
func (s *Views) Failures(ctx context.Context, p tenant.Principal, of *engine.Ref, back time.Duration, limit int) (out Failures, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	out.To = s.now()
	out.From = out.To.Add(-back).Truncate(time.Hour)
	f := engine.FailureFilter{Tenant: p.Tenant, From: out.From}
	if of != nil {
		j, err := s.find(ctx, p.Tenant, *of)
		if err != nil {
			return out, err
		}
		f.Job = j.ID
	}
	fs, err := s.store.Failures(ctx, f, failuresLooked)
	if err != nil {
		return out, err
	}
	out.Partial = len(fs) == failuresLooked
	gs := groups{}
	for _, x := range fs {
		if x.Fingerprint == (job.Fingerprint{}) {
			if out.Partial = true; of != nil {
				continue // their job is unknown
			}
		}
		gs.add(x)
		out.Failed, out.Retried = out.Failed+x.Failed, out.Retried+x.Retried
	}
	out.Groups, err = s.ranked(ctx, p.Tenant, gs, limit)
	return out, err
}

// DeadGroups groups dead letters by error.
type DeadGroups struct {
	Total   engine.Total
	Looked  int
	Partial bool
	Groups  []FailureGroup
}

// DeadGroups returns the errors of the latest dead letters, in groups.
func (s *Views) DeadGroups(ctx context.Context, p tenant.Principal, f engine.DeadLetterFilter, limit int) (out DeadGroups, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return out, err
	}
	if err := s.deadLetters(ctx, p); err != nil {
		return out, err
	}
	f.Tenant = p.Tenant
	since, err := s.executions.since(ctx, p)
	if err != nil {
		return out, err
	}
	if f.From.Before(since) {
		f.From = since
	}
	if f.OwnAsOf, err = s.executions.ownAsOf(ctx, p, f.Job); err != nil {
		return out, err
	}
	page, err := s.store.DeadLetters(ctx, f, engine.Page{Limit: 1, Bounded: true})
	if err != nil {
		return out, err
	}
	ds, err := s.store.DeadErrors(ctx, f, engine.Page{Limit: deadLooked})
	if err != nil {
		return out, err
	}
	out.Total, out.Looked = page.Total, len(ds.Rows)
	out.Partial = ds.Next != ""
	gs := groups{}
	for _, d := range ds.Rows {
		print, normal := d.Error.Fingerprint()
		x := engine.Failure{Fingerprint: print, Message: normal, Job: d.Job, Execution: d.Execution, Failed: 1, First: d.At, Last: d.At}
		if d.Error != nil {
			x.Type, x.Sample = d.Error.Type, d.Error.Message
		}
		g := gs.add(x)
		if g.Reasons == nil {
			g.Reasons = map[job.DeadReason]int64{}
		}
		g.Reasons[d.Reason]++
	}
	out.Groups, err = s.ranked(ctx, p.Tenant, gs, limit)
	return out, err
}

// ignore returns err, unless it does not matter.
func ignore(err, but error) error {
	if errors.Is(err, but) {
		return nil
	}
	return err
}
