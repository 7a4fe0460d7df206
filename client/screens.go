package client

import (
	"context"
	"encoding/json"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"
)

// Counted counts the events of executions.
type Counted struct {
	Started            int64   `json:"started" doc:"Attempts that started."`
	Succeeded          int64   `json:"succeeded" doc:"Executions, as in the next four fields."`
	Failed             int64   `json:"failed"`
	TimedOut           int64   `json:"timed_out"`
	Cancelled          int64   `json:"cancelled"`
	Dead               int64   `json:"dead" doc:"Executions that became dead letters."`
	Retried            int64   `json:"retried" doc:"Failed attempts that are retried."`
	Skipped            int64   `json:"skipped" doc:"Instants that were not run."`
	Fired              int64   `json:"fired" doc:"First starts of executions that schedules fired."`
	Within1s           int64   `json:"within_1s" doc:"Of those, fired at most a second after their scheduled time."`
	Within5s           int64   `json:"within_5s"`
	AverageWaitSeconds float64 `json:"average_wait_seconds" doc:"Average time from when executions were due until their first start."`
	MaxWaitSeconds     float64 `json:"max_wait_seconds"`
	MaxDelaySeconds    float64 `json:"max_delay_seconds" doc:"Time from the scheduled time until executions fired."`
}

// SeriesPoint counts the events in one step of a series.
type SeriesPoint struct {
	At time.Time `json:"at" doc:"When it starts."`
	Counted
}

// SeriesTotal counts the events in a whole series.
type SeriesTotal struct {
	Counted
	SuccessRate *float64 `json:"success_rate" doc:"The share of executions that succeeded, of those that succeeded, failed or timed out: 0 to 1, or null if there were none."`
}

// Series counts events, step by step.
type Series struct {
	From        time.Time     `json:"from"`
	To          time.Time     `json:"to"`
	StepSeconds int           `json:"step_seconds"`
	Points      []SeriesPoint `json:"points" doc:"Earliest first, without steps in which nothing happened."`
	Total       SeriesTotal   `json:"total"`
}

// DelayColumn describes how late schedules fired in one step of a series.
type DelayColumn struct {
	At         time.Time `json:"at"`
	Fired      int64     `json:"fired"`
	Within1s   int64     `json:"within_1s"`
	Within5s   int64     `json:"within_5s"`
	MaxSeconds float64   `json:"max_seconds"`
	Counts     []int64   `json:"counts" doc:"One count per bound, for delays up to it and above the previous one, and one for longer delays."`
}

// DelayTotal describes how late schedules fired.
type DelayTotal struct {
	Fired      int64    `json:"fired"`
	Within1s   int64    `json:"within_1s"`
	Within5s   int64    `json:"within_5s"`
	P50Seconds *float64 `json:"p50_seconds" doc:"The upper bound of its bucket, or the longest if that is less; null: nothing fired."`
	P95Seconds *float64 `json:"p95_seconds"`
	P99Seconds *float64 `json:"p99_seconds"`
	MaxSeconds float64  `json:"max_seconds"`
}

// DelaySeries describes how late schedules fired, step by step.
type DelaySeries struct {
	From          time.Time     `json:"from"`
	To            time.Time     `json:"to"`
	StepSeconds   int           `json:"step_seconds"`
	BoundsSeconds []float64     `json:"bounds_seconds"`
	Columns       []DelayColumn `json:"columns"`
	Total         DelayTotal    `json:"total"`
}

// QueueSample counts the executions that waited and ran in a queue.
type QueueSample struct {
	Queue         string   `json:"queue"`
	Waiting       int64    `json:"waiting"`
	Running       int64    `json:"running"`
	OldestSeconds *float64 `json:"oldest_seconds" doc:"null if nothing waited."`
}

// QueueColumn counts the executions that waited and ran in one step.
type QueueColumn struct {
	At            time.Time     `json:"at"`
	Waiting       int64         `json:"waiting"`
	Running       int64         `json:"running"`
	OldestSeconds *float64      `json:"oldest_seconds"`
	Queues        []QueueSample `json:"queues"`
}

// QueueSeries counts the executions that waited and ran, step by step; each step holds the maximum.
type QueueSeries struct {
	From        time.Time     `json:"from"`
	To          time.Time     `json:"to"`
	StepSeconds int           `json:"step_seconds"`
	Queues      []string      `json:"queues" doc:"All queues, in order; … combines those of a tenant beyond 20."`
	Columns     []QueueColumn `json:"columns" doc:"Earliest first, without steps in which nothing waited or ran."`
}

// FailingJob is a job's share of a group of failures.
type FailingJob struct {
	JobID   string `json:"job_id"`
	Name    string `json:"name"`
	Failed  int64  `json:"failed"`
	Retried int64  `json:"retried"`
}

// FailureGroup is a group of failures that differ only in numbers, ids and names.
type FailureGroup struct {
	Fingerprint       string       `json:"fingerprint" doc:"0000000000000000 groups the errors that are not distinguished."`
	Type              string       `json:"type"`
	Message           string       `json:"message" doc:"The error, with <n>, <id>, <hex>, <text> and <addr> in place of what differs."`
	SampleMessage     string       `json:"sample_message"`
	Failed            int64        `json:"failed" doc:"Executions that failed for good."`
	Retried           int64        `json:"retried" doc:"Attempts that were retried."`
	FirstSeen         time.Time    `json:"first_seen"`
	LastSeen          time.Time    `json:"last_seen"`
	SampleExecutionID string       `json:"sample_execution_id" doc:"The last execution that failed for good or, if none did, the last one."`
	SampleJobID       *string      `json:"sample_job_id"`
	Jobs              []FailingJob `json:"jobs" doc:"The five with the most."`
	JobsTotal         int          `json:"jobs_total"`
	Text              *string      `json:"text" doc:"A piece of the message without placeholders, to search executions for."`
}

// Failures groups the recent failures of executions.
type Failures struct {
	From    time.Time      `json:"from"`
	To      time.Time      `json:"to"`
	Failed  int64          `json:"failed"`
	Retried int64          `json:"retried"`
	Partial bool           `json:"partial" doc:"There were more groups than are distinguished, or more entries than were examined."`
	Groups  []FailureGroup `json:"groups" doc:"Largest first."`
}

// DeadLetterJob is a job's share of a group of dead letters.
type DeadLetterJob struct {
	JobID string `json:"job_id"`
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// DeadLetterGroup is a group of dead letters whose errors differ only in numbers, ids and names.
type DeadLetterGroup struct {
	Fingerprint       string           `json:"fingerprint" doc:"You can also use it in the filter of redrive and discard."`
	Type              string           `json:"type"`
	Message           string           `json:"message"`
	SampleMessage     string           `json:"sample_message"`
	Count             int64            `json:"count"`
	FirstSeen         time.Time        `json:"first_seen"`
	LastSeen          time.Time        `json:"last_seen"`
	SampleExecutionID string           `json:"sample_execution_id"`
	SampleJobID       string           `json:"sample_job_id"`
	Jobs              []DeadLetterJob  `json:"jobs"`
	JobsTotal         int              `json:"jobs_total"`
	Reasons           map[string]int64 `json:"reasons"`
	Text              *string          `json:"text"`
}

// DeadLetterGroups groups dead letters by error.
type DeadLetterGroups struct {
	Total           int64             `json:"total"`
	TotalIsEstimate bool              `json:"total_is_estimate,omitempty"`
	LookedAt        int               `json:"looked_at" doc:"The newest ones."`
	Partial         bool              `json:"partial"`
	Groups          []DeadLetterGroup `json:"groups"`
}

// DayCounts counts the outcomes of executions.
type DayCounts struct {
	Succeeded int64 `json:"succeeded"`
	Failed    int64 `json:"failed"`
	TimedOut  int64 `json:"timed_out"`
	Cancelled int64 `json:"cancelled"`
	Skipped   int64 `json:"skipped" doc:"Instants that were not run: missed, overlapped or expired."`
	Late      int64 `json:"late" doc:"Of those that ran, how many fired more than five seconds late."`
}

// CalendarDay counts the outcomes of a job's executions that were scheduled on one day, UTC.
type CalendarDay struct {
	Date string `json:"date"`
	DayCounts
}

// JobCalendar counts the outcomes of a job's executions by day.
type JobCalendar struct {
	JobID string        `json:"job_id"`
	From  string        `json:"from"`
	To    string        `json:"to" doc:"The day after the last one."`
	Total DayCounts     `json:"total"`
	Days  []CalendarDay `json:"days" doc:"Minutes with executions."`
}

// Run is a short form of an execution.
type Run struct {
	ExecutionID   string     `json:"execution_id"`
	Status        string     `json:"status"`
	ScheduledTime time.Time  `json:"scheduled_time"`
	StartedAt     *time.Time `json:"started_at"`
	DurationMS    *int64     `json:"duration_ms" doc:"null if it has not started or not ended."`
}

// LastRuns holds the last executions of a job and counts their outcomes.
type LastRuns struct {
	JobID string `json:"job_id"`
	Runs  []Run  `json:"runs" doc:"Latest scheduled time first; covers the last 35 days."`
	Stats
}

// JobRuns holds the last executions of several jobs.
type JobRuns struct {
	Jobs []LastRuns `json:"jobs" doc:"In the requested order, without unknown jobs."`
}

// RevisionChange describes how one field of a job changed.
type RevisionChange struct {
	Field  string          `json:"field"`
	Before json.RawMessage `json:"before"`
	After  json.RawMessage `json:"after"`
}

// JobRevision is one revision of a job, and who made it.
type JobRevision struct {
	Revision int              `json:"revision"`
	At       time.Time        `json:"at"`
	By       *string          `json:"by" doc:"null if unknown."`
	Role     *string          `json:"role"`
	Action   *string          `json:"action"`
	Current  bool             `json:"current"`
	Status   string           `json:"status"`
	Changes  []RevisionChange `json:"changes" null:"true" doc:"Differences from the previous revision; null if that is no longer kept."`
	Spec     json.RawMessage  `json:"spec" doc:"The definition as a create request would have it; credentials are hidden."`
}

// JobRevisions is a page of revisions of a job, newest first.
type JobRevisions struct {
	Revisions  []JobRevision `json:"revisions"`
	Pagination Pagination    `json:"pagination"`
}

// LateJob is a job that is due but has not fired.
type LateJob struct {
	JobID       string    `json:"job_id"`
	Name        string    `json:"name"`
	NextRunAt   time.Time `json:"next_run_at"`
	LateSeconds float64   `json:"late_seconds"`
}

// FailingSummary is a job whose last execution did not succeed.
type FailingSummary struct {
	JobID           string    `json:"job_id"`
	Name            string    `json:"name"`
	LastStatus      string    `json:"last_status"`
	Failed24h       int64     `json:"failed_24h"`
	LastFailedAt    time.Time `json:"last_failed_at"`
	Type            string    `json:"type"`
	Message         string    `json:"message"`
	LastExecutionID *string   `json:"last_execution_id" doc:"The last execution that failed, if known."`
}

// Finding is one statement of an overview.
type Finding struct {
	About  string `json:"about" enum:"schedules,delays,failures,workers,queues"`
	Health string `json:"health" enum:"ok,warning,critical"`
	Text   string `json:"text"`
}

// Overview describes the health of the tenant.
type Overview struct {
	Sentence              string           `json:"sentence"`
	Health                string           `json:"health" enum:"ok,warning,critical"`
	Findings              []Finding        `json:"findings" doc:"The parts of the sentence; the worst of them is health."`
	Schedules             int64            `json:"schedules" doc:"Jobs that fire again and are not paused."`
	SchedulesIsEstimate   bool             `json:"schedules_is_estimate,omitempty"`
	Paused                int64            `json:"paused"`
	LateJobs              int64            `json:"late_jobs" doc:"Jobs that should have fired more than five seconds ago and have not."`
	LateJobsIsMinimum     bool             `json:"late_jobs_is_minimum,omitempty" doc:"So many schedules of all tenants are late that not all were examined."`
	Late                  []LateJob        `json:"late" doc:"The jobs that are latest."`
	Delay                 DelayTotal       `json:"delay" doc:"Delays in the last hour."`
	FailingJobs           int64            `json:"failing_jobs" doc:"Jobs that failed within 24 hours and whose last execution did not succeed."`
	FailingIsMinimum      bool             `json:"failing_is_minimum,omitempty"`
	Failing               []FailingSummary `json:"failing"`
	Running               int              `json:"running"`
	Queued                int              `json:"queued"`
	QueuedPaused          int              `json:"queued_paused" doc:"Of those, how many wait because their queue is paused."`
	OldestQueuedSeconds   *float64         `json:"oldest_queued_seconds"`
	DeadLetters           int64            `json:"dead_letters"`
	DeadLettersIsEstimate bool             `json:"dead_letters_is_estimate,omitempty"`
	Workers               int              `json:"workers"`
	LastHour              SeriesTotal      `json:"last_hour"`
}

// SeriesQuery selects a series.
type SeriesQuery struct {
	Hours        int  // 1 to 24; 0: 24
	Step         int  // seconds: 60, 300, 900 or 3600; 0: the default of the series
	Installation bool // of all tenants together, for the role system
}

func (q SeriesQuery) on(path string) string {
	p := params{}
	p.number("hours", q.Hours)
	p.number("step", q.Step)
	if q.Installation {
		p.text("scope", "installation")
	}
	return p.on(path)
}

// Series reads the counts of events of executions, step by step.
func (c *Client) Series(ctx context.Context, q SeriesQuery) (Series, error) {
	return get[Series](ctx, c, q.on("/series"))
}

// DelaySeries reads how late schedules fired, step by step.
func (c *Client) DelaySeries(ctx context.Context, q SeriesQuery) (DelaySeries, error) {
	return get[DelaySeries](ctx, c, q.on("/series/delays"))
}

// QueueSeries reads how many executions waited and ran in each queue, step by step.
func (c *Client) QueueSeries(ctx context.Context, q SeriesQuery) (QueueSeries, error) {
	return get[QueueSeries](ctx, c, q.on("/series/queues"))
}

// FailureQuery selects failures.
type FailureQuery struct {
	Hours int    // 1 to 168; 0: 24
	Job   string // its id, or key:…; "": of all
	Limit int    // groups; 0: 20
}

// Failures reads recent failures of executions, grouped by fingerprint.
func (c *Client) Failures(ctx context.Context, q FailureQuery) (Failures, error) {
	p := params{}
	p.number("hours", q.Hours)
	p.text("job_id", q.Job)
	p.number("limit", q.Limit)
	return get[Failures](ctx, c, p.on("/failures"))
}

// DeadLetterGroups reads the latest dead letters, grouped by the fingerprint of their error; limit 0 means 20 groups.
func (c *Client) DeadLetterGroups(ctx context.Context, f DeadLetterFilter, limit int) (DeadLetterGroups, error) {
	p := params{}
	p.text("job_id", f.JobID)
	p.text("reason", f.Reason)
	p.text("q", f.Q)
	p.text("start_date", f.StartDate)
	p.text("end_date", f.EndDate)
	p.number("limit", limit)
	return get[DeadLetterGroups](ctx, c, p.on("/dead-letters:groups"))
}

// JobCalendar reads the outcomes of a job's executions by day, from one day up to but excluding another; zero means
// the last year.
func (c *Client) JobCalendar(ctx context.Context, job string, from, to time.Time) (JobCalendar, error) {
	p := params{}
	for name, t := range map[string]time.Time{"from": from, "to": to} {
		if !t.IsZero() {
			p.text(name, t.UTC().Format(time.DateOnly))
		}
	}
	return get[JobCalendar](ctx, c, p.on("/jobs/"+seg(job)+"/calendar"))
}

// JobRuns reads the last n executions (0: 30) of up to 100 jobs.
func (c *Client) JobRuns(ctx context.Context, jobs []string, n int) (JobRuns, error) {
	p := params{}
	p.text("ids", strings.Join(jobs, ","))
	p.number("n", n)
	return get[JobRuns](ctx, c, p.on("/jobs:runs"))
}

// JobRevisions reads a page of a job's revisions, newest first.
func (c *Client) JobRevisions(ctx context.Context, job string, p Page) (JobRevisions, error) {
	return get[JobRevisions](ctx, c, p.params().on("/jobs/"+seg(job)+"/revisions"))
}

// Revisions iterates over a job's revisions, newest first.
func (c *Client) Revisions(ctx context.Context, job string) iter.Seq2[JobRevision, error] {
	return Walk(ctx, Page{}, func(ctx context.Context, p Page) ([]JobRevision, Pagination, error) {
		page, err := c.JobRevisions(ctx, job, p)
		return page.Revisions, page.Pagination, err
	})
}

// RestoreJob restores the definition that a job had in a revision. is, unless 0, is the current revision that the
// request expects: if the job has another one, it fails with ErrConflict.
func (c *Client) RestoreJob(ctx context.Context, job string, revision, is int) (j Job, err error) {
	r := request{method: http.MethodPost, path: prefix + "/jobs/" + seg(job) + "/revisions/" + strconv.Itoa(revision) + "/restore"}
	if is != 0 {
		r.header = http.Header{"If-Match": {strconv.Itoa(is)}}
	}
	_, err = c.ask(ctx, r, nil, &j)
	return j, err
}

// Overview reads the health of the tenant.
func (c *Client) Overview(ctx context.Context) (Overview, error) {
	return get[Overview](ctx, c, "/overview")
}

// BulkExecutions cancels or retries many executions.
func (c *Client) BulkExecutions(ctx context.Context, r ExecutionBulkRequest) (ExecutionBulkBegun, error) {
	return post[ExecutionBulkBegun](ctx, c, "/executions:bulk", r)
}
