package client

import (
	"context"
	"iter"
	"net/http"
	"strconv"
	"time"
)

// JobChange says what is to be different about a job.
type JobChange struct {
	// Fields is the part of a JobRequest that changes, under the names of the API: what it leaves out stays, nil is the
	// default again.
	Fields map[string]any
	// Revision, unless 0, is the one that the change is meant for: where the job has another by now, it is ErrConflict.
	Revision int
}

// CreateJob creates a job. Where an execution with the same unique_key has not finished, the answer is its job, which is
// marked as Deduplicated.
func (c *Client) CreateJob(ctx context.Context, r JobRequest) (j Job, err error) {
	head, err := c.ask(ctx, request{method: http.MethodPost, path: prefix + "/jobs"}, r, &j)
	j.Deduplicated = head.Get(deduplicated) == "true"
	return j, err
}

// deduplicated is the header of an answer that names what was there already.
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

// Jobs goes through all jobs, newest first.
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

// BulkJobs does the same to many jobs, in the background.
func (c *Client) BulkJobs(ctx context.Context, r BulkRequest) (BulkBegun, error) {
	return post[BulkBegun](ctx, c, "/jobs:bulk", r)
}

// DeleteJob deletes a job: what waits of it is cancelled, what runs continues, its history stays.
func (c *Client) DeleteJob(ctx context.Context, id string) (Job, error) {
	return drop[Job](ctx, c, "/jobs/"+seg(id))
}

// DeleteAndStopJob deletes a job as DeleteJob does, and asks what runs of it to stop.
func (c *Client) DeleteAndStopJob(ctx context.Context, id string) (Job, error) {
	q := params{}
	q.text("running", "cancel")
	return drop[Job](ctx, c, q.on("/jobs/"+seg(id)))
}

// PauseJob has a job fire no more until it is resumed. Pausing it again changes reason and until.
func (c *Client) PauseJob(ctx context.Context, id string, r PauseRequest) (Job, error) {
	return post[Job](ctx, c, "/jobs/"+seg(id)+"/pause", r)
}

// ResumeJob has a paused job fire again; what it missed is judged by its catch_up.
func (c *Client) ResumeJob(ctx context.Context, id string) (Job, error) {
	return post[Job](ctx, c, "/jobs/"+seg(id)+"/resume", nil)
}

// TriggerJob runs a job now. Where an execution with the job's unique_key has not finished, the answer is that one, which is
// marked as Deduplicated.
func (c *Client) TriggerJob(ctx context.Context, id string, r TriggerRequest) (t Triggered, err error) {
	head, err := c.ask(ctx, request{method: http.MethodPost, path: prefix + "/jobs/" + seg(id) + "/trigger"}, r, &t)
	t.Deduplicated = head.Get(deduplicated) == "true"
	return t, err
}

// BackfillJob fires past instants of a job, in the background.
func (c *Client) BackfillJob(ctx context.Context, id string, r BackfillRequest) (Begun, error) {
	return post[Begun](ctx, c, "/jobs/"+seg(id)+"/backfill", r)
}

// NextOfJob tells the next n instants of a job; 0: 10.
func (c *Client) NextOfJob(ctx context.Context, id string, n int) (Preview, error) {
	q := params{}
	q.number("n", n)
	return get[Preview](ctx, c, q.on("/jobs/"+seg(id)+"/next"))
}

// OccurrenceFilter chooses instants of a job's schedule.
type OccurrenceFilter struct {
	From time.Time // the first that may be told; zero: a day before now, or before To
	To   time.Time // those before it; zero: a day after now, or after From
}

// ListOccurrences reads a page of the instants of a job's schedule and their outcomes, earliest first.
func (c *Client) ListOccurrences(ctx context.Context, id string, f OccurrenceFilter, p Page) (Occurrences, error) {
	q := p.params()
	q.instant("from", f.From)
	q.instant("to", f.To)
	return get[Occurrences](ctx, c, q.on("/jobs/"+seg(id)+"/occurrences"))
}

// Occurrences goes through the instants of a job's schedule, earliest first.
func (c *Client) Occurrences(ctx context.Context, id string, f OccurrenceFilter) iter.Seq2[Occurrence, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Occurrence, Pagination, error) {
		page, err := c.ListOccurrences(ctx, id, f, p)
		return page.Occurrences, page.Pagination, err
	})
}

// Preview tells what a schedule does, in words and instants.
func (c *Client) Preview(ctx context.Context, r PreviewRequest) (Preview, error) {
	return post[Preview](ctx, c, "/schedules/preview", r)
}

// Forecast tells how many executions schedules will make in the coming hours, 1 to 720; 0: 24.
func (c *Client) Forecast(ctx context.Context, hours int) (Forecast, error) {
	q := params{}
	q.number("hours", hours)
	return get[Forecast](ctx, c, q.on("/forecast"))
}

// ForecastSpread is a forecast with how its herds can be taken apart.
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

// Calendars goes through all calendars.
func (c *Client) Calendars(ctx context.Context) iter.Seq2[Calendar, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]Calendar, Pagination, error) {
		page, err := c.ListCalendars(ctx, p)
		return page.Calendars, page.Pagination, err
	})
}

// PutCalendar keeps a calendar in place of any of its name; jobs that use it are planned again.
func (c *Client) PutCalendar(ctx context.Context, name string, r CalendarRequest) (Calendar, error) {
	return put[Calendar](ctx, c, "/calendars/"+seg(name), r)
}

// DeleteCalendar deletes a calendar that no job uses.
func (c *Client) DeleteCalendar(ctx context.Context, name string) (Calendar, error) {
	return drop[Calendar](ctx, c, "/calendars/"+seg(name))
}
