package client

import (
	"encoding/json"
	"time"
)

// JobFilter selects jobs, like the parameters of the list; an empty filter selects all that are not deleted.
type JobFilter struct {
	Status       string `json:"status,omitempty" enum:"ACTIVE,PAUSED,COMPLETED,DELETED"`
	Tag          string `json:"tag,omitempty" doc:"Jobs that have this tag."`
	WithoutTag   string `json:"without_tag,omitempty" doc:"Jobs that do not have this tag."`
	Name         string `json:"name,omitempty" doc:"Jobs with exactly this name."`
	ScheduleType string `json:"schedule_type,omitempty" enum:"IMMEDIATE,ONE_TIME,CRON,INTERVAL,MANUAL"`
	Owner        string `json:"owner,omitempty" doc:"Jobs with exactly this owner."`
	Late         bool   `json:"late,omitempty" doc:"ACTIVE jobs that should have fired more than five seconds ago and have not."`
	Q            string `json:"q,omitempty" doc:"Text in name, description or key."`
}

// BulkRequest applies one action to many jobs, named by ids or by a filter.
type BulkRequest struct {
	Action          string          `json:"action" enum:"pause,resume,delete,trigger,tag,untag"`
	IDs             []string        `json:"ids,omitempty" doc:"Up to 1000 job ids."`
	Filter          *JobFilter      `json:"filter,omitempty" doc:"Instead of ids. Jobs that are created after the request are not included."`
	Reason          string          `json:"reason,omitempty" doc:"For pause: why."`
	Until           *time.Time      `json:"until,omitempty" doc:"For pause: when it ends by itself."`
	Tags            []string        `json:"tags,omitempty" doc:"Tags to add (tag) or remove (untag)."`
	PayloadOverride json.RawMessage `json:"payload_override,omitempty" doc:"For trigger: replaces each job's payload."`
	RatePerS        *float64        `json:"rate_per_s,omitempty" doc:"How many a second, from 0.001 to 10000; no limit when omitted."`
	DryRun          bool            `json:"dry_run,omitempty" doc:"Only count them, and show the first."`
}

// BulkBegun names an operation over jobs that has begun, and how many jobs it covers; without an id it was a dry run.
type BulkBegun struct {
	OperationID     string       `json:"operation_id,omitempty"`
	Count           int64        `json:"count"`
	CountIsEstimate bool         `json:"count_is_estimate,omitempty"`
	Sample          []BulkSample `json:"sample,omitempty" doc:"For a dry run: the first ten."`
}

// ExecutionSelection selects executions, like the parameters of the list.
type ExecutionSelection struct {
	Status    string `json:"status,omitempty" doc:"One or more, separated by commas. When omitted: for cancel, all that have not ended; for retry, FAILED and TIMED_OUT."`
	JobID     string `json:"job_id,omitempty" doc:"Its id, or its key as key:…"`
	JobName   string `json:"job_name,omitempty"`
	Tag       string `json:"tag,omitempty" doc:"Executions of jobs that have this tag."`
	WorkerID  string `json:"worker_id,omitempty"`
	Trigger   string `json:"trigger,omitempty" doc:"One or more, separated by commas."`
	StartDate string `json:"start_date,omitempty" doc:"Scheduled at or after this date or time."`
	EndDate   string `json:"end_date,omitempty" doc:"Scheduled before this date or time."`
	Q         string `json:"q,omitempty" doc:"Text in the job's name or in the error, or an id."`
}

// ExecutionBulkRequest cancels or retries many executions, named by ids or by a filter.
type ExecutionBulkRequest struct {
	Action          string              `json:"action" enum:"cancel,retry"`
	IDs             []string            `json:"ids,omitempty" doc:"Up to 1000 execution ids."`
	Filter          *ExecutionSelection `json:"filter,omitempty" doc:"Instead of ids. Executions scheduled after the request are not included."`
	Reason          string              `json:"reason,omitempty" doc:"Why it was cancelled."`
	PayloadOverride json.RawMessage     `json:"payload_override,omitempty" doc:"For retry: replaces each execution's payload."`
	RatePerS        *float64            `json:"rate_per_s,omitempty" doc:"How many a second, from 0.001 to 10000; no limit when omitted."`
	DryRun          bool                `json:"dry_run,omitempty" doc:"Only count them, and show the first."`
}

// ExecutionBulkBegun names an operation over executions that has begun, and how many executions it covers; without an
// id it was a dry run.
type ExecutionBulkBegun struct {
	OperationID     string            `json:"operation_id,omitempty"`
	Count           int64             `json:"count"`
	CountIsEstimate bool              `json:"count_is_estimate,omitempty"`
	Sample          []ExecutionSample `json:"sample,omitempty" doc:"For a dry run: the first ten."`
}

// ExecutionSample is one of the executions that a selection matches.
type ExecutionSample struct {
	ExecutionID   string    `json:"execution_id"`
	JobID         string    `json:"job_id"`
	JobName       string    `json:"job_name"`
	Status        string    `json:"status"`
	ScheduledTime time.Time `json:"scheduled_time"`
}

// BulkSample is one of the jobs that a selection matches.
type BulkSample struct {
	JobID  string `json:"job_id"`
	Name   string `json:"name"`
	Status string `json:"status"`
}
