package client

import (
	"encoding/json"
	"time"
)

// Schedule describes when a job fires.
type Schedule struct {
	Type           string     `json:"type,omitempty" enum:"IMMEDIATE,ONE_TIME,CRON,INTERVAL,MANUAL" doc:"IMMEDIATE when omitted. A MANUAL job runs only when you trigger it."`
	ScheduledTime  *time.Time `json:"scheduled_time,omitempty" doc:"ONE_TIME: the instant to fire at. A past one fires at once."`
	CronExpression *string    `json:"cron_expression,omitempty" doc:"CRON: five fields, or six with seconds first, or a macro such as @daily."`
	Timezone       *string    `json:"timezone,omitempty" doc:"The zone in which the expression is read, such as Europe/Berlin; UTC when omitted."`
	Day            *string    `json:"day,omitempty" enum:"vixie,or,and" doc:"CRON: how the two day fields combine; vixie when omitted."`
	Every          *string    `json:"every,omitempty" doc:"INTERVAL: a duration such as 90s or 1h30m, at least 1s. It first fires one interval after start_at or, without that, after its creation."`
	JitterMS       *int64     `json:"jitter_ms,omitempty" doc:"An execution is due up to this many milliseconds after its instant; the delay of an instant never changes. Default 0."`
	StartAt        *time.Time `json:"start_at,omitempty" doc:"No instant before it."`
	EndAt          *time.Time `json:"end_at,omitempty" doc:"No instant at or after it."`
	MaxRuns        *int64     `json:"max_runs,omitempty" doc:"The job fires at most this often."`
	Calendar       *string    `json:"calendar,omitempty" doc:"The name of a calendar; the schedule skips what it excludes."`
}

// Expect describes which responses of a callback count as success.
type Expect struct {
	Status       []int   `json:"status,omitempty" doc:"Statuses that succeed; any 2xx when empty."`
	BodyContains *string `json:"body_contains,omitempty" doc:"Text that the response must contain."`
}

// Target describes what a job runs and how.
type Target struct {
	Target              string            `json:"target,omitempty" enum:"http,command,worker,simulate" doc:"http when omitted."`
	CallbackURL         string            `json:"callback_url,omitempty" doc:"http: the URL to call."`
	Method              string            `json:"method,omitempty" enum:"GET,POST,PUT,PATCH,DELETE,HEAD" doc:"http: POST when omitted."`
	Headers             map[string]string `json:"headers,omitempty" doc:"http: headers to send. Values of credential headers are not shown again."`
	Payload             json.RawMessage   `json:"payload,omitempty" doc:"Any JSON; sent as it was written."`
	TimeoutSeconds      *int64            `json:"timeout_seconds,omitempty" doc:"Limits one attempt; default 300."`
	StallTimeoutSeconds *int64            `json:"stall_timeout_seconds,omitempty" doc:"An attempt that reports no progress for this long has stalled and is retried."`
	TotalTimeoutSeconds *int64            `json:"total_timeout_seconds,omitempty" doc:"Limits all attempts together, from the first start."`
	Expect              *Expect           `json:"expect,omitempty"`
	FollowRedirects     bool              `json:"follow_redirects,omitempty"`
	Command             []string          `json:"command,omitempty" doc:"command: the program and its arguments; no shell interprets them. With entrypoint: only the arguments."`
	ArtifactID          string            `json:"artifact_id,omitempty" doc:"command: the artifact that is unpacked into the working folder."`
	Entrypoint          string            `json:"entrypoint,omitempty" doc:"command: the program in the artifact, or the file name for an artifact that is itself a program."`
	Env                 map[string]string `json:"env,omitempty" doc:"command: environment variables; the program gets hardly any others. Values of credentials are not shown again."`
	Kind                string            `json:"kind,omitempty" doc:"worker: the kind of handler that runs it."`
	WorkKind            string            `json:"work_kind,omitempty" enum:"noop,sleep,fail,fail_permanent,flaky,cancel,hang,random" doc:"simulate: what to pretend."`
	DurationMS          int64             `json:"duration_ms,omitempty" doc:"simulate: how long it takes."`
	FailAttempts        int               `json:"fail_attempts,omitempty" doc:"simulate flaky: how many attempts fail first."`
}

// RetryPolicy describes whether and when a failed attempt is retried.
type RetryPolicy struct {
	MaxRetries     *int   `json:"max_retries,omitempty" doc:"3 when omitted."`
	Backoff        string `json:"backoff,omitempty" enum:"FIXED,LINEAR,EXPONENTIAL" doc:"EXPONENTIAL when omitted."`
	InitialDelayMS *int64 `json:"initial_delay_ms,omitempty" doc:"1000 when omitted."`
	MaxDelayMS     *int64 `json:"max_delay_ms,omitempty" doc:"60000 when omitted."`
}

// RateLimit limits how many executions may start in a period.
type RateLimit struct {
	Count int    `json:"count" doc:"Starts, 1 to 1000000 …"`
	Per   string `json:"per" doc:"… in every duration such as 1s or 1m30s, 1ms to 24h."`
	Burst *int   `json:"burst,omitempty" doc:"How many may start at once; default: a tenth of a second's worth, at least 1."`
}

// Retention is a job's own limit on the days for which its finished executions are kept, within the tenant's.
type Retention struct {
	Days       int  `json:"days" doc:"1 to 36500. More than the tenant's retention has no effect."`
	FailedDays *int `json:"failed_days,omitempty" doc:"For executions that ended as FAILED, TIMED_OUT or EXPIRED; as days when omitted."`
}

// JobRequest is the body of a request to create a job.
type JobRequest struct {
	Name        string       `json:"name" doc:"1 to 255 characters; need not be unique."`
	Key         *string      `json:"key,omitempty" doc:"Unique in the tenant; you can use key:… instead of the id anywhere."`
	Description string       `json:"description,omitempty"`
	Schedule    *Schedule    `json:"schedule,omitempty"`
	Execution   Target       `json:"execution"`
	RetryPolicy *RetryPolicy `json:"retry_policy,omitempty"`
	Priority    *int         `json:"priority,omitempty" doc:"1 (highest) to 10; 5 when omitted."`
	Tags        []string     `json:"tags,omitempty"`
	Owner       *string      `json:"owner,omitempty"`
	Runbook     *string      `json:"runbook,omitempty"`
	Paused      *bool        `json:"paused,omitempty" doc:"For a new job that is not IMMEDIATE: true creates it paused, so that it does not fire until you resume it. To pause an existing job, use POST /jobs/{id}/pause."`

	Overlap      *string  `json:"overlap,omitempty" enum:"allow,skip,queue,replace" doc:"What happens if the job is due while an earlier run has not finished: run both (allow, the default), skip the new one (skip), let it wait (queue, one at a time), or cancel the earlier one (replace)."`
	CatchUp      *string  `json:"catch_up,omitempty" enum:"none,latest,all" doc:"Which missed runs to catch up, after a downtime or a pause; default latest."`
	CatchUpLimit *int     `json:"catch_up_limit,omitempty" doc:"How many of the latest missed instants catch_up all fires, 1 to 1000; 100 when omitted."`
	Labels       []string `json:"labels,omitempty"`
	Queue        *string  `json:"queue,omitempty"`

	MaxConcurrent    *int       `json:"max_concurrent,omitempty" doc:"How many executions of the job, or of each value of concurrency_key, may run at once."`
	ConcurrencyKey   *string    `json:"concurrency_key,omitempty" doc:"An expression over payload, such as payload.customer_id. Executions with the same value share the limits, including those of other jobs with the same expression; a missing field has the value null. Without max_concurrent and rate_limit, max_concurrent is 1."`
	RateLimit        *RateLimit `json:"rate_limit,omitempty" doc:"How many executions of the job, or of each value of concurrency_key, may start in a period."`
	UniqueKey        *string    `json:"unique_key,omitempty" doc:"1 to 255 characters. While an execution with this key has not finished, a request to create another returns that one, with the header Carillon-Deduplicated: true."`
	ExpiresAfter     *string    `json:"expires_after,omitempty" doc:"A duration such as 90s or 1h30m, up to 720h: an execution that has not started by then ends as EXPIRED."`
	AutoRedriveAfter *string    `json:"auto_redrive_after,omitempty" doc:"A duration: a dead letter of the job is redriven once, this long after it died."`
	Retention        *Retention `json:"retention,omitempty" doc:"Deletes the history of the job earlier than the tenant's retention does."`
}

// JobSchedule is a job's schedule as returned by the API.
type JobSchedule struct {
	Type           string     `json:"type"`
	Description    string     `json:"description,omitempty" doc:"CRON: the expression in one English sentence."`
	ScheduledTime  *time.Time `json:"scheduled_time,omitempty"`
	CronExpression *string    `json:"cron_expression,omitempty"`
	Timezone       *string    `json:"timezone,omitempty"`
	Day            *string    `json:"day,omitempty"`
	Every          *string    `json:"every,omitempty"`
	JitterMS       *int64     `json:"jitter_ms,omitempty"`
	StartAt        *time.Time `json:"start_at,omitempty"`
	EndAt          *time.Time `json:"end_at,omitempty"`
	MaxRuns        *int64     `json:"max_runs,omitempty"`
	Calendar       *string    `json:"calendar,omitempty"`
	NextRunAt      *time.Time `json:"next_run_at" doc:"null if no instant is planned or the job is paused."`
	LastRunAt      *time.Time `json:"last_run_at"`
}

// JobTarget is the target of a job, as returned by the API.
type JobTarget struct {
	Target          string            `json:"target"`
	CallbackURL     string            `json:"callback_url,omitempty"`
	Method          string            `json:"method,omitempty"`
	Headers         map[string]string `json:"headers"`
	Payload         json.RawMessage   `json:"payload"`
	TimeoutSeconds  int64             `json:"timeout_seconds"`
	StallTimeout    *int64            `json:"stall_timeout_seconds"`
	TotalTimeout    *int64            `json:"total_timeout_seconds"`
	Expect          *Expect           `json:"expect"`
	FollowRedirects bool              `json:"follow_redirects"`
	Command         []string          `json:"command,omitempty"`
	ArtifactID      string            `json:"artifact_id,omitempty"`
	Entrypoint      string            `json:"entrypoint,omitempty"`
	Env             map[string]string `json:"env,omitempty"`
	Kind            string            `json:"kind,omitempty"`
	WorkKind        string            `json:"work_kind,omitempty"`
	DurationMS      int64             `json:"duration_ms,omitempty"`
	FailAttempts    int               `json:"fail_attempts,omitempty"`
}

// JobRetryPolicy is a job's retry policy as returned by the API.
type JobRetryPolicy struct {
	MaxRetries     int    `json:"max_retries"`
	Backoff        string `json:"backoff"`
	InitialDelayMS int64  `json:"initial_delay_ms"`
	MaxDelayMS     int64  `json:"max_delay_ms"`
}

// Stats sums up the finished executions of a job.
type Stats struct {
	TotalRuns     int64   `json:"total_runs"`
	SuccessRate   float64 `json:"success_rate" doc:"0 to 1."`
	AvgDurationMS int64   `json:"avg_duration_ms"`
	P95DurationMS int64   `json:"p95_duration_ms"`
	LastStatus    *string `json:"last_status"`
}

// Job is a job as returned by the API.
type Job struct {
	JobID       string         `json:"job_id"`
	ExecutionID string         `json:"execution_id,omitempty" doc:"In the response to creating an IMMEDIATE job: its execution."`
	OperationID string         `json:"operation_id,omitempty" doc:"In the response to deleting a job with very many waiting executions: the operation that cancels the rest of them."`
	Key         *string        `json:"key"`
	Name        string         `json:"name"`
	Description string         `json:"description"`
	Status      string         `json:"status" enum:"ACTIVE,PAUSED,COMPLETED,DELETED"`
	Schedule    JobSchedule    `json:"schedule"`
	Execution   JobTarget      `json:"execution"`
	RetryPolicy JobRetryPolicy `json:"retry_policy"`
	Priority    int            `json:"priority"`
	Tags        []string       `json:"tags"`
	Owner       *string        `json:"owner"`
	Runbook     *string        `json:"runbook"`
	Stats       Stats          `json:"stats"`

	Overlap      string   `json:"overlap"`
	CatchUp      string   `json:"catch_up"`
	CatchUpLimit int      `json:"catch_up_limit"`
	Labels       []string `json:"labels"`
	Queue        string   `json:"queue"`

	MaxConcurrent    *int       `json:"max_concurrent"`
	ConcurrencyKey   *string    `json:"concurrency_key"`
	RateLimit        *RateLimit `json:"rate_limit"`
	UniqueKey        *string    `json:"unique_key"`
	ExpiresAfter     *string    `json:"expires_after"`
	AutoRedriveAfter *string    `json:"auto_redrive_after"`
	Retention        *Retention `json:"retention"`

	DependsOn []string `json:"depends_on,omitempty" doc:"The ids of the jobs that it depends on; see /jobs/{id}/dependencies."`

	PauseReason *string    `json:"pause_reason,omitempty" doc:"If the job is PAUSED: why."`
	PausedUntil *time.Time `json:"paused_until,omitempty" doc:"If the job is PAUSED: when it resumes by itself."`

	CreatedAt time.Time `json:"created_at"`
	UpdatedAt time.Time `json:"updated_at"`
	Revision  int       `json:"revision"`

	DroppedCredentials []string `json:"dropped_credentials,omitempty" doc:"In the response to a change: hidden headers and variables that were removed because the job now calls another origin or runs another program. Send their values again to keep them."`

	Deduplicated bool `json:"-"` // nothing was created: this is the job whose execution holds the unique key
}

// Pagination describes the position of a page in its list.
type Pagination struct {
	Limit           int     `json:"limit"`
	Total           int64   `json:"total" doc:"Exact up to 10000, then an estimate."`
	TotalIsEstimate bool    `json:"total_is_estimate,omitempty"`
	NextCursor      *string `json:"next_cursor" doc:"null at the end."`
	Partial         bool    `json:"partial,omitempty" doc:"The search stopped early; next_cursor continues it, even if the page is empty."`
}

// Jobs is one page of jobs.
type Jobs struct {
	Jobs       []Job      `json:"jobs"`
	Pagination Pagination `json:"pagination"`
}

// CreatedJob names one job of a batch.
type CreatedJob struct {
	JobID       string `json:"job_id"`
	ExecutionID string `json:"execution_id,omitempty"`
}

// CreatedJobs is the answer to creating a batch, in its order.
type CreatedJobs struct {
	Jobs []CreatedJob `json:"jobs"`
}

// TriggerRequest is the body of a request to run a job now.
type TriggerRequest struct {
	PayloadOverride json.RawMessage `json:"payload_override,omitempty" doc:"Replaces the job's payload for this execution."`
}

// Triggered is the response to running a job now.
type Triggered struct {
	ExecutionID   string    `json:"execution_id"`
	JobID         string    `json:"job_id"`
	Status        string    `json:"status"`
	ScheduledTime time.Time `json:"scheduled_time"`

	Deduplicated bool `json:"-"` // nothing was started: this is the execution that holds the unique key
}
