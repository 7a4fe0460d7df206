package service

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/engine"
)

// Calendar is a named list of times that schedules leave out.
type Calendar struct {
	Name      string
	Spec      schedule.CalendarSpec
	UpdatedAt time.Time
}

func readCalendar(c engine.Calendar) (Calendar, error) {
	out := Calendar{Name: c.Name, UpdatedAt: c.UpdatedAt}
	if err := json.Unmarshal(c.Spec, &out.Spec); err != nil {
		return out, fmt.Errorf("read the calendar %s: %w", c.Name, err)
	}
	return out, nil
}

// Calendars lists the tenant's calendars in order of their names.
func (s *Settings) Calendars(ctx context.Context, p tenant.Principal) ([]Calendar, error) {
	if err := allow(p, tenant.Read); err != nil {
		return nil, err
	}
	all, err := s.store.Calendars(ctx, p.Tenant)
	if err != nil {
		return nil, err
	}
	out := make([]Calendar, len(all))
	for i, c := range all {
		if out[i], err = readCalendar(c); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// Calendar finds one calendar.
func (s *Settings) Calendar(ctx context.Context, p tenant.Principal, name string) (Calendar, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Calendar{}, err
	}
	c, err := s.store.Calendar(ctx, p.Tenant, name)
	if err != nil {
		return Calendar{}, err
	}
	return readCalendar(c)
}

// PutCalendar creates or replaces a calendar, and plans the jobs that use it again.
func (s *Settings) PutCalendar(ctx context.Context, p tenant.Principal, name string, spec schedule.CalendarSpec) (Calendar, error) {
	out := Calendar{Name: name, Spec: spec, UpdatedAt: s.now()}
	if err := allow(p, tenant.Write); err != nil {
		return out, err
	}
	_, v := s.cfg.Schedules.Calendar(spec)
	if !job.ValidKey(name) {
		v.Add("name", name, "1 to 128 of a-z, 0-9, '.', '_' and '-', beginning with a letter or digit")
	}
	if len(v) > 0 {
		return out, v
	}
	kept, err := json.Marshal(spec)
	if err != nil {
		return out, err
	}
	was, err := s.store.Calendar(ctx, p.Tenant, name)
	had := err == nil
	if !had && !errors.Is(err, engine.ErrNotFound) {
		return out, err
	}
	told := detail{After: fields{"calendar": string(kept)}}
	if had {
		told.Before = fields{"calendar": string(was.Spec)}
	}
	if err := s.store.PutCalendar(ctx, engine.Calendar{Tenant: p.Tenant, Name: name, Spec: kept, UpdatedAt: out.UpdatedAt}, s.audited(p, "calendar.put", name, told)); err != nil {
		return out, err
	}
	if !had {
		return out, nil
	}
	return out, s.follow(ctx, p, name)
}

const (
	lookAtOnce   = 10_000 // jobs examined at once for users of a calendar
	replanAtOnce = 100    // jobs that follow a calendar before its change is answered
)

// following is an operation's list of jobs that must follow a calendar: those after one.
type following struct {
	Calendar string `json:"calendar"`
	After    string `json:"after"`

	after job.ID
}

func (f following) encode() ([]byte, error) {
	f.After = f.after.String()
	return json.Marshal(f)
}

func decodeFollowing(b []byte) (f following, err error) {
	if err = json.Unmarshal(b, &f); err == nil {
		f.after, err = job.ParseID(f.After)
	}
	return f, err
}

// follow plans the jobs that use a calendar again: the first of them at once, the others in an operation.
func (s *Settings) follow(ctx context.Context, p tenant.Principal, name string) error {
	users, last, err := s.store.CalendarUsers(ctx, p.Tenant, name, job.ID{}, lookAtOnce)
	if err != nil {
		return err
	}
	if len(users) > replanAtOnce {
		users = users[:replanAtOnce]
		last = users[replanAtOnce-1].ID
	}
	for _, j := range users {
		if err := s.jobs.replan(ctx, p, j.ID); err != nil {
			return err
		}
	}
	if last.IsZero() {
		return nil
	}
	spec, err := following{Calendar: name, after: last}.encode()
	if err != nil {
		return err
	}
	_, _, err = s.operations.begin(ctx, p, job.Operation{Kind: job.OpReplan, Spec: spec}, Once[job.Operation]{})
	return err
}

// listFollowing reads the next jobs that must follow a calendar.
func (r *Runner) listFollowing(ctx context.Context, x *run) error {
	users, last, err := r.s.store.CalendarUsers(ctx, x.op.Tenant, x.follow.Calendar, x.follow.after, lookAtOnce)
	if err != nil {
		return err
	}
	for _, j := range users {
		x.next = append(x.next, job.ExecutionID(j.ID))
	}
	x.op.Total = max(x.op.Total, x.op.Done+x.op.Passed+int64(len(x.next))) // which is found out on the way
	x.behind, x.last = last, last.IsZero()
	if len(x.next) == 0 {
		x.follow.after = last
	}
	return nil
}

// followed records the progress.
func (x *run) followed(these []job.ExecutionID) (err error) {
	x.follow.after = job.ID(these[len(these)-1])
	if len(x.next) == 0 && !x.last {
		x.follow.after = x.behind
	}
	x.op.Spec, err = x.follow.encode()
	return err
}

// replan plans a job's next instant again if its calendar may have moved it, and takes back staged executions.
func (s *Jobs) replan(ctx context.Context, p tenant.Principal, id job.ID) error {
	p.Internal = true // the request was the calendar's change
	_, err := s.change(ctx, p, engine.Ref{ID: id}, "job.update", 0, func(ps *plans, j job.Job) (engine.Update, error) {
		u, changed := s.rejudge(ctx, ps, j)
		if !changed {
			return u, errUnchanged
		}
		return u, nil
	})
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// rejudge returns the update of a job whose calendar has changed; false if there is nothing to change.
func (s *Jobs) rejudge(ctx context.Context, ps *plans, j job.Job) (u engine.Update, changed bool) {
	if !j.Schedule.Type.Recurs() {
		return u, false
	}
	if owes := !j.NextRunAt.IsZero() && !j.NextRunAt.After(ps.at); owes {
		// The calendar is applied when it fires. A scheduler may be about to fire it by the old calendar: another
		// revision invalidates that.
		u.Job = j
		return u, j.State == job.Active
	}
	plan, err := ps.plan(ctx, j)
	if err != nil {
		return u, false // it cannot fire either, and says so
	}
	next, _ := plan.Cursor(ps.at, ps.at)
	over := j.State == job.Completed
	if over && (next.IsZero() || !plan.At(next) || j.Schedule.MaxRuns > 0 && j.Runs >= j.Schedule.MaxRuns) {
		return u, false
	}
	bare := plan
	bare.Calendar = nil
	soon, ok := bare.Next(ps.at)
	staged := ok && !soon.After(ps.at.Add(s.cfg.LookAhead+time.Second)) // or about to be, by the old calendar
	if next.Equal(j.NextRunAt) && !staged {
		return u, false
	}
	u.Job, u.Replan = j, true
	u.Job.NextRunAt = next
	if over {
		u.Job.State = job.Active // only the calendar had ended it
	}
	return u, true
}

// DeleteCalendar deletes an unused calendar; *NotDone if a job uses it.
func (s *Settings) DeleteCalendar(ctx context.Context, p tenant.Principal, name string) (Calendar, error) {
	if err := allow(p, tenant.Write); err != nil {
		return Calendar{}, err
	}
	c, err := s.Calendar(ctx, p, name)
	if err != nil {
		return c, err
	}
	for after := (job.ID{}); ; {
		users, last, err := s.store.CalendarUsers(ctx, p.Tenant, name, after, lookAtOnce)
		if err != nil {
			return c, err
		}
		if len(users) > 0 {
			return c, &NotDone{"delete", fmt.Sprintf("The job %q (%s) uses the calendar; change or delete the job first.", users[0].Name, users[0].ID)}
		}
		if after = last; after.IsZero() {
			return c, s.store.DeleteCalendar(ctx, p.Tenant, name, s.audited(p, "calendar.delete", name, detail{}))
		}
	}
}

// recurring calls f with each recurring job in a state (0: any but deleted), until f returns false.
func (s *Jobs) recurring(ctx context.Context, t tenant.ID, state job.State, f func(job.Job) (bool, error)) error {
	for _, kind := range []job.ScheduleType{job.Cron, job.Interval} {
		if more, err := s.each(ctx, engine.JobFilter{Tenant: t, ScheduleType: kind, State: state}, f); err != nil || !more {
			return err
		}
	}
	return nil
}

// each calls f with each job that a filter selects, until f returns false.
func (s *Jobs) each(ctx context.Context, f engine.JobFilter, do func(job.Job) (bool, error)) (more bool, err error) {
	page := engine.Page{Limit: 1000, Uncounted: true}
	for {
		found, err := s.store.FindJobs(ctx, f, page)
		if err != nil {
			return false, err
		}
		for _, j := range found.Jobs {
			if more, err := do(j); err != nil || !more {
				return false, err
			}
		}
		if page.Cursor = found.Next; page.Cursor == "" {
			return true, nil
		}
	}
}
