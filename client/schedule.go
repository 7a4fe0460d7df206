package client

import "time"

// PauseRequest is the body of a request to pause a job.
type PauseRequest struct {
	Reason string     `json:"reason,omitempty" doc:"Why; at most 1000 characters."`
	Until  *time.Time `json:"until,omitempty" doc:"When it is resumed by itself; null: when someone does."`
}

// BackfillRequest is the body of a request to fire past instants of a job.
type BackfillRequest struct {
	From        time.Time `json:"from" doc:"The first instant that may be fired."`
	To          time.Time `json:"to" doc:"Instants before this one, and not after now."`
	RatePerS    *float64  `json:"rate_per_s,omitempty" doc:"No limit when omitted."`
	OnlyMissing *bool     `json:"only_missing,omitempty" doc:"Only instants that have no execution, or a SKIPPED one; true when omitted."`
	DryRun      bool      `json:"dry_run,omitempty" doc:"Only count."`
}

// PreviewRequest is the body of a request to preview a schedule.
type PreviewRequest struct {
	CronExpression *string    `json:"cron_expression,omitempty" doc:"The expression, or …"`
	Every          *string    `json:"every,omitempty" doc:"… the interval, such as 90s."`
	Timezone       *string    `json:"timezone,omitempty" doc:"UTC when omitted."`
	Day            *string    `json:"day,omitempty" enum:"vixie,or,and"`
	Calendar       *string    `json:"calendar,omitempty" doc:"The name of a calendar; instants that it excludes are flagged."`
	From           *time.Time `json:"from,omitempty" doc:"The instants after this one; now when omitted."`
	N              *int       `json:"n,omitempty" doc:"How many, 1 to 1000; default 10."`
}

// Preview describes a schedule and its next instants.
type Preview struct {
	Description string          `json:"description" doc:"In one English sentence."`
	Warnings    []Warning       `json:"warnings"`
	Next        []PreviewMoment `json:"next"`
}

// Warning describes something a schedule may do that its author may not expect.
type Warning struct {
	Code    string `json:"code"`
	Field   string `json:"field,omitempty"`
	Message string `json:"message"`
}

// PreviewMoment is one instant of a schedule.
type PreviewMoment struct {
	UTC   time.Time `json:"utc"`
	Local string    `json:"local" doc:"The same instant in the schedule's zone."`
	Flag  *string   `json:"flag" enum:"gap,first-of-two,second-of-two,excluded" doc:"What is special about it, if anything."`
}

// Occurrence is an instant of a job's schedule and its outcome.
type Occurrence struct {
	ScheduledTime time.Time `json:"scheduled_time"`
	Outcome       string    `json:"outcome" enum:"ran,waiting,caught_up,backfilled,skipped,missed,excluded,paused,planned" doc:"ran, caught_up (missed, and run later) and backfilled: its execution has started or ended, see status. waiting: its execution has not started; reason says whether it is caught up or backfilled. paused: decided when the job is resumed."`
	Reason        *string   `json:"reason"`
	ExecutionID   *string   `json:"execution_id"`
	Status        *string   `json:"status" doc:"The status of the execution."`
}

// Occurrences is one page of occurrences.
type Occurrences struct {
	Occurrences []Occurrence `json:"occurrences"`
	Pagination  Pagination   `json:"pagination"`
}

// Forecast predicts how many executions schedules will create.
type Forecast struct {
	Minutes   []ForecastMinute `json:"minutes" doc:"Minutes with executions."`
	Herds     []Herd           `json:"herds" doc:"Minutes with unusually many executions, the busiest first."`
	Truncated bool             `json:"truncated" doc:"There were too many to count at once. A full count runs in the background, and its result is returned for a minute."`
	Spread    *Spread          `json:"spread,omitempty" doc:"How to spread herds, if you asked for it and it is possible."`
}

// Spread suggests how to spread herds, by moving jobs within their hour.
type Spread struct {
	PeakBefore int64            `json:"peak_before" doc:"Executions in the busiest minute."`
	PeakAfter  int64            `json:"peak_after"`
	JobsTotal  int              `json:"jobs_total" doc:"Jobs to be moved."`
	Jobs       []SpreadJob      `json:"jobs" doc:"The first 200, those that add most to herds first."`
	Minutes    []ForecastMinute `json:"minutes" doc:"Minutes with executions, after the change."`
}

// SpreadJob is a suggested move of a job: a change of one of its fields.
type SpreadJob struct {
	JobID  string `json:"job_id"`
	Name   string `json:"name"`
	Field  string `json:"field"`
	Before string `json:"before"`
	After  string `json:"after"`
	Moved  int64  `json:"moved" doc:"How many of its instants lie in herds."`
}

// ForecastMinute counts the instants in a minute.
type ForecastMinute struct {
	At    time.Time `json:"at"`
	Count int64     `json:"count"`
}

// Herd is a minute in which unusually many instants fall together.
type Herd struct {
	At    time.Time `json:"at"`
	Count int64     `json:"count"`
	Jobs  []HerdJob `json:"jobs" doc:"The jobs that add most."`
}

// HerdJob is a job's share of a herd.
type HerdJob struct {
	JobID string `json:"job_id"`
	Name  string `json:"name"`
	Count int64  `json:"count"`
}

// CalendarRequest is the body of a request to create or replace a calendar.
type CalendarRequest struct {
	Dates    []string         `json:"dates,omitempty" doc:"Days, such as 2026-12-25."`
	Yearly   []string         `json:"yearly,omitempty" doc:"Days that recur every year, such as 12-25."`
	Weekdays []string         `json:"weekdays,omitempty" doc:"MON to SUN."`
	Windows  []CalendarWindow `json:"windows,omitempty" doc:"Windows of local time."`
	Timezone *string          `json:"timezone,omitempty" doc:"The calendar's time zone; the schedule's when omitted."`
}

// CalendarWindow is a range of local time that includes from and excludes to.
type CalendarWindow struct {
	From string `json:"from" doc:"A local time without a zone, such as 2026-12-24T18:00, or a date."`
	To   string `json:"to"`
}

// Calendar is a named list of times that schedules leave out, as returned by the API.
type Calendar struct {
	Name      string           `json:"name"`
	Dates     []string         `json:"dates"`
	Yearly    []string         `json:"yearly"`
	Weekdays  []string         `json:"weekdays"`
	Windows   []CalendarWindow `json:"windows"`
	Timezone  *string          `json:"timezone"`
	UpdatedAt time.Time        `json:"updated_at"`
}

// Calendars is all calendars of a tenant.
type Calendars struct {
	Calendars  []Calendar `json:"calendars"`
	Pagination Pagination `json:"pagination"`
}
