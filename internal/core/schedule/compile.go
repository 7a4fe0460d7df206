package schedule

import (
	"errors"
	"fmt"
	"time"

	"github.com/carillon-jobs/carillon/internal/core/job"
)

// Plan compiles the schedule of a job that was created at an instant; cal is its calendar, nil for none. It is for
// recurring schedules only.
func (c *Cache) Plan(s job.Schedule, created time.Time, cal *Calendar) (Plan, error) {
	name := s.Zone
	if name == "" {
		name = "UTC"
	}
	zone, err := c.Zone(name)
	if err != nil {
		return Plan{}, err
	}
	p := Plan{Start: s.Start, End: s.End, Calendar: cal, Jitter: s.Jitter, Zone: zone, Anchor: s.Start}
	if p.Anchor.IsZero() {
		p.Anchor = created.Truncate(time.Second)
	}
	if s.Type == job.Interval {
		p.Every = s.Every
		return p, nil
	}
	day := Day(s.Day)
	if day == "" {
		day = Vixie
	}
	p.Cron, err = c.Cron(s.Cron, name, day)
	return p, err
}

// Check says what is wrong with a recurring schedule, in the words of a request, and where. That its calendar leaves
// nothing is no fault of it: calendars change.
func (c *Cache) Check(s job.Schedule, created time.Time, cal *Calendar) job.Invalids {
	if s.Type.OneOff() {
		return nil
	}
	var v job.Invalids
	p, err := c.Plan(s, created, cal)
	var bad *Error
	switch {
	case errors.As(err, &bad):
		field := "schedule.cron_expression"
		switch bad.Field {
		case "timezone":
			field = "schedule.timezone"
		case "day":
			field = "schedule.day"
		}
		want := bad.Want
		if bad.Position > 0 {
			want = fmt.Sprintf("at position %d, in %s: %s", bad.Position, bad.Field, bad.Want)
		}
		if bad.Hint != "" {
			want += " (" + bad.Hint + ")"
		}
		v.Add(field, bad.Value, want)
	case err != nil:
		v.Add("schedule", "", err.Error())
	case s.Type == job.Interval && (s.Every < time.Second || s.Every%time.Second != 0):
		v.Add("schedule.every", s.Every, "whole seconds, at least 1s")
	default:
		if _, ok := p.Cursor(created, created); !ok {
			v.Add("schedule", "", "a schedule that has an instant left: its end_at leaves none")
		}
	}
	return v
}
