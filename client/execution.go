package client

import (
	"encoding/json"
	"time"
)

// CallbackResponse is what a callback answered.
type CallbackResponse struct {
	HTTPStatus  int    `json:"http_status"`
	BodyPreview string `json:"body_preview" doc:"The first 4 KiB."`
}

// Error says why an attempt or an execution failed.
type Error struct {
	Type       string `json:"type" enum:"TIMEOUT,HTTP_ERROR,CONNECTION_REFUSED,CONNECTION_RESET,DNS_RESOLUTION_FAILED,TLS_ERROR,BLOCKED_ADDRESS,EXIT_CODE,PANIC,POISON,HANDLER_ERROR,LEASE_LOST,STALLED,CANCELLED,INTERNAL"`
	Message    string `json:"message"`
	HTTPStatus int    `json:"http_status,omitempty"`
}

// Execution is one execution as answered.
type Execution struct {
	ExecutionID      string            `json:"execution_id"`
	JobID            string            `json:"job_id"`
	JobName          string            `json:"job_name"`
	Status           string            `json:"status" enum:"WAITING,PENDING,RUNNING,RETRYING,CANCELLING,SUCCEEDED,FAILED,TIMED_OUT,CANCELLED,SKIPPED,EXPIRED"`
	Trigger          string            `json:"trigger" enum:"schedule,manual,catch_up,backfill,retry,redrive,workflow"`
	ScheduledTime    time.Time         `json:"scheduled_time"`
	DueAt            time.Time         `json:"due_at" doc:"When it may next start."`
	StartedAt        *time.Time        `json:"started_at" doc:"When its first attempt started."`
	FinishedAt       *time.Time        `json:"finished_at"`
	DurationMS       *int64            `json:"duration_ms" doc:"From its first start to its end."`
	TriggerDelayMS   int64             `json:"trigger_delay_ms" doc:"How long after its scheduled time it was fired."`
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
}

// Progress is how far an execution says it has come.
type Progress struct {
	Percent int    `json:"percent"`
	Message string `json:"message"`
}

// Executions is one page of executions.
type Executions struct {
	Executions []Execution `json:"executions"`
	Pagination Pagination  `json:"pagination"`
}

// PastAttempt is an attempt that failed or was lost.
type PastAttempt struct {
	AttemptNumber int       `json:"attempt_number"`
	FencingToken  int64     `json:"fencing_token"`
	WorkerID      *string   `json:"worker_id"`
	StartedAt     time.Time `json:"started_at"`
	EndedAt       time.Time `json:"ended_at"`
	DurationMS    int64     `json:"duration_ms"`
	Error         Error     `json:"error"`
}

// PastAttempts is the failed and lost attempts of an execution, the first one first.
type PastAttempts struct {
	Attempts   []PastAttempt `json:"attempts"`
	Pagination Pagination    `json:"pagination"`
}

// CancelRequest is the body of a request to cancel an execution.
type CancelRequest struct {
	Reason string `json:"reason,omitempty" doc:"Kept with the execution."`
}

// DeadLetter is an execution that failed for good.
type DeadLetter struct {
	ExecutionID    string        `json:"execution_id"`
	JobID          string        `json:"job_id"`
	JobName        string        `json:"job_name"`
	Status         string        `json:"status" enum:"FAILED,TIMED_OUT"`
	Reason         string        `json:"reason" enum:"ATTEMPTS_EXHAUSTED,NOT_RETRYABLE,POISON"`
	DeadLetteredAt time.Time     `json:"dead_lettered_at"`
	TotalAttempts  int           `json:"total_attempts"`
	Errors         []PastAttempt `json:"errors" doc:"The whole history, the first attempt first."`
}

// DeadLetters is one page of dead letters.
type DeadLetters struct {
	DeadLetters []DeadLetter `json:"dead_letters"`
	Pagination  Pagination   `json:"pagination"`
}

// DiscardRequest names dead letters to discard.
type DiscardRequest struct {
	IDs []string `json:"ids" doc:"Execution ids, 1000 at the most."`
}

// Discarded is how many dead letters were discarded.
type Discarded struct {
	Discarded int `json:"discarded"`
}
