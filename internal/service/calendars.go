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

// Calendar is a named list of what schedules leave out.
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
func (s *Service) Calendars(ctx context.Context, p tenant.Principal) ([]Calendar, error) {
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
func (s *Service) Calendar(ctx context.Context, p tenant.Principal, name string) (Calendar, error) {
	if err := allow(p, tenant.Read); err != nil {
		return Calendar{}, err
	}
	c, err := s.store.Calendar(ctx, p.Tenant, name)
	if err != nil {
		return Calendar{}, err
	}
	return readCalendar(c)
}

// PutCalendar keeps a calendar, in place of any of its name, and plans the jobs that use it anew.
func (s *Service) PutCalendar(ctx context.Context, p tenant.Principal, name string, spec schedule.CalendarSpec) (Calendar, error) {
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
	_, err = s.store.Calendar(ctx, p.Tenant, name)
	had := err == nil
	if !had && !errors.Is(err, engine.ErrNotFound) {
		return out, err
	}
	if err := s.store.PutCalendar(ctx, engine.Calendar{Tenant: p.Tenant, Name: name, Spec: kept, UpdatedAt: out.UpdatedAt}); err != nil {
		return out, err
	}
	if !had {
		return out, nil
	}
	return out, s.users(ctx, p.Tenant, name, func(j job.Job) (bool, error) { return true, s.replan(ctx, p, j) })
}

// replan plans a job's next instant anew where its calendar has moved it.
func (s *Service) replan(ctx context.Context, p tenant.Principal, j job.Job) error {
	_, err := s.change(ctx, p, engine.Ref{ID: j.ID}, 0, func(ps *plans, j job.Job) (u engine.Update, err error) {
		if j.State != job.Active || !j.NextRunAt.After(ps.at) {
			return u, errUnchanged // what is owed is fired first
		}
		plan, err := ps.plan(ctx, j)
		if err != nil {
			return u, err
		}
		next, ok := plan.Next(ps.at)
		if !ok || next.Equal(j.NextRunAt) {
			return u, errUnchanged // one without any instant left ends when its planned one comes
		}
		u.Job, u.Replan = j, true
		u.Job.NextRunAt = next
		return u, nil
	})
	if errors.Is(err, engine.ErrNotFound) {
		return nil
	}
	return err
}

// DeleteCalendar forgets a calendar that no job uses; *NotDone if one does.
func (s *Service) DeleteCalendar(ctx context.Context, p tenant.Principal, name string) (Calendar, error) {
	if err := allow(p, tenant.Write); err != nil {
		return Calendar{}, err
	}
	c, err := s.Calendar(ctx, p, name)
	if err != nil {
		return c, err
	}
	var used *job.Job
	err = s.users(ctx, p.Tenant, name, func(j job.Job) (bool, error) { used = &j; return false, nil })
	if err != nil {
		return c, err
	}
	if used != nil {
		return c, &NotDone{"delete", fmt.Sprintf("The job %q (%s) uses the calendar; change or delete the job first.", used.Name, used.ID)}
	}
	return c, s.store.DeleteCalendar(ctx, p.Tenant, name)
}

// users calls f with each job that uses a calendar and is not deleted, until it says no.
func (s *Service) users(ctx context.Context, t tenant.ID, calendar string, f func(job.Job) (bool, error)) error {
	return s.recurring(ctx, t, 0, func(j job.Job) (bool, error) {
		if j.Schedule.Calendar != calendar {
			return true, nil
		}
		return f(j)
	})
}

// recurring calls f with each recurring job in a state (0: in any but deleted), until it says no.
func (s *Service) recurring(ctx context.Context, t tenant.ID, state job.State, f func(job.Job) (bool, error)) error {
	for _, kind := range []job.ScheduleType{job.Cron, job.Interval} {
		if more, err := s.each(ctx, engine.JobFilter{Tenant: t, ScheduleType: kind, State: state}, f); err != nil || !more {
			return err
		}
	}
	return nil
}

// each calls f with each job that a filter chooses, until it says no.
func (s *Service) each(ctx context.Context, f engine.JobFilter, do func(job.Job) (bool, error)) (more bool, err error) {
	page := engine.Page{Limit: 1000}
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
