package client

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// JobChange describes a change of a job.
type JobChange struct {
	// Fields is the part of a JobRequest that changes, under the names of the API: fields left out stay as they are,
	// nil restores the default.
	Fields map[string]any
	// Revision, unless 0, is the revision that the change is based on. If the job has another one by now, the change
	// fails with ErrConflict.
	Revision int
}

// CreateJob creates a job. If an unfinished execution has the same unique_key, its job is returned, marked as
// Deduplicated.
func (c *Client) CreateJob(ctx context.Context, r JobRequest) (j Job, err error) {
	head, err := c.ask(ctx, request{method: http.MethodPost, path: prefix + "/jobs"}, r, &j)
	j.Deduplicated = head.Get(deduplicated) == "true"
	return j, err
}

// deduplicated is the header of a response that names an existing thing instead of a new one.
const deduplicated = "Carillon-Deduplicated"

// CreateJobs creates up to 10 000 jobs, all or none; the answer is in their order.
func (c *Client) CreateJobs(ctx context.Context, rs []JobRequest) ([]CreatedJob, error) {
	made, err := post[CreatedJobs](ctx, c, "/jobs:batch", rs)
	return made.Jobs, err
}

// Job reads a job, by its id or by its key as key:…
func (c *Client) Job(ctx context.Context, id string) (Job, error) {
	return get[Job](ctx, c, "/jobs/"+seg(id))
}

// ListJobs reads a page of jobs, newest first.
func (c *Client) ListJobs(ctx context.Context, f JobFilter, p Page) (Jobs, error) {
	q := p.params()
	q.text("status", f.Status)
	q.text("tag", f.Tag)
	q.text("without_tag", f.WithoutTag)
	q.text("name", f.Name)
	q.text("schedule_type", f.ScheduleType)
	q.text("owner", f.Owner)
	if f.Late {
		q.text("late", "true")
	}
	q.text("q", f.Q)
	return get[Jobs](ctx, c, q.on("/jobs"))
}

// Jobs iterates over all jobs, newest first.
func (c *Client) Jobs(ctx context.Context, f JobFilter) iter.Seq2[Job, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Job, Pagination, error) {
		page, err := c.ListJobs(ctx, f, p)
		return page.Jobs, page.Pagination, err
	})
}

// ChangeJob changes a job.
func (c *Client) ChangeJob(ctx context.Context, id string, change JobChange) (j Job, err error) {
	r := request{method: http.MethodPatch, path: prefix + "/jobs/" + seg(id)}
	if change.Revision != 0 {
		r.header = http.Header{"If-Match": {strconv.Itoa(change.Revision)}}
	}
	fields := change.Fields
	if fields == nil {
		fields = map[string]any{}
	}
	_, err = c.ask(ctx, r, fields, &j)
	return j, err
}

// BulkJobs applies one action to many jobs, in the background.
func (c *Client) BulkJobs(ctx context.Context, r BulkRequest) (BulkBegun, error) {
	return post[BulkBegun](ctx, c, "/jobs:bulk", r)
}

// DeleteJob deletes a job: waiting executions are cancelled, running ones continue, its history stays.
func (c *Client) DeleteJob(ctx context.Context, id string) (Job, error) {
	return drop[Job](ctx, c, "/jobs/"+seg(id))
}

// DeleteAndStopJob deletes a job like DeleteJob, and asks running executions to stop.
func (c *Client) DeleteAndStopJob(ctx context.Context, id string) (Job, error) {
	q := params{}
	q.text("running", "cancel")
	return drop[Job](ctx, c, q.on("/jobs/"+seg(id)))
}

// PauseJob keeps a job from firing until it is resumed. Pausing it again changes reason and until.
func (c *Client) PauseJob(ctx context.Context, id string, r PauseRequest) (Job, error) {
	return post[Job](ctx, c, "/jobs/"+seg(id)+"/pause", r)
}

// ResumeJob lets a paused job fire again; its catch_up decides about missed runs.
func (c *Client) ResumeJob(ctx context.Context, id string) (Job, error) {
	return post[Job](ctx, c, "/jobs/"+seg(id)+"/resume", nil)
}

// TriggerJob runs a job now. If an unfinished execution has the job's unique_key, it is returned, marked as
// Deduplicated.
func (c *Client) TriggerJob(ctx context.Context, id string, r TriggerRequest) (t Triggered, err error) {
	head, err := c.ask(ctx, request{method: http.MethodPost, path: prefix + "/jobs/" + seg(id) + "/trigger"}, r, &t)
	t.Deduplicated = head.Get(deduplicated) == "true"
	return t, err
}

// BackfillJob fires past instants of a job, in the background.
func (c *Client) BackfillJob(ctx context.Context, id string, r BackfillRequest) (Begun, error) {
	return post[Begun](ctx, c, "/jobs/"+seg(id)+"/backfill", r)
}

// NextOfJob returns the next n instants of a job; 0 means 10.
func (c *Client) NextOfJob(ctx context.Context, id string, n int) (Preview, error) {
	q := params{}
	q.number("n", n)
	return get[Preview](ctx, c, q.on("/jobs/"+seg(id)+"/next"))
}

// OccurrenceFilter selects instants of a job's schedule.
type OccurrenceFilter struct {
	From time.Time // the earliest to return; zero: a day before now, or before To
	To   time.Time // the end, exclusive; zero: a day after now, or after From
}

// ListOccurrences reads a page of the instants of a job's schedule and their outcomes, earliest first.
func (c *Client) ListOccurrences(ctx context.Context, id string, f OccurrenceFilter, p Page) (Occurrences, error) {
	q := p.params()
	q.instant("from", f.From)
	q.instant("to", f.To)
	return get[Occurrences](ctx, c, q.on("/jobs/"+seg(id)+"/occurrences"))
}

// Occurrences iterates over the instants of a job's schedule, earliest first.
func (c *Client) Occurrences(ctx context.Context, id string, f OccurrenceFilter) iter.Seq2[Occurrence, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Occurrence, Pagination, error) {
		page, err := c.ListOccurrences(ctx, id, f, p)
		return page.Occurrences, page.Pagination, err
	})
}

// Preview describes a schedule in words and instants.
func (c *Client) Preview(ctx context.Context, r PreviewRequest) (Preview, error) {
	return post[Preview](ctx, c, "/schedules/preview", r)
}

// Forecast returns how many executions schedules will create in the coming hours, 1 to 720; 0 means 24.
func (c *Client) Forecast(ctx context.Context, hours int) (Forecast, error) {
	q := params{}
	q.number("hours", hours)
	return get[Forecast](ctx, c, q.on("/forecast"))
}

// ForecastSpread returns a forecast and suggestions for spreading its herds.
func (c *Client) ForecastSpread(ctx context.Context, hours int) (Forecast, error) {
	q := params{}
	q.number("hours", hours)
	q.text("spread", "true")
	return get[Forecast](ctx, c, q.on("/forecast"))
}

// Calendar reads a calendar.
func (c *Client) Calendar(ctx context.Context, name string) (Calendar, error) {
	return get[Calendar](ctx, c, "/calendars/"+seg(name))
}

// ListCalendars reads a page of calendars.
func (c *Client) ListCalendars(ctx context.Context, p Page) (Calendars, error) {
	return get[Calendars](ctx, c, p.params().on("/calendars"))
}

// Calendars iterates over all calendars.
func (c *Client) Calendars(ctx context.Context) iter.Seq2[Calendar, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Calendar, Pagination, error) {
		page, err := c.ListCalendars(ctx, p)
		return page.Calendars, page.Pagination, err
	})
}

// PutCalendar creates or replaces a calendar; jobs that use it are planned again.
func (c *Client) PutCalendar(ctx context.Context, name string, r CalendarRequest) (Calendar, error) {
	return put[Calendar](ctx, c, "/calendars/"+seg(name), r)
}

// DeleteCalendar deletes an unused calendar.
func (c *Client) DeleteCalendar(ctx context.Context, name string) (Calendar, error) {
	return drop[Calendar](ctx, c, "/calendars/"+seg(name))
}
