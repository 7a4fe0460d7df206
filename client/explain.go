package client

import "time"

// Explanation describes why an execution waits, what it is doing, or how it ended.
type Explanation struct {
	ExecutionID    string             `json:"execution_id"`
	JobID          string             `json:"job_id"`
	Status         string             `json:"status" enum:"WAITING,PENDING,RUNNING,RETRYING,CANCELLING,SUCCEEDED,FAILED,TIMED_OUT,CANCELLED,SKIPPED,EXPIRED"`
	Code           string             `json:"code" enum:"NOT_DUE,JOB_PAUSED,QUEUE_PAUSED,OVERLAP,NO_WORKERS,NO_MATCHING_WORKER,CONCURRENCY_LIMIT,RATE_LIMIT,ALL_SLOTS_BUSY,READY,RETRY_BACKOFF,CIRCUIT_OPEN,SNOOZED,RUNNING,AWAITING_COMPLETION,CANCELLING,SUCCEEDED,ATTEMPTS_EXHAUSTED,NOT_RETRYABLE,POISON,STALLED,AWAITING_APPROVAL,RUN_PAUSED,TIMED_OUT,CANCELLED,SKIPPED,EXPIRED"`
	Summary        string             `json:"summary" doc:"One sentence."`
	Since          *time.Time         `json:"since"`
	EstimatedStart *time.Time         `json:"estimated_start" doc:"null if it is not known, or if it does not start again."`
	Details        ExplanationDetails `json:"details"`
}

// ExplanationDetails holds the facts of an explanation; irrelevant ones are left out.
type ExplanationDetails struct {
	Until       *time.Time                `json:"until,omitempty" doc:"When it can start, or must have ended."`
	Attempt     int                       `json:"attempt"`
	MaxAttempts int                       `json:"max_attempts"`
	Error       *Error                    `json:"error,omitempty" doc:"The error of the last attempt that failed, or its own."`
	ExitCode    *int                      `json:"exit_code,omitempty"`
	Reason      string                    `json:"reason,omitempty" doc:"Why it was paused, cancelled, skipped or snoozed."`
	By          string                    `json:"by,omitempty" doc:"Who paused its queue."`
	WorkerID    *string                   `json:"worker_id,omitempty"`
	Progress    *Progress                 `json:"progress,omitempty"`
	Needs       *ExplanationNeeds         `json:"needs,omitempty" doc:"What it requires of a worker."`
	Parents     []string                  `json:"parents,omitempty" doc:"Jobs that it waits for, by key or else by name."`
	Lacks       []string                  `json:"lacks,omitempty" doc:"Requirements that no worker meets."`
	Workers     *int                      `json:"workers,omitempty" doc:"Workers that are connected and take executions of the tenant."`
	Matching    *int                      `json:"matching_workers,omitempty" doc:"Of those, how many can run it."`
	Slots       *int                      `json:"slots,omitempty" doc:"Slots of the workers that can run it."`
	BusySlots   *int                      `json:"busy_slots,omitempty" doc:"As of their last heartbeats."`
	Limit       *ExplanationLimit         `json:"limit,omitempty"`
	Ahead       *int                      `json:"ahead,omitempty" doc:"How many of the tenant's executions with the same worker requirements start before it."`
	AheadIsMin  bool                      `json:"ahead_is_minimum,omitempty"`
	RunID       *string                   `json:"workflow_run_id,omitempty" doc:"The run of a workflow that it is, or that it is a node of."`
	Node        string                    `json:"node,omitempty" doc:"The node of the run that it is."`
	Item        *int                      `json:"item,omitempty" doc:"The item of the node's map that it is."`
	Nodes       []WorkflowNodeExplanation `json:"nodes,omitempty" doc:"Of a run: up to 50 nodes that have not ended, or ended otherwise than by success."`
}

// ExplanationNeeds lists what an execution requires of a worker.
type ExplanationNeeds struct {
	Target string   `json:"target"`
	Kind   string   `json:"kind,omitempty"`
	Queue  string   `json:"queue"`
	Labels []string `json:"labels"`
}

// ExplanationLimit is a limit that keeps an execution from starting.
type ExplanationLimit struct {
	Scope          string     `json:"scope" enum:"tenant,queue,job,key"`
	Queue          string     `json:"queue,omitempty"`
	ConcurrencyKey string     `json:"concurrency_key,omitempty"`
	MaxConcurrent  *int       `json:"max_concurrent,omitempty"`
	Current        *int       `json:"current,omitempty" doc:"How many run under this limit."`
	RateLimit      *RateLimit `json:"rate_limit,omitempty"`

	HeldBy []ExplanationShare `json:"held_by,omitempty" doc:"Servers that hold all of the limit's capacity, if there is none left."`
}

// ExplanationShare is a server's share of a limit.
type ExplanationShare struct {
	Server string `json:"server"`
	Shares int    `json:"shares"`
}
