package service

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// plans compiles the schedules of a tenant's jobs for one request, and reads each calendar once.
type plans struct {
	s         *Jobs
	tenant    tenant.ID
	at        time.Time // the instant of the request
	calendars map[string]*schedule.Calendar
	secrets   map[string]bool // names that were looked up, and whether they exist
	looks     int             // how often staged executions were looked up
	dropped   []string        // hidden credentials that a change removes, by field
	why       string          // it removes them
	stored    bool            // it is for a rule that was checked when it was stored: a URL that may no longer be called is refused when it is called
	id        job.ID          // of the single created job; zero: a new one
	flow      *madeFlow       // what is stored with it; nil: it is no workflow
	keys      []string        // the values of the concurrency keys of the checked definitions, in their order
}

func (s *Jobs) plans(t tenant.ID) *plans {
	return &plans{s: s, tenant: t, at: s.now()}
}

// calendar returns the calendar with a name; nil for none. engine.ErrNotFound if there is none.
func (p *plans) calendar(ctx context.Context, name string) (*schedule.Calendar, error) {
	if name == "" {
		return nil, nil
	}
	if cal, ok := p.calendars[name]; ok {
		return cal, nil
	}
	kept, err := p.s.store.Calendar(ctx, p.tenant, name)
	if err != nil {
		return nil, err
	}
	cal, err := p.s.cfg.Schedules.ReadCalendar(kept.Spec)
	if err != nil {
		return nil, err
	}
	if p.calendars == nil {
		p.calendars = map[string]*schedule.Calendar{}
	}
	p.calendars[name] = cal
	return cal, nil
}

// plan compiles the schedule of a recurring job.
func (p *plans) plan(ctx context.Context, j job.Job) (schedule.Plan, error) {
	cal, err := p.calendar(ctx, j.Schedule.Calendar)
	if err != nil {
		return schedule.Plan{}, fmt.Errorf("calendar %s: %w", j.Schedule.Calendar, err)
	}
	return p.s.cfg.Schedules.Plan(j.Schedule, j.CreatedAt, cal)
}

// next returns the instant at which a job planned at an instant first fires, or is looked at again: see
// schedule.Plan.Cursor.
func (p *plans) next(ctx context.Context, j *job.Job, at time.Time) (time.Time, error) {
	switch j.Schedule.Type {
	case job.Immediate:
		return at, nil
	case job.OneTime:
		return j.Schedule.At, nil
	case job.Manual:
		return time.Time{}, nil
	}
	plan, err := p.plan(ctx, *j)
	if err != nil {
		return time.Time{}, err
	}
	t, ok := plan.Cursor(at, p.at)
	if !ok {
		return t, plan.Over(at)
	}
	return t, nil
}

// stored returns a schedule with its instants as stores keep them.
func stored(s job.Schedule) job.Schedule {
	s.At, s.Start, s.End = s.At.UTC().Truncate(time.Microsecond), s.Start.UTC().Truncate(time.Microsecond), s.End.UTC().Truncate(time.Microsecond)
	return s
}

// Preview describes a schedule and its next instants.
type Preview struct {
	Description string
	Warnings    []schedule.Warning
	Next        []schedule.Instant
}

// Preview returns the next n instants of a recurring schedule after an instant.
func (s *Jobs) Preview(ctx context.Context, p tenant.Principal, x job.Schedule, from time.Time, n int) (Preview, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Preview{}, err
	}
	if from.IsZero() {
		from = s.now()
	}
	cal, err := s.plans(p.Tenant).calendar(ctx, x.Calendar)
	v := x.Check()
	switch {
	case errors.Is(err, engine.ErrNotFound):
		v.Add("schedule.calendar", x.Calendar, wantCalendar)
	case err != nil:
		return Preview{}, err
	}
	if len(v) == 0 {
		v = s.cfg.Schedules.Check(x, from, cal)
	}
	if len(v) > 0 {
		return Preview{}, v
	}
	plan, err := s.cfg.Schedules.Plan(x, from, cal)
	if err != nil {
		return Preview{}, err
	}
	return shown(plan, from, n)
}

// NextOf returns the next n instants of a job.
func (s *Jobs) NextOf(ctx context.Context, p tenant.Principal, ref engine.Ref, n int) (Preview, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Preview{}, err
	}
	j, err := s.find(ctx, p.Tenant, ref)
	if err != nil {
		return Preview{}, err
	}
	ps := s.plans(p.Tenant)
	if !j.Schedule.Type.Recurs() {
		return single(s.planned(ctx, j, ps)), nil
	}
	plan, err := ps.plan(ctx, j)
	if err != nil {
		return Preview{}, err
	}
	out, err := shown(plan, ps.at, n)
	if j.State == job.Completed || j.State == job.Deleted {
		out.Next = nil
	}
	left, _, failed := ps.budget(ctx, j)
	if failed != nil {
		return Preview{}, failed
	}
	out.Next = left.firing(out.Next)
	if j.State == job.Paused {
		out.Warnings = append(out.Warnings, paused(j))
	}
	return out, err
}

// paused warns about the instants of a paused job.
func paused(j job.Job) schedule.Warning {
	w := schedule.Warning{Code: "paused", Message: "the job is paused: nothing fires until it is resumed"}
	if till := j.PausedTill; !till.IsZero() {
		w.Message = "the job is paused: nothing fires before " + till.UTC().Format(time.RFC3339)
	}
	return w
}

func shown(plan schedule.Plan, from time.Time, n int) (Preview, error) {
	begins := from
	if plan.Start.After(begins) {
		begins = plan.Start
	}
	out := Preview{Warnings: plan.Lint(begins)}
	if plan.Cron != nil {
		out.Description = plan.Cron.Describe()
	} else {
		out.Description = schedule.DescribeEvery(plan.Every)
	}
	var err error
	if out.Next, err = plan.Preview(from, n); err != nil {
		var bad *schedule.Error
		if errors.As(err, &bad) {
			return out, job.Invalids{{Field: bad.Field, Value: bad.Value, Want: bad.Want}}
		}
	}
	return out, err
}

// single returns the preview of a job that fires once, or only when it is triggered.
func single(j job.Job) Preview {
	switch j.Schedule.Type {
	case job.Immediate:
		return Preview{Description: "Once, when it was created."}
	case job.Manual:
		return Preview{Description: "Only when it is triggered."}
	}
	out := Preview{Description: "Once, at " + j.Schedule.At.UTC().Format(time.RFC3339) + "."}
	if !j.NextRunAt.IsZero() {
		out.Next = []schedule.Instant{{UTC: j.NextRunAt, Local: j.NextRunAt.UTC()}}
	}
	return out
}
