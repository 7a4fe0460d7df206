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
