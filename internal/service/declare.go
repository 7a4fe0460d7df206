package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
)

const (
	declareAhead = 24 * time.Hour // for which fires are compared
	maxCompared  = 2000           // fires of a job on either side
)

// Declared describes what would change about a job if it were as declared.
type Declared struct {
	Was     job.Job // as it is
	Exists  bool    // there is one; else Was is zero
	Want    job.Job // as it would be
	Appear  Fires
	Vanish  Fires
	Dropped []string     // hidden credentials that the change would remove
	Invalid job.Invalids // it cannot be so
	On      Dependencies // as they are
}

// Fires lists instants at which a job fires.
type Fires struct {
	At  []time.Time
	Cut bool // there are more, which were not examined
}

// Declare returns what would change about the job with a key if it had the definition that want derives from the
// current one (nil: none), and were paused, running, or unchanged (nil). It stores nothing.
func (s *Jobs) Declare(ctx context.Context, p tenant.Principal, key string, paused *bool, want func(was *job.Job) (job.Definition, error)) (d Declared, err error) {
	if err := allow(p, tenant.Read); err != nil {
		return d, err
	}
	ps := s.plans(p.Tenant)
	was, err := s.store.Job(ctx, p.Tenant, engine.Ref{Key: key})
	switch {
	case errors.Is(err, engine.ErrNotFound):
	case err != nil:
		return d, err
	case was.State != job.Deleted:
		d.Was, d.Exists = was, true
		if d.On, err = s.parents(ctx, was); err != nil {
			return d, err
		}
	}
	d.Want = job.Job{Tenant: p.Tenant, State: job.Active, CreatedAt: ps.at}
	var given *job.Job
	if d.Exists {
		d.Want, given = d.Was, &d.Was
	}
	def, err := want(given)
	if err == nil {
		if d.Exists {
			def, d.Dropped, _ = secret.Keep(def, d.Was.Definition)
		}
		def.Schedule = stored(def.Schedule)
		d.Want.Definition = def
		err = s.affordable(ctx, p, ps, d)
	}
	if errors.As(err, &d.Invalid) {
		return d, nil
	}
	if err != nil {
		return d, err
	}
	d.Want.State = wanted(d, paused)
	return d, s.compare(ctx, ps, &d)
}

// declarable returns what prevents a declared job.
func (s *Jobs) declarable(ctx context.Context, ps *plans, d Declared) error {
	if !d.Exists {
		v, err := s.check(ctx, ps, &d.Want.Definition)
		if err == nil && len(v) > 0 {
			err = v
		}
		return err
	}
	if _, err := s.revise(ctx, ps, d.Was, d.Want.Definition); err != nil && !errors.Is(err, errUnchanged) {
		return err
	}
	return nil
}

// affordable returns what prevents a declared job, including the tenant's quota.
func (s *Jobs) affordable(ctx context.Context, p tenant.Principal, ps *plans, d Declared) error {
	q, err := s.Quota(ctx, p)
	if err != nil {
		return err
	}
	var was *job.Definition
	if d.Exists {
		was = &d.Was.Definition
	}
	if err = fits(q, &d.Want.Definition, was); err == nil {
		if err = s.declarable(ctx, ps, d); err == nil {
			err = s.metered(ctx, q, ps, &d.Want.Definition, was)
		}
	}
	var over *OverQuota
	if errors.As(err, &over) && over.Field != "" {
		return job.Invalids{{Field: over.Field, Value: fmt.Sprint(over.Current), Want: "what the quota allows. " + over.What}}
	}
	return err
}

// wanted returns the state that a job would have.
func wanted(d Declared, paused *bool) job.State {
	state := d.Want.State
	if state == job.Completed && d.Want.Schedule != d.Was.Schedule {
		state = job.Active // it is planned again
	}
	switch {
	case paused == nil || state == job.Completed:
	case *paused:
		state = job.Paused
	default:
		state = job.Active
	}
	return state
}

// compare finds the fires that would be added, and those that would be removed.
func (s *Jobs) compare(ctx context.Context, ps *plans, d *Declared) error {
	var before, after Fires
	var err error
	if d.Exists {
		if before, err = ps.fires(ctx, d.Was, d.Was.Runs); err != nil && !errors.Is(err, engine.ErrNotFound) { // its calendar is gone
			return err
		}
	}
	if after, err = ps.fires(ctx, d.Want, d.Was.Runs); err != nil {
		return err
	}
	if d.Exists && d.Want.Schedule.Type.OneOff() && d.Want.Schedule == d.Was.Schedule {
		after = before // it fires once, and has, or not
	}
	until := ps.at.Add(declareAhead)
	for _, f := range []Fires{before, after} { // beyond what was examined on one side there is nothing to compare
		if f.Cut && f.At[len(f.At)-1].Before(until) {
			until = f.At[len(f.At)-1]
		}
	}
	cut := before.Cut || after.Cut
	d.Vanish, d.Appear = Fires{without(before.At, after.At, until), cut}, Fires{without(after.At, before.At, until), cut}
	return nil
}

// without returns the ascending instants up to one that are not among others.
func without(of, others []time.Time, until time.Time) (out []time.Time) {
	for _, t := range of {
		for len(others) > 0 && others[0].Before(t) {
			others = others[1:]
		}
		if !t.After(until) && (len(others) == 0 || !others[0].Equal(t)) {
			out = append(out, t)
		}
	}
	return out
}

// fires returns the instants of the coming day at which a job fires, given how often it has fired.
func (p *plans) fires(ctx context.Context, j job.Job, runs int64) (f Fires, err error) {
	until := p.at.Add(declareAhead)
	if j.State != job.Active {
		return f, nil
	}
	switch j.Schedule.Type {
	case job.Immediate:
		if j.Revision == 0 { // it is new
			f.At = []time.Time{p.at}
		}
		return f, nil
	case job.Manual:
		return f, nil
	case job.OneTime:
		if at := j.Schedule.At; at.After(p.at) && !at.After(until) {
			f.At = []time.Time{at}
		}
		return f, nil
	}
	plan, err := p.plan(ctx, j)
	if err != nil {
		return f, err
	}
	for at := p.at; ; {
		t, ok := plan.Next(at)
		if !ok || t.After(until) || j.Schedule.MaxRuns > 0 && runs+int64(len(f.At)) >= j.Schedule.MaxRuns {
			return f, nil
		}
		if len(f.At) == maxCompared {
			f.Cut = true
			return f, nil
		}
		f.At, at = append(f.At, t), t
	}
}
