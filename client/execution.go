package client

import (
	"encoding/json"
	"time"
)

// CallbackResponse is the response of a callback.
type CallbackResponse struct {
	HTTPStatus  int    `json:"http_status"`
	BodyPreview string `json:"body_preview" doc:"The first 4 KiB."`
}

// Error describes why an attempt or an execution failed.
type Error struct {
	Type       string `json:"type" enum:"TIMEOUT,HTTP_ERROR,CONNECTION_REFUSED,CONNECTION_RESET,DNS_RESOLUTION_FAILED,TLS_ERROR,BLOCKED_ADDRESS,EXIT_CODE,PANIC,POISON,HANDLER_ERROR,LEASE_LOST,STALLED,CANCELLED,SKIPPED,EXPRESSION,MAP_NOT_A_LIST,MAP_TOO_WIDE,MAP_FAILED,REJECTED,RESULT_TOO_LARGE,INPUT_TOO_LARGE,PAYLOAD_TOO_LARGE,JOB_DELETED,NODE_FAILED,INPUT,WORKFLOW_VERSION,INTERNAL"`
	Message    string `json:"message"`
	HTTPStatus int    `json:"http_status,omitempty"`
}

// Execution is one execution as returned by the API.
type Execution struct {
	ExecutionID      string            `json:"execution_id"`
	JobID            string            `json:"job_id"`
	JobName          string            `json:"job_name"`
	Status           string            `json:"status" enum:"WAITING,PENDING,RUNNING,RETRYING,CANCELLING,SUCCEEDED,FAILED,TIMED_OUT,CANCELLED,SKIPPED,EXPIRED"`
	Trigger          string            `json:"trigger" enum:"api,schedule,manual,catch_up,backfill,retry,redrive,workflow" doc:"api: created to run at once."`
	ScheduledTime    time.Time         `json:"scheduled_time"`
	DueAt            time.Time         `json:"due_at" doc:"When it may next start."`
	StartedAt        *time.Time        `json:"started_at" doc:"When its first attempt started."`
	FinishedAt       *time.Time        `json:"finished_at"`
	DurationMS       *int64            `json:"duration_ms" doc:"Time from its first start to its end."`
	TriggerDelayMS   int64             `json:"trigger_delay_ms" doc:"How long after its scheduled time it fired, or after the creation of its job if that came later."`
	AttemptNumber    int               `json:"attempt_number"`
	MaxAttempts      int               `json:"max_attempts"`
	LostAttempts     int               `json:"lost_attempts"`
	Metadata         map[string]string `json:"metadata"`
	WorkerID         *string           `json:"worker_id"`
	Priority         int               `json:"priority"`
	IdempotencyKey   string            `json:"idempotency_key"`
	CallbackResponse *CallbackResponse `json:"callback_response"`
	Result           json.RawMessage   `json:"result"`
	Error            *Error            `json:"error"`
	Progress         *Progress         `json:"progress"`
	RetryOf          *string           `json:"retry_of"`
	PayloadOverride  json.RawMessage   `json:"payload_override,omitempty" doc:"The payload that replaces the job's. Only when you read a single execution that has one."`
}

// Progress is the progress that an execution reports.
type Progress struct {
	Percent int    `json:"percent" doc:"0 to 100."`
	Message string `json:"message" doc:"At most 1000 characters."`
}

// Executions is one page of executions.
type Executions struct {
	Executions  []Execution `json:"executions"`
	Pagination  Pagination  `json:"pagination"`
	UnreadFiles []string    `json:"unread_files,omitempty" doc:"Archived files that are gone or damaged: what they hold is missing here."`
}

// ExecutionAttempt is one attempt of an execution, running or ended.
type ExecutionAttempt struct {
	AttemptNumber int        `json:"attempt_number"`
	FencingToken  int64      `json:"fencing_token"`
	WorkerID      *string    `json:"worker_id"`
	Status        string     `json:"status" enum:"RUNNING,PARKED,SUCCEEDED,FAILED,TIMED_OUT,CANCELLED,SKIPPED,LOST" doc:"PARKED: its target completes it later. SKIPPED: its worker found nothing to do. LOST: its lease ended without a result."`
	StartedAt     time.Time  `json:"started_at"`
	FinishedAt    *time.Time `json:"finished_at" doc:"Null while it has not ended."`
	DurationMS    int64      `json:"duration_ms" doc:"Until now while it has not ended."`
	Error         *Error     `json:"error"`
}

// ExecutionAttempts is one page of the attempts of an execution, earliest first.
type ExecutionAttempts struct {
	Attempts   []ExecutionAttempt `json:"attempts"`
	Pagination Pagination         `json:"pagination"`
}

// CancelRequest is the body of a request to cancel an execution.
type CancelRequest struct {
	Reason string `json:"reason,omitempty" doc:"Kept with the execution."`
}

// DeadLetter is an execution that failed permanently.
type DeadLetter struct {
	ExecutionID    string             `json:"execution_id"`
	JobID          string             `json:"job_id"`
	JobName        string             `json:"job_name"`
	Status         string             `json:"status" enum:"FAILED,TIMED_OUT"`
	Reason         string             `json:"reason" enum:"ATTEMPTS_EXHAUSTED,NOT_RETRYABLE,POISON"`
	DeadLetteredAt time.Time          `json:"dead_lettered_at"`
	TotalAttempts  int                `json:"total_attempts"`
	Errors         []ExecutionAttempt `json:"errors" doc:"Every attempt that failed or was lost, earliest first."`
}

// DeadLetters is one page of dead letters.
type DeadLetters struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Pagination  Pagination   `json:"pagination"`
}

// DeadLetterFilter selects dead letters, like the parameters of the list; an empty filter selects all.
type DeadLetterFilter struct {
	JobID     string `json:"job_id,omitempty"`
	Reason    string `json:"reason,omitempty" enum:"ATTEMPTS_EXHAUSTED,NOT_RETRYABLE,POISON"`
	Q         string `json:"q,omitempty" doc:"Text in the last error."`
	StartDate string `json:"start_date,omitempty" doc:"Died at or after this date or time."`
	EndDate   string `json:"end_date,omitempty" doc:"Died before this date or time."`

	Fingerprint string `json:"fingerprint,omitempty" doc:"The fingerprint of a group of dead letters. Not for lists."`
}

// DeadLetterRequest names dead letters, by ids or by a filter, to redrive or discard.
type DeadLetterRequest struct {
	IDs      []string          `json:"ids,omitempty" doc:"Up to 1000 execution ids."`
	Filter   *DeadLetterFilter `json:"filter,omitempty" doc:"Instead of ids. Executions that die after the request are not included."`
	RatePerS *float64          `json:"rate_per_s,omitempty" doc:"How many a second, from 0.001 to 10000; no limit when omitted."`
	DryRun   bool              `json:"dry_run,omitempty" doc:"Only count them."`
}

// Discarded counts the discarded dead letters.
type Discarded struct {
	Discarded int `json:"discarded"`
}

// Begun names an operation that has begun, and how many things it covers; without an id it was a dry run.
type Begun struct {
	OperationID     string `json:"operation_id,omitempty"`
	Count           int64  `json:"count"`
	CountIsEstimate bool   `json:"count_is_estimate,omitempty" doc:"For a dry run: the count is an estimate."`
	CountIsMinimum  bool   `json:"count_is_minimum,omitempty" doc:"For a dry run by fingerprint: the count is a minimum, because older ones were not examined."`
}

// Operation is a bulk action that runs in the background.
type Operation struct {
	OperationID string     `json:"operation_id"`
	Kind        string     `json:"kind" enum:"redrive,discard,backfill,replan,pause,resume,delete,trigger,tag,untag,cancel_executions,retry_executions,cancel_waiting"`
	State       string     `json:"state" enum:"RUNNING,SUCCEEDED,FAILED,CANCELLED"`
	Total       int64      `json:"total" doc:"Counted when the operation started; for a replan, found so far."`
	Done        int64      `json:"done"`
	Passed      int64      `json:"passed" doc:"Skipped, because they are gone or the action does not apply."`
	RatePerS    *float64   `json:"rate_per_s"`
	CreatedBy   string     `json:"created_by"`
	CreatedAt   time.Time  `json:"created_at"`
	UpdatedAt   time.Time  `json:"updated_at"`
	FinishedAt  *time.Time `json:"finished_at"`
	Error       *string    `json:"error" doc:"Why it failed or, if it succeeded, why it skipped some."`
}

// Operations is one page of operations, newest first.
type Operations struct {
	Operations []Operation `json:"operations"`
	Pagination Pagination  `json:"pagination"`
}

// Event is something that happened to an execution.
type Event struct {
	At           time.Time `json:"at"`
	Type         string    `json:"type" enum:"created,started,attempt_failed,attempt_lost,released,snoozed,parked,result_refused,cancel_requested,forced,finished,rerun,discarded"`
	Attempt      *int      `json:"attempt"`
	FencingToken *int64    `json:"fencing_token"`
	WorkerID     *string   `json:"worker_id"`
	Detail       string    `json:"detail,omitempty"`
}

// Events lists everything that happened to an execution, oldest first.
type Events struct {
	Events     []Event    `json:"events"`
	Pagination Pagination `json:"pagination"`
}

// Report sums up an execution: how it ended, and where its time went.
type Report struct {
	ExecutionID       string             `json:"execution_id"`
	JobID             string             `json:"job_id"`
	JobName           string             `json:"job_name"`
	Status            string             `json:"status"`
	Trigger           string             `json:"trigger"`
	ScheduledTime     time.Time          `json:"scheduled_time"`
	StartedAt         *time.Time         `json:"started_at"`
	FinishedAt        *time.Time         `json:"finished_at"`
	TriggerDelayMS    int64              `json:"trigger_delay_ms" doc:"Time from when it could first fire until it fired."`
	QueueWaitMS       int64              `json:"queue_wait_ms" doc:"Time from when it was due until its first start, or until now."`
	RunningMS         int64              `json:"running_ms" doc:"Time spent in attempts."`
	BetweenAttemptsMS int64              `json:"between_attempts_ms"`
	TotalMS           int64              `json:"total_ms" doc:"Time from its first start to its end, or until now."`
	LostAttempts      int                `json:"lost_attempts"`
	MaxAttempts       int                `json:"max_attempts"`
	Attempts          []ExecutionAttempt `json:"attempts" doc:"All attempts, earliest first, including the one that runs or ran last."`
	Errors            []Error            `json:"errors" doc:"The errors of its attempts and its own, earliest first."`
	CallbackResponse  *CallbackResponse  `json:"callback_response"`
	Result            json.RawMessage    `json:"result"`
}
