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

// Check validates a recurring schedule, in the words of a request. A calendar that leaves no instants is not an
// error: calendars change.
func (c *Cache) Check(s job.Schedule, created time.Time, cal *Calendar) job.Invalids {
	if !s.Type.Recurs() {
		return nil
	}
	var v job.Invalids
	p, err := c.Plan(s, created, cal)
	var bad *Error
	switch {
	case errors.As(err, &bad):
		field, value, want := "schedule.cron_expression", job.Show(s.Cron), bad.Want
		switch bad.Field {
		case "timezone":
			field, value = "schedule.timezone", bad.Value
		case "day":
			field, value = "schedule.day", bad.Value
		}
		if bad.Position > 0 && bad.Value != value {
			where := ""
			if bad.Field != "expression" {
				where = " in the " + bad.Field + " field"
			}
			want = fmt.Sprintf("%s%s, not %s (position %d)", bad.Want, where, bad.Value, bad.Position)
		}
		if bad.Hint != "" {
			want += " (" + bad.Hint + ")"
		}
		v.Add(field, value, want)
	case err != nil:
		v.Add("schedule", "", err.Error())
	case s.Type == job.Interval && (s.Every < time.Second || s.Every%time.Second != 0):
		v.Add("schedule.every", s.Every, "whole seconds, at least 1s")
	default:
		if _, ok := p.Cursor(created, created); !ok {
			v = append(v, p.over(created))
		}
	}
	return v
}

// over returns the error of a plan that has no instant after the given one.
func (p Plan) over(after time.Time) job.Invalid {
	bare := p
	bare.End, bare.Calendar = time.Time{}, nil
	if first, ok := bare.Next(after); ok && !p.End.IsZero() {
		return job.Invalid{Field: "schedule.end_at", Value: p.End.Format(time.RFC3339), Want: "a time after the schedule's next instant, which is " + first.Format(time.RFC3339)}
	}
	return job.Invalid{Field: "schedule", Want: "a schedule that fires after " + after.UTC().Format(time.RFC3339) + "; the last instant there is lies in the year 9999"}
}

// Over returns why a plan has no instant after the given one.
func (p Plan) Over(after time.Time) job.Invalids { return job.Invalids{p.over(after)} }
