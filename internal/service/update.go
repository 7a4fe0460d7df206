package service

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
	"github.com/carillon-jobs/carillon/internal/secret"
)

// Revised is the error that a job has another revision than the request expects.
type Revised struct{ Want, Is int }

func (r *Revised) Error() string {
	return fmt.Sprintf("the job has revision %d, not %d", r.Is, r.Want)
}

// UpdateJob changes a job's definition. change receives the current job and returns its new definition; it is called
// again if another request came in between, unless a revision (not 0) was given: then the error is *Revised.
func (s *Jobs) UpdateJob(ctx context.Context, p tenant.Principal, ref engine.Ref, revision int, change func(job.Job) (job.Definition, error)) (Report, error) {
	return s.change(ctx, p, ref, "job.update", revision, func(ps *plans, j job.Job) (engine.Update, error) {
		d, err := change(j)
		if err != nil {
			return engine.Update{}, err
		}
		q, err := s.Quota(ctx, p)
		if err == nil {
			err = fits(q, &d, &j.Definition)
		}
		if err != nil {
			return engine.Update{}, err
		}
		u, err := s.revise(ctx, ps, j, d)
		if err != nil {
			return u, err
		}
		if j.State == job.Completed && u.Job.State == job.Active {
			if u.Most = max(q.ActiveJobs, 0); q.ActiveJobs == 0 {
				return u, s.crowded(ctx, p.Tenant, 1, 0)
			}
		}
		return u, s.metered(ctx, q, ps, &u.Job.Definition, &j.Definition)
	})
}

// change updates a job with the result of decide.
func (s *Jobs) change(ctx context.Context, p tenant.Principal, ref engine.Ref, action string, revision int, decide func(*plans, job.Job) (engine.Update, error)) (Report, error) {
	if err := allow(p, tenant.Write); err != nil {
		return Report{}, err
	}
	leave, err := s.enter()
	if err != nil {
		return Report{}, err
	}
	defer leave()
	for range maxRounds {
		j, err := s.find(ctx, p.Tenant, ref)
		if err != nil {
			return Report{}, err
		}
		if j.State == job.Deleted {
			return Report{}, engine.ErrNotFound
		}
		if revision != 0 && j.Revision != revision {
			return Report{}, &Revised{Want: revision, Is: j.Revision}
		}
		ps := s.plans(p.Tenant)
		u, err := decide(ps, j)
		if errors.Is(err, errUnchanged) {
			return s.report(ctx, p, j)
		}
		if err != nil {
			return Report{}, err
		}
		u.Revision, u.AsOf, u.Job.UpdatedAt = j.Revision, ps.at, ps.at
		u.Retained = u.Job.Retention != j.Retention
		diff := differing(described(&j), described(&u.Job))
		if len(ps.dropped) > 0 {
			diff.After["dropped_credentials"] = fmt.Sprintf("%s: %s", strings.Join(ps.dropped, ", "), ps.why)
		}
		u.Entry = s.audited(p, action, j.ID.String(), diff)
		j, err = s.store.UpdateJob(ctx, p.Tenant, u)
		if isConflict(err) || (u.Workflow != nil || u.Parents != nil) && errors.Is(err, engine.ErrNotFound) {
			continue // look at it again
		}
		if errors.Is(err, engine.ErrFull) {
			if err := s.crowded(ctx, p.Tenant, 1, u.Most); err != nil {
				return Report{}, err
			}
			continue
		}
		var spent *engine.Spent
		if errors.As(err, &spent) { // only the store knows which of its runs are staged and taken back
			return Report{}, job.Invalids{{Field: "schedule.max_runs", Value: job.Show(u.Job.Schedule.MaxRuns), Want: fmt.Sprintf("more than %d, the number of times it has fired", spent.Runs)}}
		}
		if err != nil {
			return Report{}, fmt.Errorf("change a job: %w", err)
		}
		s.cfg.Replan()
		if u.Was != nil {
			s.cfg.Refresh()
		}
		if u.Retained {
			s.quotas.forget()
		}
		out, err := s.report(ctx, p, j)
		out.Dropped = ps.dropped
		return out, err
	}
	return Report{}, fmt.Errorf("change a job: others changed it %d times: %w", maxRounds, engine.ErrConflict)
}

// errUnchanged means that a job already is as requested.
var errUnchanged = errors.New("unchanged")

// revise returns the update that gives a job another definition. If its schedule differs, it is planned again; if its
// destination differs, hidden credentials for the old one are removed.
func (s *Jobs) revise(ctx context.Context, ps *plans, j job.Job, d job.Definition) (u engine.Update, err error) {
	d.Schedule = stored(d.Schedule)
	d.DependsOn, d.DependsIf = j.DependsOn, j.DependsIf // which SetDependencies changes, and nothing else
	d, ps.dropped, ps.why = secret.Keep(d, j.Definition)
	if d.Key != j.Key {
		return u, job.Invalids{{Field: "key", Value: job.Show(d.Key), Want: "the key it has, or nothing: a job's key cannot change"}}
	}
	if reflect.DeepEqual(d, j.Definition) {
		return u, errUnchanged
	}
	u.Job, u.Replan = j, d.Schedule != j.Schedule
	u.Job.Definition = d
	key, v := check(&d)
	if len(v) == 0 && !reflect.DeepEqual(d.Target, j.Target) {
		if v = s.off(&d.Target); v == nil {
			if v, err = s.barred(ctx, ps.tenant, &d.Target); err != nil {
				return u, err
			}
		}
		if v == nil {
			if v, err = s.runnable(ctx, ps.tenant, &d.Target); err != nil {
				return u, err
			}
		}
	}
	if len(v) == 0 {
		if v, err = s.checkUpdate(ctx, ps, d, j.Definition, u.Replan); err != nil {
			return u, err
		}
	}
	if len(v) > 0 {
		return u, v
	}
	if u.Secrets, u.Unused, err = s.cfg.Secrets.Hide(&u.Job, &j.Target, ps.at); err != nil {
		return u, err
	}
	u.Job.Group = u.Job.GroupOf(key)
	if d.ConcurrencyKey == j.ConcurrencyKey && (d.MaxConcurrent != j.MaxConcurrent || d.Rate != j.Rate) && (j.MaxConcurrent > 0 || !j.Rate.IsZero()) {
		u.Was = &job.Group{Max: j.MaxConcurrent, Rate: j.Rate}
	}
	if !u.Replan {
		return u, nil
	}
	from := ps.at
	if owed := j.NextRunAt; d.Schedule.Type.Recurs() && !owed.IsZero() && !owed.After(from) {
		from = owed.Add(-time.Microsecond) // what was due and has not fired is owed by the current schedule
	}
	if u.Job.NextRunAt, err = ps.next(ctx, &u.Job, from); err != nil {
		return u, err
	}
	if j.State == job.Completed {
		u.Job.State = job.Active
	}
	return u, nil
}

// PauseJob keeps a job from firing, until an instant if one is given, and holds its waiting scheduled executions.
// Pausing it again changes reason and end.
func (s *Jobs) PauseJob(ctx context.Context, p tenant.Principal, ref engine.Ref, why string, until time.Time) (Report, error) {
	until = until.UTC().Truncate(time.Microsecond)
	return s.change(ctx, p, ref, "job.pause", 0, func(ps *plans, j job.Job) (u engine.Update, err error) {
		var v job.Invalids
		if !job.ValidNote(why) {
			v.Add("reason", why, job.WantNote)
		}
		if !until.IsZero() && !until.After(ps.at) {
			v.Add("until", until.Format(time.RFC3339), "an instant in the future, or null for until it is resumed")
		}
		if len(v) > 0 {
			return u, v
		}
		if j.State == job.Completed {
			return u, &NotDone{"pause", "The job is COMPLETED: it does not fire any more, so there is nothing to pause."}
		}
		if j.State == job.Paused && j.PauseNote == why && j.PausedTill.Equal(until) {
			return u, errUnchanged
		}
		u.Job = j
		u.Job.State, u.Job.PauseNote, u.Job.PausedTill = job.Paused, why, until
		if unjudged := !j.NextRunAt.IsZero() && j.NextRunAt.Before(j.ResumedAt); j.State != job.Paused && !unjudged {
			u.Job.PausedAt = ps.at // instants from an earlier pause, not yet judged, belong to this one
		}
		return u, nil
	})
}

// ResumeJob lets a job fire again. The catch-up policy decides what to do about missed runs.
func (s *Jobs) ResumeJob(ctx context.Context, p tenant.Principal, ref engine.Ref) (Report, error) {
	return s.change(ctx, p, ref, "job.resume", 0, func(ps *plans, j job.Job) (u engine.Update, err error) {
		switch j.State {
		case job.Active:
			return u, errUnchanged
		case job.Completed:
			return u, &NotDone{"resume", "The job is COMPLETED: it does not fire any more. Change its schedule, or trigger it."}
		}
		return resumed(j, ps.at), nil
	})
}

// resumed returns the update that ends a pause; an expired pause ended at its expiry, even if that is noticed later.
func resumed(j job.Job, at time.Time) (u engine.Update) {
	u.Job = j
	u.Job.ResumedAt = at
	if till := j.PausedTill; !till.IsZero() && till.Before(at) {
		u.Job.ResumedAt = till
	}
	u.Job.State, u.Job.PauseNote, u.Job.PausedTill = job.Active, "", time.Time{}
	return u
}

// AutoResume resumes a job whose pause has expired, unless it was changed meanwhile.
func (s *Jobs) AutoResume(ctx context.Context, j job.Job) error {
	p := tenant.Principal{Tenant: j.Tenant, Role: tenant.System, Name: "end of a pause", Internal: true}
	_, err := s.change(ctx, p, engine.Ref{ID: j.ID}, "job.resume", j.Revision, func(ps *plans, j job.Job) (u engine.Update, err error) {
		if j.State != job.Paused {
			return u, errUnchanged
		}
		return resumed(j, ps.at), nil
	})
	var revised *Revised
	if errors.As(err, &revised) || errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}
