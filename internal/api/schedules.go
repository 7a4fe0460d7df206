package api

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/carillon-jobs/carillon/client"
	"github.com/carillon-jobs/carillon/internal/core/job"
	"github.com/carillon-jobs/carillon/internal/core/schedule"
	"github.com/carillon-jobs/carillon/internal/core/tenant"
	"github.com/carillon-jobs/carillon/internal/service"
)

// scheduleOf converts a schedule to the core's form. Explicit defaults are left out.
func scheduleOf(s client.Schedule, v *job.Invalids) job.Schedule {
	out := job.Schedule{Type: job.Immediate}
	if s.Type != "" {
		t, ok := oneOf(s.Type, job.ScheduleTypes())
		if !ok {
			v.Add("schedule.type", s.Type, "one of "+list(job.ScheduleTypes()))
		}
		out.Type = t
	}
	untyped := func(field string, p *string, t job.ScheduleType) { // it is checked as the type that was probably meant
		if s.Type == "" && p != nil && *p != "" {
			v.Add("schedule."+field, *p, fmt.Sprintf("type %s beside it: the type is %s where none is given", t, job.Immediate))
			out.Type = t
		}
	}
	untyped("cron_expression", s.CronExpression, job.Cron)
	untyped("every", s.Every, job.Interval)
	out.At, out.Start, out.End = written(s.ScheduledTime), written(s.StartAt), written(s.EndAt)
	text := func(field string, p *string, want string) string {
		if p != nil && *p == "" {
			v.Add("schedule."+field, "", want)
		}
		return deref(p, "")
	}
	if out.Cron = deref(s.CronExpression, ""); s.CronExpression != nil && out.Cron == "" && out.Type != job.Cron {
		v.Add("schedule.cron_expression", "", "no cron_expression with type "+out.Type.String())
	}
	out.Zone = text("timezone", s.Timezone, "a zone such as Europe/Berlin or UTC")
	if strings.EqualFold(out.Zone, "UTC") {
		out.Zone = "" // what it is anyway
	} else if !out.Type.Recurs() && out.Zone != "" {
		want := "no timezone with type " + out.Type.String()
		if out.Type != job.Manual {
			want += ": scheduled_time has its own offset"
		}
		v.Add("schedule.timezone", out.Zone, want)
	}
	if out.Day = strings.ToLower(text("day", s.Day, "one of vixie, or, and")); out.Day == string(schedule.Vixie) {
		out.Day = ""
	}
	out.Calendar = text("calendar", s.Calendar, "the name of a calendar, or null for none")
	if s.Every != nil {
		var err error
		var bad *schedule.Error
		if out.Every, err = schedule.ParseEvery(*s.Every); errors.As(err, &bad) {
			v.Add("schedule.every", *s.Every, bad.Want)
		}
	}
	out.Jitter = millis(deref(s.JitterMS, 0))
	if out.MaxRuns = deref(s.MaxRuns, 0); s.MaxRuns != nil && out.MaxRuns == 0 {
		v.Add("schedule.max_runs", 0, "a whole number from 1, or null for any number")
	}
	return out
}

// written is an instant that may be the year 1, which is written out, not omitted.
func written(t *time.Time) time.Time {
	if t != nil && t.IsZero() {
		return t.Add(1)
	}
	return deref(t, time.Time{})
}

// policies reads the overlap and catch-up policies.
func policies(r client.JobRequest, d *job.Definition, v *job.Invalids) {
	if r.Overlap != nil {
		var ok bool
		if d.Overlap, ok = oneOf(*r.Overlap, job.Overlaps()); !ok {
			v.Add("overlap", *r.Overlap, "one of "+list(job.Overlaps()))
		}
		if d.Overlap == job.OverlapAllow {
			d.Overlap = ""
		}
	}
	if r.CatchUp != nil {
		var ok bool
		if d.CatchUp, ok = oneOf(*r.CatchUp, job.CatchUps()); !ok {
			v.Add("catch_up", *r.CatchUp, "one of "+list(job.CatchUps()))
		}
		if d.CatchUp == job.CatchUpLatest {
			d.CatchUp = ""
		}
	}
	if n := r.CatchUpLimit; n != nil {
		if *n == 0 {
			v.Add("catch_up_limit", 0, "a whole number from 1 to 1000")
		}
		if d.CatchUpLimit = *n; *n == job.DefaultCatchUpLimit {
			d.CatchUpLimit = 0
		}
	}
}

// wireSchedule returns a job's schedule in API form, with its defaults if it recurs.
func wireSchedule(j job.Job, stats job.Stats) client.JobSchedule {
	s := j.Schedule
	out := client.JobSchedule{
		Type: s.Type.String(), ScheduledTime: instant(s.At), CronExpression: optional(s.Cron), Every: wireSpan(s.Every),
		StartAt: instant(s.Start), EndAt: instant(s.End), Calendar: optional(s.Calendar), NextRunAt: instant(j.NextRunAt), LastRunAt: instant(stats.LastRunAt),
	}
	if s.MaxRuns > 0 {
		out.MaxRuns = &s.MaxRuns
	}
	if s.Jitter > 0 || s.Type.Recurs() {
		out.JitterMS = new(s.Jitter.Milliseconds())
	}
	if s.Type.Recurs() {
		out.Timezone = new(cmp.Or(s.Zone, "UTC"))
	}
	if s.Type == job.Cron {
		out.Day = new(cmp.Or(s.Day, string(schedule.Vixie)))
		if c, err := crons.Cron(s.Cron, s.Zone, schedule.Day(*out.Day)); err == nil {
			out.Description = c.Describe()
		}
	}
	return out
}

// crons holds expressions that were accepted before, to describe them in words.
var crons = schedule.NewCache(time.LoadLocation)

func wirePreview(p service.Preview) client.Preview {
	out := client.Preview{Description: p.Description, Warnings: make([]client.Warning, len(p.Warnings)), Next: make([]client.PreviewMoment, len(p.Next))}
	for i, x := range p.Warnings {
		out.Warnings[i] = client.Warning{Code: x.Code, Field: x.Field, Message: x.Message}
	}
	for i, x := range p.Next {
		out.Next[i] = client.PreviewMoment{UTC: x.UTC, Local: x.Local.Format(time.RFC3339), Flag: optional(string(x.Flag))}
	}
	return out
}

const wantN = "a whole number from 1 to 1000"

var nextParams = []param{{"n", "integer", "How many, 1 to 1000; default 10."}}

func (s jobAPI) nextOfJob(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err
	}
	q, err := parseQuery(r, nextParams)
	if err != nil {
		return err
	}
	n := q.number("n", 10, 1, schedule.MaxPreview)
	if err := q.err(); err != nil {
		return err
	}
	out, err := s.service.NextOf(r.Context(), p, ref, n)
	if err != nil {
		return err
	}
	return reply(w, 200, wirePreview(out))
}

// number reads an integer within bounds.
func (q *query) number(name string, otherwise, least, most int) int {
	text := q.values.Get(name)
	if text == "" {
		return otherwise
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < least || n > most {
		q.wrong(name, text, fmt.Sprintf("a whole number from %d to %d", least, most))
		return otherwise
	}
	return n
}

func (s jobAPI) previewSchedule(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	data, _, err := read(w, r, maxBody)
	if err != nil {
		return err
	}
	var req client.PreviewRequest
	if err := decode(data, &req); err != nil {
		return err
	}
	var v job.Invalids
	kind := job.Cron
	switch {
	case req.CronExpression != nil && req.Every != nil:
		v.Add("every", *req.Every, "cron_expression or every, not both")
	case req.CronExpression == nil && req.Every == nil:
		v.Add("cron_expression", "", "an expression such as 30 4 * * 1-5, or every with a duration such as 90s")
	case req.Every != nil:
		kind = job.Interval
	}
	n := deref(req.N, 10)
	if n < 1 || n > schedule.MaxPreview {
		v.Add("n", n, wantN)
	}
	if len(v) > 0 {
		return v
	}
	x := scheduleOf(client.Schedule{Type: kind.String(), CronExpression: req.CronExpression, Every: req.Every, Timezone: req.Timezone, Day: req.Day, Calendar: req.Calendar}, &v)
	if len(v) > 0 {
		return unprefixed(v)
	}
	out, err := s.service.Preview(r.Context(), p, x, written(req.From), n)
	if errors.As(err, &v) {
		return unprefixed(v)
	}
	if err != nil {
		return err
	}
	return reply(w, 200, wirePreview(out))
}

// unprefixed names the fields of a schedule outside a job.
func unprefixed(v job.Invalids) job.Invalids {
	out := make(job.Invalids, len(v))
	for i, x := range v {
		x.Field = strings.TrimPrefix(x.Field, "schedule.")
		x.Want = strings.NewReplacer("with type INTERVAL", "with every", "with type CRON", "with cron_expression").Replace(x.Want)
		out[i] = x
	}
	return out
}

var occurrenceParams = append([]param{
	{"from", "string", "Instants at or after this date or time; default: a day before now, or before to."},
	{"to", "string", "Instants before this date or time; default: a day after now, or after from."},
}, pageParams...)

func (s jobAPI) listOccurrences(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	ref, err := jobRef(r)
	if err != nil {
		return err
	}
	if err := s.service.HasJob(r.Context(), p, ref); err != nil {
		return err
	}
	q, err := parseQuery(r, occurrenceParams)
	if err != nil {
		return err
	}
	from, to, page := q.date("from"), q.date("to"), q.page()
	if !from.IsZero() && !to.IsZero() && !to.After(from) {
		q.wrong("to", q.values.Get("to"), "a time after from, "+from.Format(time.RFC3339))
	}
	if err := q.err(); err != nil {
		return err
	}
	found, err := s.service.Occurrences(r.Context(), p, ref, from, to, page)
	if err != nil {
		return err
	}
	out := client.Occurrences{Occurrences: make([]client.Occurrence, len(found.Occurrences)), Pagination: pagination(page, found.Total, found.Next)}
	for i, o := range found.Occurrences {
		x := client.Occurrence{ScheduledTime: o.At, Outcome: string(o.Outcome), Reason: optional(o.Reason)}
		if !o.Execution.IsZero() {
			x.ExecutionID, x.Status = new(o.Execution.String()), new(o.Status.String())
		}
		out.Occurrences[i] = x
	}
	return reply(w, 200, out)
}

var forecastParams = []param{
	{"hours", "integer", "How far to look ahead, 1 to 720 (30 days); default 24."},
	{"spread", "boolean", "Include suggestions to spread herds."},
}

func (s jobAPI) forecast(w http.ResponseWriter, r *http.Request, p tenant.Principal) error {
	q, err := parseQuery(r, forecastParams)
	if err != nil {
		return err
	}
	hours, spread := q.number("hours", 24, 1, 720), q.flag("spread")
	if err := q.err(); err != nil {
		return err
	}
	count := s.service.Forecast
	if spread {
		count = s.service.Spread
	}
	f, err := count(r.Context(), p, time.Duration(hours)*time.Hour)
	if err != nil {
		return err
	}
	out := client.Forecast{Minutes: make([]client.ForecastMinute, len(f.Minutes)), Herds: make([]client.Herd, len(f.Herds)), Truncated: f.Truncated}
	for i, m := range f.Minutes {
		out.Minutes[i] = client.ForecastMinute{At: m.At, Count: m.Count}
	}
	for i, h := range f.Herds {
		out.Herds[i] = client.Herd{At: h.At, Count: h.Count, Jobs: make([]client.HerdJob, len(h.Jobs))}
		for k, j := range h.Jobs {
			out.Herds[i].Jobs[k] = client.HerdJob{JobID: j.ID.String(), Name: j.Name, Count: j.Count}
		}
	}
	if x := f.Spread; x != nil {
		out.Spread = &client.Spread{PeakBefore: x.PeakBefore, PeakAfter: x.PeakAfter, JobsTotal: x.Total, Jobs: make([]client.SpreadJob, len(x.Jobs)), Minutes: make([]client.ForecastMinute, len(x.Minutes))}
		for i, j := range x.Jobs {
			out.Spread.Jobs[i] = client.SpreadJob{JobID: j.ID.String(), Name: j.Name, Field: "schedule.cron_expression", Before: j.Before, After: j.After, Moved: j.Moved}
		}
		for i, m := range x.Minutes {
			out.Spread.Minutes[i] = client.ForecastMinute{At: m.At, Count: m.Count}
		}
	}
	return reply(w, 200, out)
}
